"""generate(): a language or a denoiser, a sampler and a schedule make sequences, with an honest account of the cost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unmask.core import progress
from unmask.core.chance import Luck, check_seed
from unmask.core.errors import UnmaskError
from unmask.core.files import origin, write_json
from unmask.core.samples import account_path, digest, given_path, write_tokens
from unmask.core.threads import over_blocks
from unmask.denoisers import Cost, Denoiser, Guided, Sharpened
from unmask.ideal import as_denoiser
from unmask.languages import Language
from unmask.samplers import SAMPLERS, Sampler, Session, StopRule, fill
from unmask.samplers.contract import check_kind
from unmask.samplers.session import REASONS
from unmask.samplers.stopping import stop_rule
from unmask.schedules import Fit, ScheduleLike, deltas

ROWS, LENGTH, STEPS = 2000, 512, 64  # unless told otherwise
MOST_ROWS = 4096  # of a block whose denoiser has no opinion
PADDING = 0  # what stands behind a row that is shorter than others; nobody reads it


@dataclass(frozen=True, repr=False)
class Generation:
    """What came out, and what it cost; B rows of up to L tokens."""

    tokens: Tensor  # (B, L); behind a row's length: what it was filled with, or padding
    order: Tensor  # (B, L): the round that revealed each token, 0 where it was given
    probability: Tensor  # (B, L): of each token when it was revealed, 1 where it was given or filled
    lengths: Tensor  # (B): how many tokens each row has, up to where it has ended
    reasons: tuple[str, ...]  # (B): why nothing more was decided: "filled", "stopped" by the stop rule, "done"
    evaluations_of: dict[str, Tensor]  # (B) evaluations that each row needed, of each: "denoiser", "causal"
    spent: Cost  # what was computed for it, as the denoiser itself says
    impossible: Tensor  # (B): the evaluation at which the context had probability zero for the first time, or 0
    seconds: float
    planned: bool  # whether the order was fixed before any token was seen
    vocabulary: int  # V
    source: dict[str, Any] = field(default_factory=dict)  # the denoiser: a digest of its language or weights, or an id
    configuration: dict[str, Any] = field(default_factory=dict)
    ideal: Language | None = None  # the language whose ideal denoiser filled it, if that is what did

    @property
    def evaluations(self) -> Tensor:
        """(B): of all denoisers together."""
        return sum(self.evaluations_of.values(), torch.zeros_like(self.impossible))

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
            "forwards": self.spent.forwards,
            "rows_computed": self.spent.rows,
            "tokens_computed": self.spent.tokens,
            "impossible_rows": int((self.impossible > 0).sum()),
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        rows, length = self.tokens.shape
        needed = float(self.evaluations.double().mean())
        how = self.configuration.get("sampler", "several samplers")
        return (
            f"<Generation of {rows} x {length} tokens by {how}: {needed:.4g} evaluations a row, {self.seconds:.2f} s>"
        )

    def save(self, path: str | Path) -> None:
        """Tokens as .npy, or as .jsonl with one list a line; what made them in PATH.json beside it.

        What they were given goes beside them too, where it is anything: samples.npy has its samples.given.npy.
        """
        path = Path(path)
        write_tokens(path, self.tokens)
        account = self.summary() | {"tokens_sha256": digest(self.tokens), "source": self.source}
        account |= {"origin": origin(**self.configuration)}
        if bool((self.lengths < self.tokens.shape[1]).any()):
            account |= {"lengths": self.lengths.tolist(), "reasons": list(self.reasons)}
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
    length: int | None = None,
    rows: int | None = None,
    seed: int = 0,
    first_row: int = 0,
    given: ArrayLike | Sequence[Sequence[int]] | Tensor | None = None,
    stop: int | StopRule | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    guidance: float = 0.0,
) -> Generation:
    """Fill `rows` canvases of `length` positions. Row r depends on the seed and on first_row + r alone.

    source: a language, whose ideal denoiser is used, or any denoiser.
    sampler, schedule: a name with options, "blocks(block_length=16)"; or an instance, or a list of delta_k.
    steps: the number of rounds N; 64 for a named schedule unless told otherwise.
    given: tokens to start from, V where hidden: (length), (rows, length), or a list of rows of any lengths. It says how
        many rows there are and how long they are, if nothing else does; 2000 x 512 where nothing does.
    stop: when a row has ended before all of it is decided: a token, or a rule of `samplers.stopping`.
    temperature, top_p, top_k: what becomes of the denoiser's marginals before any sampler sees them (Sharpened).
    guidance: classifier-free guidance by what was given, before that (Guided); twice the evaluations.
    """
    denoiser = as_denoiser(source)
    if guidance:
        denoiser = Guided(denoiser, guidance)
    if (temperature, top_p, top_k) != (1, 1, None):
        denoiser = Sharpened(denoiser, temperature, top_p, top_k)
    used = SAMPLERS.make(sampler) if isinstance(sampler, str) else _checked(sampler)
    rule = stop_rule(stop, denoiser.vocabulary)
    rows, length, start, valid = _start(denoiser, given, rows, length)
    if steps is None and isinstance(schedule, str):
        steps = STEPS
    delta = deltas(schedule, steps, None if denoiser.language is None else fit_of(used, denoiser.language, length))
    if not 0 <= first_row <= 2**63 - rows:
        raise UnmaskError(f"first_row is {first_row}; rows are numbered from 0 to 2^63 - 1")
    name = f"sampler {sampler if isinstance(sampler, str) else type(sampler).__name__}"
    configuration = {
        "sampler": sampler if isinstance(sampler, str) else used.spec,
        "schedule": schedule if isinstance(schedule, str) else delta.tolist(),
        "steps": len(delta),
        "length": length,
        "rows": rows,
        "seed": seed,
        "first_row": first_row,
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "guidance": guidance,
        "stop": None if rule is None else repr(rule),
    }
    about = {"source": denoiser.source(), "configuration": configuration}

    def make(part: slice) -> Generation:
        began = time.perf_counter()
        luck = Luck(check_seed(seed), torch.arange(first_row + part.start, first_row + part.stop))
        session = Session(denoiser, start[part], luck, delta, name, valid=valid[part], stop=rule)
        fill(used, session)
        return _finished(session, time.perf_counter() - began, about)

    began = time.perf_counter()
    block = min(denoiser.rows_at_once(length) or MOST_ROWS, rows)
    made = over_blocks(make, rows, block) if denoiser.concurrent else map(make, _blocks(rows, block))
    parts = []
    with progress.track("generating", rows) as advance:
        for part in made:
            parts.append(part)
            advance(len(part.tokens))
    return replace(join(parts), seconds=time.perf_counter() - began)


def _blocks(rows: int, block: int) -> Iterator[slice]:
    return (slice(first, min(first + block, rows)) for first in range(0, rows, block))


def fit_of(sampler: Sampler, language: Language, length: int) -> Fit:
    """What a fitted schedule is fitted to: of what draws rounds from it their law, of what counts the sizes."""
    return Fit(language, length, fixed_size=sampler.pace == "counts" and not sampler.draws_rounds)


def join(parts: Sequence[Generation]) -> Generation:
    """Blocks of rows as one generation: the same as if they had been made together."""
    rows: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts])
        for name in ("tokens", "order", "probability", "lengths", "impossible")
    }
    names = {name: None for part in parts for name in part.evaluations_of}
    nothing = [torch.zeros_like(part.impossible) for part in parts]
    return replace(
        parts[0],
        **rows,
        reasons=tuple(reason for part in parts for reason in part.reasons),
        evaluations_of={
            name: torch.cat([part.evaluations_of.get(name, none) for part, none in zip(parts, nothing, strict=True)])
            for name in names
        },
        spent=sum((part.spent for part in parts), Cost()),
        seconds=sum(part.seconds for part in parts),
    )


def _finished(session: Session, seconds: float, about: dict[str, Any]) -> Generation:
    """What is kept of a finished session: its messages are not."""
    account = session.account()
    return Generation(
        tokens=session.tokens,
        order=session.order,
        probability=session.probability,
        lengths=session.lengths,
        reasons=tuple(REASONS[reason] for reason in session.reasons.tolist()),
        evaluations_of=account.evaluations_of,
        spent=account.spent,
        impossible=account.impossible,
        seconds=seconds,
        planned=session.planned,
        vocabulary=session.denoiser.vocabulary,
        ideal=session.denoiser.language if session.denoiser.ideal else None,
        **about,
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


def _start(denoiser: Denoiser, given: Any, rows: int | None, length: int | None) -> tuple[int, int, Tensor, Tensor]:
    """(rows, length, tokens (rows, length) to start from, Bool (rows, length) where a row's own places are)."""
    lines = _lines(given)
    if lines is None:
        pattern = None if given is None else _pattern(given)
        if pattern is not None:
            length = pattern.shape[1] if length is None else length
            rows = len(pattern) if rows is None and pattern.shape[0] > 1 else rows
        rows, length = ROWS if rows is None else rows, LENGTH if length is None else length
        _check_size(rows, length)
        if denoiser.language is not None:
            denoiser.language.check_length(length)
        if pattern is None:
            start = torch.tensor(denoiser.vocabulary).expand(rows, length)
        else:
            start = _checked_given(denoiser, pattern, rows, length).expand(rows, length)
        return rows, length, start, torch.ones((), dtype=torch.bool).expand(rows, length)
    if (rows, length) not in ((None, None), (len(lines), None), (len(lines), max(map(len, lines)))):
        raise UnmaskError(f"given has {len(lines)} rows of lengths of their own; leave rows and length out")
    rows, length = len(lines), max(map(len, lines))
    start, valid = torch.full((rows, length), PADDING), torch.zeros((rows, length), dtype=torch.bool)
    for row, line in enumerate(lines):
        _check_size(rows, len(line))
        if denoiser.language is not None:
            denoiser.language.check_length(len(line))
        try:
            start[row, : len(line)] = _checked_given(denoiser, _pattern(line), 1, len(line))[0]
        except UnmaskError as error:
            raise UnmaskError(f"row {row}: {error}") from error
        valid[row, : len(line)] = True
    return rows, length, start, valid


def _lines(given: Any) -> list[Any] | None:
    """Rows of different lengths, where that is what is given."""
    if isinstance(given, Sequence) and given and all(hasattr(line, "__len__") for line in given):
        return list(given) if len({len(line) for line in given}) > 1 else None
    return None


def _check_size(rows: int, length: int) -> None:
    if rows < 1:
        raise UnmaskError(f"rows is {rows}, but at least 1 row is needed")
    if length < 1:
        raise UnmaskError(f"length is {length}, but a sequence has at least 1 token")


def _pattern(given: Any) -> Tensor:
    """(1, L) or (B, L) whole numbers."""
    try:
        pattern = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnmaskError(f"given is no table of tokens, (length) or (rows, length): {error}") from error
    if pattern.is_floating_point() or pattern.is_complex() or pattern.dtype == torch.bool:
        raise UnmaskError(f"given is {str(pattern.dtype).removeprefix('torch.')}; expected integers")
    if pattern.dim() not in (1, 2):
        raise UnmaskError(f"given has shape {tuple(pattern.shape)}; expected (length) or (rows, length)")
    return pattern.unsqueeze(0) if pattern.dim() == 1 else pattern


def _checked_given(denoiser: Denoiser, pattern: Tensor, rows: int, length: int) -> Tensor:
    """The pattern (1, L) or (B, L), or an error that says why no sequence can start from it."""
    if denoiser.language is not None:
        return denoiser.language.check_given(pattern, rows, length)
    vocabulary = denoiser.vocabulary
    if pattern.shape[1] != length or len(pattern) not in (1, rows):
        raise UnmaskError(f"given has shape {tuple(pattern.shape)}; expected ({length},) or ({rows}, {length})")
    bad = (pattern < 0) | (pattern > vocabulary)
    if bad.any():
        row, position = (int(i) for i in bad.nonzero()[0])
        what = f"token {int(pattern[row, position])} is not in 0..{vocabulary}"
        raise UnmaskError(f"given row {row}, position {position}: {what}; {vocabulary} is what is hidden")
    return pattern.long().cpu()
