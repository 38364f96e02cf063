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
from unmask.denoisers import Denoiser, Exact, Sharpened
from unmask.errors import UnmaskError
from unmask.files import origin, write_json
from unmask.languages import Language
from unmask.languages.base import MESSAGE_BYTES
from unmask.samplers import SAMPLERS, Ancestral, Sampler, Session, fill
from unmask.samplers.contract import check_kind
from unmask.samples import account_path, digest, given_path, write_tokens
from unmask.schedules import Fit, ScheduleLike, deltas
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
    vocabulary: int  # V
    configuration: dict[str, Any] = field(default_factory=dict)
    ideal: Language | None = None  # the language whose ideal denoiser filled it, if that is what did

    @property
    def given(self) -> Tensor:
        """(B, L): what there was to start from, V where it was hidden; `generate` takes it again."""
        return torch.where(self.order == 0, self.tokens, self.vocabulary)

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
        """Tokens as .npy, or as .jsonl with one list a line; what made them in PATH.json beside it.

        What they were given goes beside them too, where it is anything: samples.npy has its samples.given.npy.
        """
        path = Path(path)
        write_tokens(path, self.tokens)
        account = self.summary() | {"tokens_sha256": digest(self.tokens), "origin": origin(**self.configuration)}
        if bool((self.order == 0).any()):
            write_tokens(given_path(path), self.given)
            account["given_sha256"] = digest(self.given)
        write_json(account_path(path), account)


def generate(
    source: Language | Denoiser,
    *,
    sampler: str | Sampler = "ancestral",
    schedule: ScheduleLike = "linear",
    steps: int | None = None,
    length: int = 512,
    rows: int = 2000,
    seed: int = 0,
    first_row: int = 0,
    given: Tensor | Sequence[int] | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
) -> Generation:
    """Fill `rows` canvases of `length` positions. Row r depends on the seed and on first_row + r alone.

    source: a language, whose ideal denoiser is used, or any denoiser.
    sampler, schedule: a name with options, "blocks(block_length=16)"; or an instance, or a list of delta_k.
    steps: the number of rounds N; 64 for a named schedule unless told otherwise.
    given: tokens (length) or (rows, length) to start from, V where hidden.
    temperature, top_p, top_k: what becomes of the denoiser's marginals before any sampler sees them (Sharpened).
    """
    denoiser = Exact(source) if isinstance(source, Language) else source
    if (temperature, top_p, top_k) != (1, 1, None):
        denoiser = Sharpened(denoiser, temperature, top_p, top_k)
    used = SAMPLERS.make(sampler) if isinstance(sampler, str) else _checked(sampler)
    if steps is None and isinstance(schedule, str):
        steps = 64
    language = source.language if isinstance(source, Exact) else source if isinstance(source, Language) else None
    delta = deltas(schedule, steps, None if language is None else fit_of(used, language, length))
    if rows < 1:
        raise UnmaskError(f"rows is {rows}, but at least 1 row is needed")
    if length < 1:
        raise UnmaskError(f"length is {length}, but a sequence has at least 1 token")
    if not 0 <= first_row <= 2**63 - rows:
        raise UnmaskError(f"first_row is {first_row}; rows are numbered from 0 to 2^63 - 1")
    name = f"sampler {sampler if isinstance(sampler, str) else type(sampler).__name__}"
    start = _start(denoiser, given, rows, length)
    block = min(max(MESSAGE_BYTES // denoiser.row_bytes(length), ROWS_A_BLOCK[0]), ROWS_A_BLOCK[1], rows)
    configuration = {
        "sampler": sampler if isinstance(sampler, str) else repr(sampler),
        "schedule": schedule if isinstance(schedule, str) else delta.tolist(),
        "steps": len(delta),
        "length": length,
        "rows": rows,
        "seed": seed,
        "first_row": first_row,
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
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


def fit_of(sampler: Sampler, language: Language, length: int) -> Fit:
    """What a fitted schedule is fitted to: ancestral sampling draws rounds from it, what counts takes fixed sizes."""
    return Fit(language, length, fixed_size=sampler.pace == "counts" and not isinstance(sampler, Ancestral))


def join(parts: Sequence[Generation], configuration: dict[str, Any]) -> Generation:
    """Blocks of rows as one generation: the same as if they had been made together."""
    rows = {
        name: torch.cat([getattr(part, name) for part in parts])
        for name in ("tokens", "order", "probability", "evaluations", "impossible")
    }
    names = {name: None for part in parts for name in part.evaluations_of}
    return Generation(
        **rows,
        evaluations_of={
            name: torch.cat([p.evaluations_of.get(name, p.evaluations * 0) for p in parts]) for name in names
        },
        forwards=sum(part.forwards for part in parts),
        rows_computed=sum(part.rows_computed for part in parts),
        seconds=sum(part.seconds for part in parts),
        planned=parts[0].planned,
        vocabulary=parts[0].vocabulary,
        ideal=parts[0].ideal,
        configuration=configuration,
    )


def _account(session: Session, seconds: float, configuration: dict[str, Any]) -> Generation:
    """What is kept of a finished session: its messages are not."""
    bill = session.bill()
    return Generation(
        tokens=session.tokens,
        order=session.order,
        probability=session.probability,
        evaluations=sum(bill.evaluations_of.values(), torch.zeros_like(bill.impossible)),
        evaluations_of=bill.evaluations_of,
        forwards=bill.forwards,
        rows_computed=bill.rows_computed,
        impossible=bill.impossible,
        seconds=seconds,
        planned=session.planned,
        vocabulary=session.denoiser.vocabulary,
        ideal=session.denoiser.language if isinstance(session.denoiser, Exact) else None,
        configuration=configuration,
    )


def prompts(
    language: Language,
    rows: int,
    length: int,
    prompt_length: int,
    *,
    rows_per_prompt: int = 1,
    seed: int = 0,
    first_row: int = 0,
) -> Tensor:
    """(rows, length) for `given`: the beginnings of x ~ q, then V. Row r continues draw number r // rows_per_prompt."""
    if not 0 <= prompt_length <= length:
        raise UnmaskError(f"prompt_length is {prompt_length}; expected 0 to {length}, the length of a sequence")
    if rows_per_prompt < 1:
        raise UnmaskError(f"rows_per_prompt is {rows_per_prompt}; expected at least 1")
    which = torch.arange(first_row, first_row + rows) // rows_per_prompt
    first = int(which[0])
    drawn = language.sample(int(which[-1]) - first + 1, length, seed=seed, first_row=first)[which - first]
    drawn[:, prompt_length:] = language.vocabulary
    return drawn


def _checked(sampler: object) -> Sampler:
    if isinstance(sampler, type) and issubclass(sampler, Sampler):
        raise UnmaskError(f"the sampler is the class {sampler.__name__}; give one of it, {sampler.__name__}()")
    check_kind(type(sampler), f"sampler {type(sampler).__name__}")
    assert isinstance(sampler, Sampler)
    return sampler


def _start(denoiser: Denoiser, given: Any, rows: int, length: int) -> Tensor:
    """(rows, length) tokens to start from, V where hidden."""
    language = denoiser.language if isinstance(denoiser, Exact) else None
    if language is not None:
        language.check_length(length)
    if given is None:
        return torch.tensor(denoiser.vocabulary).expand(rows, length)
    try:
        pattern = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnmaskError(f"given is no table of tokens, (length) or (rows, length): {error}") from error
    if language is not None:
        pattern = language.check_given(pattern, rows, length)
    else:
        pattern = _check_given(pattern, denoiser.vocabulary, rows, length)
    return pattern.expand(rows, length)


def _check_given(given: Tensor, vocabulary: int, rows: int, length: int) -> Tensor:
    """What a language says of a pattern, where there is none: all but whether it is possible."""
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise UnmaskError(f"given is {str(given.dtype).removeprefix('torch.')}; expected integers")
    pattern = given.unsqueeze(0) if given.dim() == 1 else given
    if pattern.dim() != 2 or pattern.shape[1] != length or len(pattern) not in (1, rows):
        raise UnmaskError(f"given has shape {tuple(given.shape)}; expected ({length},) or ({rows}, {length})")
    bad = (pattern < 0) | (pattern > vocabulary)
    if bad.any():
        row, position = (int(i) for i in bad.nonzero()[0])
        what = f"token {int(pattern[row, position])} is not in 0..{vocabulary}"
        raise UnmaskError(f"given row {row}, position {position}: {what}; {vocabulary} is what is hidden")
    return pattern.long().cpu()
