"""Assertions for tests of decoders: a loop has the distribution of the sampler that it should implement.

    from unmask.testing import assert_law

    def test_my_decoder():
        assert_law(my_generate, sampler="low-confidence", steps=16)  # my_generate(model) -> tokens (rows, length)

The model is an oracle: it has exact logits of a small language, so the correct distribution of the loop is known. A
failed test is an AssertionError that names the difference, the likely fault and its size, and the faults that are too
small for this test.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from textwrap import fill
from typing import Any, Literal, NamedTuple, NoReturn, get_args

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError
from unmask.core.threads import torch_threads
from unmask.denoisers.ideal import Ideal
from unmask.denoisers.oracles import MaskedOracle, Oracle, oracle
from unmask.diagnosis.audit import Audit, audit
from unmask.diagnosis.audit.changes import SORTING, as_filters
from unmask.diagnosis.audit.observed import packed, predictions
from unmask.diagnosis.audit.rare import LONG_TAIL, rare_tokens
from unmask.diagnosis.audit.specimens import FAULTS
from unmask.diagnosis.audit.statistics import Noise, Rows, Statistics
from unmask.diagnosis.audit.suspects import compared, repetition
from unmask.diagnosis.audit.verdict import ALARM, as_meant
from unmask.diagnosis.conformance import check as assert_conforms
from unmask.diagnosis.ratios import difference
from unmask.languages import LanguageLike
from unmask.samplers import Sampler
from unmask.samplers.contract import CAUSAL, as_sampler
from unmask.samplers.schedules import ScheduleLike

__all__ = ["assert_conforms", "assert_law", "assert_same_law", "assert_same_likelihood", "assert_same_tokens"]

Loop = Callable[..., Any]  # called with the oracle, and a draft if it verifies drafts; returns tokens (rows, length)
Kind = Literal["mask", "uniform", "causal"]

LANGUAGE = "paper-2gram"
ROWS = 400  # least number of sequences; the loop is called until there are as many
TOLERANCE = 1e-4  # nats
LIMIT = 300.0  # seconds; a correct loop needed more than 60 on a machine with 13 times as much work as cores
WIDTH = 100  # characters of a line
SLOW = "Give its while loop an end; or, if it is only slow, pass limit=.., or return more rows in a call"
BY_HAND = "Call it by hand to see the cause: loop(unmask.oracle({!r}))"


def assert_law(
    loop: Loop,
    *,
    sampler: str | Sampler,
    steps: int | None = None,
    schedule: ScheduleLike = "linear",
    language: LanguageLike = LANGUAGE,
    rows: int = ROWS,
    length: int | None = None,
    filters: Mapping[str, Any] | str | None = None,
    draft: float | None = None,
    seed: int = 0,
    alarm: float = ALARM,
    limit: float = LIMIT,
    record: bool = True,
    rare: bool = True,
    **model: Any,
) -> Audit:
    """Raise an AssertionError unless the tokens of the loop have the distribution of the sampler.

    loop: called with a model until it has returned `rows` sequences, tokens (rows, length) of any length.
    sampler, schedule, steps: those that the loop should implement; names with options, see `unmask show sampler`.
    filters: those of the loop in its order: {"temperature": 0.8, "top_p": 0.9}; also "top_k", "min_p" and
        "repetition_penalty".
    draft: the loop verifies drafts: it is called with the model and a draft of other predictions,
        d(v) = (1 - draft) p(v) + draft p(v - 1).
    length: expected length. (default: any)
    seed: of torch, numpy and random during the loop: the same test gives the same result.
    alarm: probability that a correct loop fails, over seeds.
    limit: seconds for the loop.
    record: compare also the steps that revealed the tokens, for loops that return the rows as the model has seen them.
    rare: test also a language with 504 rare symbols, if no language and no draft is given.
    model: options of `unmask.oracle`: mask_id, dtype, shift, level, view, ordered, certain.
    """
    used = as_sampler(sampler)
    kind: Kind = "causal" if used.reads == CAUSAL else "mask"
    if used.removes == "uniform":
        kind = "uniform"
    if SORTING & as_filters(filters).keys():
        model = {"ordered": True} | model
    arguments.number("alarm", alarm, 0, 0.5, above=True)
    both = rare and kind != "uniform" and draft is None and language == LANGUAGE
    if both:
        alarm /= 2
    run = called_until(loop, language, kind, rows, length, seed, limit, model, draft)
    if record and len(run.model.threads) > 1:
        reject(
            f"the loop calls the model from {len(run.model.threads)} threads", "Use one thread, or pass record=False"
        )
    try:
        how: dict[str, Any] = {"sampler": sampler, "steps": steps, "schedule": schedule, "filters": filters}
        verdict = audit(run.tokens, run.model, **how, draft=draft, record=record, alarm=alarm)
    except UnmaskError as error:
        if "model.reset()" not in str(error):
            raise
        problem = str(error).partition(". Audit all")[0]
        advice = "Start from masks alone, and return the rows as the model has seen them, or pass record=False"
        raise AssertionError(f"the loop returns other tokens than it wrote: {problem}. {advice}.") from error
    if verdict.verdict == "differs" and run.repeats:
        reject("the loop returns the same sequences again in each call", "Set the random seed outside of the loop")
    if verdict.verdict == "differs":
        fail(f"the loop {verdict.named}", *explained(verdict))
    if both:
        tail = called_until(loop, LONG_TAIL, kind, min(rows, ROWS), length, seed, limit, model)
        how = {"schedule": schedule, "steps": steps, "filters": filters, "dtype": tail.model.dtype}
        tested = rare_tokens(tail.tokens, as_meant(tail.model.language, tail.tokens.shape[1], used, **how))
        if tested.p_value < alarm:
            meaning = FAULTS["rare tokens"]
            where = f"the loop differs from {verdict.sampler} on {LONG_TAIL}"
            lines = [f"size: {tested.size}", f"meaning: {meaning}", f"p-value: {tested.p_value:.2g}"]
            fail(f"{where}: {tested.fault}", *lines)
    return verdict


def assert_same_law(
    first: Loop,
    second: Loop,
    *,
    language: LanguageLike = LANGUAGE,
    kind: Kind = "mask",
    rows: int = 1000,
    seed: int = 0,
    alarm: float = ALARM,
    limit: float = LIMIT,
    **model: Any,
) -> None:
    """Raise an AssertionError unless two loops write the same distribution, and reveal it in the same steps.

    kind: the model of both loops: "mask", "uniform" noise, or "causal".
    """
    arguments.word("kind", kind, get_args(Kind))
    loops = enumerate((first, second))
    one, two = (called_until(loop, language, kind, rows, None, seed + k, limit, model) for k, loop in loops)
    if one.tokens.shape[1] != two.tokens.shape[1]:
        fail(f"the first loop returns {one.tokens.shape[1]} positions, the second {two.tokens.shape[1]}")
    last_of = [int(entries.chosen(run.order, torch.ones(1)).max()) for run in (one, two)]
    last = max(last_of)
    statistics = Statistics(one.model.language, two.tokens, min(len(one.tokens), len(two.tokens)), last)
    mine, theirs = one.counted(statistics), two.counted(statistics)
    p_values = compared(mine, theirs, Noise(mine, theirs, dense=True))
    p_values |= {"repeated rows of the second": repetition(theirs, mine)}
    worst, each = min(p_values, key=p_values.__getitem__), alarm / len(p_values)
    if p_values[worst] >= each:
        return
    impossible, bits = _means(mine.invalid, theirs.invalid), _means(mine.bits, theirs.bits)
    fail(
        f"the loops differ in {worst}: p = {p_values[worst]:.2g}; an alarm is below {each:.2g}",
        f"impossible sequences, first and second: {impossible}; surprise of a sequence in bits: {bits}",
        f"steps with a change, at most: {last_of[0]} and {last_of[1]}" if last > 1 else "steps are not compared",
    )


def _means(one: Tensor, two: Tensor) -> str:
    return f"{float(one.double().mean()):.4g} and {float(two.double().mean()):.4g}"


def assert_same_tokens(
    first: Loop,
    second: Loop,
    *,
    language: LanguageLike = LANGUAGE,
    kind: Kind = "mask",
    seed: int = 0,
    limit: float = LIMIT,
    **model: Any,
) -> None:
    """Raise an AssertionError unless two loops write the same tokens in the same steps, from the same seed.

    The message names the first step that differs.
    """
    arguments.word("kind", kind, get_args(Kind))
    one, two = (called_until(loop, language, kind, 1, None, seed, limit, model) for loop in (first, second))
    if one.tokens.shape != two.tokens.shape:
        fail(f"the first loop returns {tuple(one.tokens.shape)} tokens, the second {tuple(two.tokens.shape)}")
    differ, unit = one.tokens != two.tokens, "position"
    when = torch.arange(1, differ.shape[1] + 1).expand(differ.shape)
    if one.order is not None and two.order is not None:
        differ, unit = differ | (one.order != two.order), "step"
        when = torch.minimum(one.order, two.order)
    if not bool(differ.any()):
        return
    step = int(when[differ].min())
    row, position = (differ & (when == step)).nonzero()[0].tolist()
    written = f"the first {one.written(row, position)}, the second {two.written(row, position)}"
    where = f"row {row}, position {position}"
    many = f"{int(differ.any(1).sum())} of {len(differ)} rows differ"
    fail(f"the loops differ first in {unit} {step}: at {where} {written}", many)


def assert_same_likelihood(
    rollout: Tensor,
    update: Tensor,
    *,
    mask: Tensor | None = None,
    logits: Tensor | None = None,
    tokens: Tensor | None = None,
    tolerance: float = TOLERANCE,
) -> None:
    """Raise an AssertionError unless a trainer recomputes the log-probabilities that a rollout has recorded.

    The message names the first position that differs, and, if it can, the fault: padding, temperature, dtype, or a
    shift by one.

    rollout, update: log-probabilities (rows, length) of the same tokens, before the first update of the weights.
    mask: Bool (rows, length), the positions that the trainer counts. (default: all)
    logits, tokens: of the update, (rows, length, V) and (rows, length); they show a temperature and a dtype.
    tolerance: nats that may differ.
    """
    arguments.number("tolerance", tolerance)
    one, two = rollout.detach().cpu(), update.detach().cpu()
    counted, scores, written = (None if part is None else part.detach().cpu() for part in (mask, logits, tokens))
    apart = difference(one, two, counted, scores, written, tolerance)
    if apart is None:
        return
    where = f"row {apart.row}, position {apart.position}: {apart.rollout:.4f} and {apart.update:.4f} nats"
    many = f"{apart.wrong} of {apart.compared} positions differ by more than {tolerance:g}, at most {apart.largest:.3g}"
    fail(
        f"the rollout and the update differ first at {where}",
        f"likely {apart.cause}" if apart.cause else "no known fault explains it: compare the tokens each side can see",
        f"{many} nats",
        "ratios of the update to the rollout: {:.3g} to {:.3g}; expected 1".format(*apart.ratios),
    )


class Run(NamedTuple):
    """The sequences of a loop, and the oracle that it has called."""

    model: Any  # the oracle that it has called
    tokens: Tensor  # (B, L)
    repeats: bool  # whether several calls have returned the same sequences

    @property
    def order(self) -> Tensor | None:
        """The step (B, L) that revealed each token, if the oracle knows it."""
        return self.model.record.order(self.tokens) if isinstance(self.model, MaskedOracle) else None

    def written(self, row: int, position: int) -> str:
        """The token that the loop writes here, and its step."""
        token = f"writes {int(self.tokens[row, position])}"
        if self.order is None:
            return token
        return f"{token} in step {int(self.order[row, position])}"

    def counted(self, statistics: Statistics) -> Rows:
        """The statistics of the tokens, and of their steps."""
        if self.order is None:
            return statistics(self.tokens)
        surprise = predictions(Ideal(self.model.language), self.tokens, self.order).surprise
        return statistics(self.tokens, packed(self.order), surprise)


def called_until(
    loop: Loop,
    language: LanguageLike,
    kind: Kind,
    rows: int,
    length: int | None,
    seed: int,
    limit: float,
    options: dict[str, Any],
    draft: float | None = None,
) -> Run:
    """Call the loop on a new oracle, and a draft, until it has returned this number of sequences."""
    if not callable(loop):
        raise UnmaskError(f"loop is {loop!r}; expected a function. Pass a function of the model that returns tokens")
    arguments.whole("rows", rows)
    arguments.number("limit", limit, 0, above=True, what=" in seconds")
    if kind == "uniform":
        options = {"noise": "uniform", "level": "given"} | options
    if kind == "causal":
        options = {"causal": True, "length": length} | options
    model = oracle(language, **options)
    models = [model] if draft is None else [model, oracle(language, **options, draft=draft)]
    parts: list[Tensor] = []
    began = time.monotonic()
    # the tensors of a few rows are small: threads of torch would wait for each other
    with seeded(seed), torch.no_grad(), torch_threads(1), timed(model, limit):
        while (done := sum(map(len, parts))) < rows:
            calls, late = model.calls, False
            try:
                returned = loop(*models)
            except _Late:
                late = True
            except Exception as error:
                place = f"after {model.calls - calls} model calls: {type(error).__name__}: {error}"
                raise AssertionError(f"the loop raises an error {place}. {BY_HAND.format(str(language))}.") from error
            if late or time.monotonic() - began > limit:
                slow = f"{done} of {rows} sequences after {limit:g} seconds and {model.calls} model calls"
                reject(f"the loop has returned {slow}", SLOW)
            if model.calls == calls:
                reject("the loop never calls the model", "Take the probabilities from model(tokens).logits")
            if not models[-1].calls:
                reject("the loop never calls the draft", "Draw the drafts from draft(tokens).logits")
            parts.append(checked(returned, model, length))
            model.record.end()
            if parts[-1].shape[1] != parts[0].shape[1]:
                lengths = f"{parts[0].shape[1]} positions first and {parts[-1].shape[1]} later"
                reject(f"the loop returns {lengths}", "Return sequences of one length")
    return Run(model, torch.cat(parts), len(parts) > 1 and all(torch.equal(part, parts[0]) for part in parts))


def checked(returned: Any, model: Oracle, length: int | None) -> Tensor:
    """Check the result of a loop, and return its tokens (B, L) without the start id of the oracle."""
    tokens = getattr(returned, "sequences", returned)  # as transformers returns them
    if not isinstance(tokens, Tensor):
        try:
            tokens = torch.as_tensor(np.asarray(tokens))
        except (TypeError, ValueError):
            reject(f"the loop returns {type(returned).__name__}", "Return a tensor of tokens (rows, length)")
    tokens = tokens.detach().cpu()
    if tokens.dim() != 2 or not tokens.numel():
        reject(f"the loop returns shape {tuple(tokens.shape)}", "Return tokens (rows, length), not logits or one row")
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        reject(f"the loop returns {str(tokens.dtype).removeprefix('torch.')}", "Return whole numbers: the tokens")
    tokens = tokens.long()
    start, mask, vocabulary = model.start_id, model.config.mask_token_id, model.language.vocabulary
    if start is not None and bool((tokens[:, 0] == start).all()):
        tokens = tokens[:, 1:]
    if mask is not None and bool((tokens == mask).any()):
        row, position = (tokens == mask).nonzero()[0].tolist()
        many = f"{int((tokens == mask).sum())} of {tokens.numel()} positions are still hidden (id {mask})"
        reject(
            f"{many}, first in row {row}, position {position}", "Reveal all positions that are left in the last step"
        )
    if bool(((tokens < 0) | (tokens >= vocabulary)).any()):
        wrong = int(tokens[(tokens < 0) | (tokens >= vocabulary)][0])
        reject(
            f"the loop returns the token {wrong}",
            f"Draw only tokens 0 to {vocabulary - 1}; all others have logits -1e4",
        )
    if length is not None and tokens.shape[1] != length:
        reject(f"the loop returns {tokens.shape[1]} positions, not {length}", f"Return {length}, without the prompt")
    return tokens


class _Late(BaseException):
    """The time is over; no loop catches it as an Exception."""


@contextmanager
def timed(model: Oracle, limit: float) -> Iterator[None]:
    """Raise _Late after some seconds: at a model call, or at once if signals are possible here."""
    end = time.monotonic() + limit

    def late(*_: Any) -> None:
        if time.monotonic() >= end:
            raise _Late

    hook = model.register_forward_pre_hook(late)
    signals = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGALRM, late) if signals else None
    if signals:
        signal.setitimer(signal.ITIMER_REAL, limit + 0.01)
    try:
        yield
    finally:
        hook.remove()
        if signals:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch, numpy and random, and restore their states afterwards."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 (loops of others draw from it)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002


def explained(verdict: Audit) -> Iterator[str]:
    """The lines of a message after the first: the fault, the evidence, and the faults that are too small."""
    for name, value in {"size": verdict.size or "-", **verdict.table()}.items():
        if name not in ("verdict", "faults detectable", "compared with"):
            yield f"{name}: {value}"


def reject(problem: str, advice: str) -> NoReturn:
    """Raise an AssertionError for a loop that cannot be tested."""
    __tracebackhide__ = True
    raise AssertionError(f"{problem}. {advice}.")


def fail(verdict: str, *lines: str) -> NoReturn:
    """Raise an AssertionError of a verdict and its evidence."""
    __tracebackhide__ = True
    filled = (fill(line, WIDTH, initial_indent="  ", subsequent_indent="    ") for line in lines)
    raise AssertionError("\n".join([verdict, *filled]))
