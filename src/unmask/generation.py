"""generate(): a language or a denoiser, a sampler and a schedule make sequences, with an honest account of the cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask import progress
from unmask.chance import Luck, check_seed
from unmask.denoisers import Denoiser, Exact
from unmask.errors import UnmaskError
from unmask.files import origin, write_json
from unmask.languages import Language
from unmask.languages.base import MESSAGE_BYTES
from unmask.samplers import SAMPLERS, Sampler, Session, fill
from unmask.samples import account_path, digest, write_tokens
from unmask.schedules import Schedule, deltas
from unmask.threads import over_blocks

ROWS_A_BLOCK = (8, 4096)


@dataclass(frozen=True)
class Generation:
    """What came out, and what it cost; B rows of L tokens."""

    tokens: Tensor  # (B, L)
    order: Tensor  # (B, L): the round that revealed each token, 0 where it was given
    probability: Tensor  # (B, L): of each token when it was revealed, 1 where it was given
    evaluations: Tensor  # (B): evaluations that each row needed, of all denoisers together
    evaluations_of: dict[str, Tensor]  # the same for each: "denoiser", "causal"
    forwards: int  # batched calls
    rows_computed: int  # rows in those calls: what was paid for
    impossible: Tensor  # (B): the evaluation at which the context had probability zero for the first time, or 0
    seconds: float
    planned: bool  # whether the order was fixed before any token was seen
    configuration: dict[str, Any] = field(default_factory=dict)
    ideal: Language | None = None  # the language whose ideal denoiser filled it, if that is what did

    def summary(self) -> dict[str, Any]:
        rows, length = self.tokens.shape
        return {
            "rows": rows,
            "length": length,
            "evaluations": float(self.evaluations.double().mean()),
            "evaluations_of": {name: float(count.double().mean()) for name, count in self.evaluations_of.items()},
            "forwards": self.forwards,
            "rows_computed": self.rows_computed,
            "impossible_rows": int((self.impossible > 0).sum()),
            "seconds": self.seconds,
        }

    def save(self, path: str | Path) -> None:
        """Tokens as .npy, or as .jsonl with one list a line; what made them in PATH.json beside it."""
        path = Path(path)
        write_tokens(path, self.tokens)
        account = self.summary() | {"tokens_sha256": digest(self.tokens), "origin": origin(**self.configuration)}
        write_json(account_path(path), account)


def generate(
    source: Language | Denoiser,
    *,
    sampler: str | Sampler = "ancestral",
    schedule: Schedule = "linear",
    steps: int | None = None,
    length: int = 512,
    rows: int = 2000,
    seed: int = 0,
    first_row: int = 0,
    given: Tensor | Sequence[int] | None = None,
) -> Generation:
    """Fill `rows` canvases of `length` positions. Row r depends on the seed and on first_row + r alone.

    source: a language, whose ideal denoiser is used, or any denoiser.
    sampler, schedule: a name with options, "blocks(block_length=16)"; or an instance, or a list of delta_k.
    steps: the number of rounds N; 64 for a named schedule unless told otherwise.
    given: tokens (length) or (rows, length) to start from, V where hidden.
    """
    denoiser = Exact(source) if isinstance(source, Language) else source
    used = SAMPLERS.make(sampler) if isinstance(sampler, str) else sampler
    if steps is None and isinstance(schedule, str):
        steps = 64
    delta = deltas(schedule, steps)
    if rows < 1:
        raise UnmaskError(f"rows is {rows}, but at least 1 row is needed")
    if length < 1:
        raise UnmaskError(f"length is {length}, but a sequence has at least 1 token")
    if not 0 <= first_row <= 2**63 - rows:
        raise UnmaskError(f"first_row is {first_row}; rows are numbered from 0 to 2^63 - 1")
    name = f"sampler {sampler if isinstance(sampler, str) else type(sampler).__name__}"
    start = _start(source, denoiser, given, rows, length)
    block = min(max(MESSAGE_BYTES // denoiser.row_bytes(length), ROWS_A_BLOCK[0]), ROWS_A_BLOCK[1], rows)
    configuration = {
        "sampler": sampler if isinstance(sampler, str) else repr(sampler),
        "schedule": schedule if isinstance(schedule, str) else delta.tolist(),
        "steps": len(delta),
        "length": length,
        "rows": rows,
        "seed": seed,
        "first_row": first_row,
    }

    def make(part: slice) -> Generation:
        began = time.perf_counter()
        luck = Luck(check_seed(seed), torch.arange(first_row + part.start, first_row + part.stop))
        session = Session(denoiser, start[part], luck, delta, name)
        fill(used, session)
        return _account(session, time.perf_counter() - began, configuration)

    began = time.perf_counter()
    parts = []
    with progress.track("generating", rows) as advance:
        for part in over_blocks(make, rows, block):
            parts.append(part)
            advance(len(part.tokens))
    return replace(join(parts, configuration), seconds=time.perf_counter() - began)


def join(parts: Sequence[Generation], configuration: dict[str, Any]) -> Generation:
    """Blocks of rows as one generation: the same as if they had been made together."""
    rows = {
        name: torch.cat([getattr(part, name) for part in parts])
        for name in ("tokens", "order", "probability", "evaluations", "impossible")
    }
    return Generation(
        **rows,
        evaluations_of={name: torch.cat([p.evaluations_of[name] for p in parts]) for name in parts[0].evaluations_of},
        forwards=sum(part.forwards for part in parts),
        rows_computed=sum(part.rows_computed for part in parts),
        seconds=sum(part.seconds for part in parts),
        planned=parts[0].planned,
        ideal=parts[0].ideal,
        configuration=configuration,
    )


def _account(session: Session, seconds: float, configuration: dict[str, Any]) -> Generation:
    """What is kept of a finished session: its messages are not."""
    evaluations_of: dict[str, Tensor] = {}
    forwards = rows_computed = 0
    impossible = torch.zeros(len(session.tokens), dtype=torch.int64)
    if session.uses("canvas"):
        canvas = session.canvas
        evaluations_of["denoiser"] = canvas.evaluations
        forwards, rows_computed, impossible = canvas.forwards, canvas.rows_computed, canvas.impossible
    if session.uses("causal"):
        causal = session.causal
        evaluations_of["causal"] = causal.evaluations
        forwards += causal.forwards
        rows_computed += int(causal.evaluations.sum())
    return Generation(
        tokens=session.tokens,
        order=session.order,
        probability=session.probability,
        evaluations=torch.stack(list(evaluations_of.values())).sum(0),
        evaluations_of=evaluations_of,
        forwards=forwards,
        rows_computed=rows_computed,
        impossible=impossible,
        seconds=seconds,
        planned=session.planned,
        ideal=session.denoiser.language if isinstance(session.denoiser, Exact) else None,
        configuration=configuration,
    )


def _start(source: Language | Denoiser, denoiser: Denoiser, given: Any, rows: int, length: int) -> Tensor:
    """(rows, length) tokens to start from, V where hidden."""
    if isinstance(source, Language):
        source.check_length(length)
    if given is None:
        return torch.full((rows, length), denoiser.vocabulary)
    pattern = torch.as_tensor(given)
    if isinstance(source, Language):
        pattern = source.check_given(pattern, rows, length)
    return pattern.expand(rows, length).contiguous()
