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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import fill
from typing import Any, Literal, NamedTuple, NoReturn, get_args

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments, pvalues
from unmask.core.errors import UnmaskError
from unmask.denoisers.ideal import Ideal
from unmask.denoisers.oracles import MaskedOracle, Oracle, oracle
from unmask.diagnosis.audit import Audit, audit
from unmask.diagnosis.audit.observed import packed, predictions
from unmask.diagnosis.audit.specimens import FAULTS
from unmask.diagnosis.audit.statistics import Noise, Rows, Statistics
from unmask.diagnosis.audit.suspects import neighbours, repetition
from unmask.diagnosis.conformance import check as assert_conforms
from unmask.languages import Language, LanguageLike
from unmask.samplers import Sampler
from unmask.samplers.contract import CAUSAL, as_sampler
from unmask.samplers.schedules import ScheduleLike

__all__ = ["assert_conforms", "assert_law", "assert_same_law", "assert_same_tokens"]

Loop = Callable[[Any], Any]  # called with the oracle; returns tokens (rows, length)
Kind = Literal["mask", "uniform", "causal"]

LANGUAGE = "paper-2gram"
ROWS = 400  # least number of sequences; the loop is called until there are as many
ALARM = 1e-4
LIMIT = 60.0  # seconds
WIDTH = 100  # characters of a line
MOST_NAMED = 6  # faults in a message
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
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
    alarm: float = ALARM,
    limit: float = LIMIT,
    record: bool = True,
    **model: Any,
) -> Audit:
    """Raise an AssertionError unless the tokens of the loop have the distribution of the sampler.

    loop: called with a model until it has returned `rows` sequences, tokens (rows, length) of any length.
    sampler, schedule, steps: those that the loop should implement; names with options, see `unmask show sampler`.
    temperature, top_p, top_k: filters of the loop, applied to the model's probabilities in this order.
    length: expected length. (default: any)
    seed: of torch, numpy and random during the loop: the same test gives the same result.
    alarm: probability that a correct loop fails, over seeds.
    limit: seconds for the loop.
    record: compare also the steps that revealed the tokens, for loops that return the rows as the model has seen them.
    model: options of `unmask.oracle`: mask_id, dtype, shift, level, view.
    """
    used = as_sampler(sampler)
    kind: Kind = "uniform" if used.removes == "uniform" else "causal" if used.reads == CAUSAL else "mask"
    run = called_until(loop, language, kind, rows, length, seed, limit, model)
    known: Oracle | Language = run.model if record else run.model.language
    try:
        verdict = audit(
            run.tokens,
            known,
            sampler=sampler,
            steps=steps,
            schedule=schedule,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            alarm=alarm,
        )
    except UnmaskError as error:
        if "model.reset()" not in str(error):
            raise
        problem = str(error).partition(". Audit all")[0]
        advice = "Return the rows as the model has seen them, in order, or pass record=False"
        raise AssertionError(f"the loop returns other tokens than it wrote: {problem}. {advice}.") from error
    if verdict.verdict == "differs" and run.repeats:
        reject("the loop returns the same sequences again in each call", "Set the random seed outside of the loop")
    if verdict.verdict == "differs":
        fail(f"the loop {verdict.sentence}", *explained(verdict))
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
    last_of = [1 if run.order is None else int(run.order.max()) for run in (one, two)]
    last = max(last_of)
    statistics = Statistics(one.model.language, two.tokens, min(len(one.tokens), len(two.tokens)), last)
    mine, theirs = one.counted(statistics), two.counted(statistics)
    noise = Noise(mine, theirs, dense=True)
    moved = noise.white(mine.mean - theirs.mean)
    invalid = int(mine.invalid.sum()), len(mine), int(theirs.invalid.sum()), len(theirs)
    p_values = {
        "tokens or steps": 0.0 if noise.apart else pvalues.chi_square(float(moved @ moved), noise.degrees),
        "the number of impossible sequences": pvalues.shares(*invalid),
        "tokens equal to the left one": neighbours(one.tokens, two.tokens),
        "repeated sequences": min(repetition(mine, theirs), repetition(theirs, mine)),
    }
    worst, each = min(p_values, key=p_values.__getitem__), alarm / (len(p_values) + 1)  # repetition is two tests
    if p_values[worst] >= each:
        return
    fail(
        f"the loops differ in {worst}: p = {p_values[worst]:.2g}; an alarm is below {each:.2g}",
        f"impossible sequences, first and second: {invalid[0] / invalid[1]:.4g} and {invalid[2] / invalid[3]:.4g}",
        f"surprise of a sequence in bits: {float(mine.bits.mean()):.4g} and {float(theirs.bits.mean()):.4g}",
        f"steps with a change, at most: {last_of[0]} and {last_of[1]}" if last > 1 else "steps are not compared",
    )


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
    row, position = (int(i) for i in (differ & (when == step)).nonzero()[0])
    written = [
        f"the {name} writes {int(run.tokens[row, position])}"
        + ("" if run.order is None else f" in step {int(run.order[row, position])}")
        for name, run in (("first", one), ("second", two))
    ]
    where = f"row {row}, position {position}"
    many = f"{int(differ.any(1).sum())} of {len(differ)} rows differ"
    fail(f"the loops differ first in {unit} {step}: at {where} {', '.join(written)}", many)


class Run(NamedTuple):
    """The sequences of a loop, and the oracle that it has called."""

    model: Any  # the oracle that it has called
    tokens: Tensor  # (B, L)
    repeats: bool  # whether several calls have returned the same sequences

    @property
    def order(self) -> Tensor | None:
        """The step (B, L) that revealed each token, if the oracle knows it."""
        return self.model.record.order(self.tokens) if isinstance(self.model, MaskedOracle) else None

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
) -> Run:
    """Call the loop on a new oracle until it has returned this number of sequences."""
    if not callable(loop):
        raise UnmaskError(f"loop is {loop!r}; expected a function. Pass a function of the model that returns tokens")
    arguments.whole("rows", rows)
    arguments.number("limit", limit, 0, above=True, what=" in seconds")
    if kind == "uniform":
        options = {"noise": "uniform", "level": "given"} | options
    if kind == "causal":
        options = {"causal": True, "length": length} | options
    model = oracle(language, **options)
    parts: list[Tensor] = []
    began = time.monotonic()
    with seeded(seed), torch.no_grad(), timed(model, limit):
        while sum(map(len, parts)) < rows:
            calls = model.calls
            try:
                returned = loop(model)
            except _Late:
                done = (
                    f"{sum(map(len, parts))} of {rows} sequences after {limit:g} seconds and {model.calls} model calls"
                )
                advice = (
                    "Give its while loop an end; or, if it is only slow, pass limit=.., or return more rows in a call"
                )
                reject(f"the loop has returned {done}", advice)
            except Exception as error:
                place = f"after {model.calls - calls} model calls: {type(error).__name__}: {error}"
                raise AssertionError(f"the loop raises an error {place}. {BY_HAND.format(str(language))}.") from error
            if model.calls == calls:
                reject("the loop never calls the model", "Take the probabilities from model(tokens).logits")
            parts.append(checked(returned, model, length))
            if parts[-1].shape[1] != parts[0].shape[1]:
                reject(
                    f"the loop returns {parts[0].shape[1]} positions first and {parts[-1].shape[1]} later",
                    "Return sequences of one length",
                )
            spent = time.monotonic() - began
            if spent > limit:
                done = f"{sum(map(len, parts))} of {rows} sequences after {spent:.0f} seconds"
                reject(f"the loop has returned {done}", "Return more rows in each call, or pass limit=..")
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
        row, position = (int(i) for i in (tokens == mask).nonzero()[0])
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
    """The lines of a message after the first: the fault, the size, and the faults that are too small."""
    if verdict.fault is not None:
        yield f"{verdict.fault}: {FAULTS[verdict.fault]}"
    nearest = min(verdict.p_values, key=verdict.p_values.__getitem__)
    yield f"smallest p-value: {verdict.p_values[nearest]:.2g} ({nearest}); an alarm is below {verdict.alarm_each:.1g}"
    yield f"impossible sequences: {verdict.ser[0]}; expected {verdict.ser[1]}"
    yield f"surprise of a token in bits: {verdict.bits[0]}; expected {verdict.bits[1]}"
    if verdict.unseen:
        named = ", ".join(verdict.unseen[:MOST_NAMED]) + ", ..." * (len(verdict.unseen) > MOST_NAMED)
        yield f"not visible in {verdict.rows} sequences of {verdict.length} tokens: {named}"
    if verdict.unseen_temperatures is not None:
        yield "temperatures not visible: {:.3g} to {:.3g}".format(*verdict.unseen_temperatures)


def reject(problem: str, advice: str) -> NoReturn:
    """Raise an AssertionError for a loop that cannot be tested."""
    __tracebackhide__ = True
    raise AssertionError(f"{problem}. {advice}.")


def fail(verdict: str, *lines: str) -> NoReturn:
    """Raise an AssertionError of a verdict and its evidence."""
    __tracebackhide__ = True
    filled = (fill(line, WIDTH, initial_indent="  ", subsequent_indent="    ") for line in lines)
    raise AssertionError("\n".join([verdict, *filled]))
