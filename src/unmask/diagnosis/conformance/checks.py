"""The checks of the conformance kit, one function each; CHECKS lists them in their order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from unmask.core.chance import Randomness
from unmask.core.entries import taken
from unmask.denoisers import Cost
from unmask.diagnosis.conformance.cases import Case, Counting, cases, patterns, tiny
from unmask.diagnosis.conformance.distributions import ALARM, p_value
from unmask.diagnosis.conformance.exam import ROWS, Exam, Failure, WatchedSession
from unmask.samplers import AtToken, Generation, join
from unmask.samplers.schedules import deltas

SEED = 3
INDEPENDENT = "Make each row independent of the others"
KEYED = "Draw only from view, canvas.draw or the randomness of the session"
CUTS = (0, 1), (1, ROWS)  # the first row alone, and the others without it
LENGTHS = (9, 1, 6, 9, 4, 7)  # of the rows of a batch
GIVEN = (0, 0, 2, 5, 4, 3)  # tokens of their prompts
ALONE = {"tokens": torch.equal, "order": torch.equal, "probability": torch.allclose}  # a row alone is read in one pass
DRAWN = 8000  # rows that test a distribution


def contract(exam: Exam) -> None:
    """Every sequence is filled according to the contract, which the session and the loops check."""
    for where, session in exam.blank:
        _check_record(where, session)
    case = cases(exam.sampler.removes)[0]
    if any(case.name in refusal and f" in {3 * case.length} steps" in refusal for refusal in exam.refused):
        raise Failure(f"refuses {exam.refused[0]}")


def prompts(exam: Exam) -> None:
    """Given tokens stay, at any position and for any prompts of other rows."""
    for where, session in exam.prompted:
        _check_record(where, session)


def counting(exam: Exam) -> None:
    """Every model call is counted, and the number of calls matches the steps."""
    for where, session in [*exam.blank, *exam.prompted]:
        incomplete = (session.given == session.denoiser.vocabulary).any(1)
        if session.denoiser.uncounted:
            names = " and ".join(f"denoiser.{name}" for name in dict.fromkeys(session.denoiser.uncounted))
            raise Failure(f"{where}: it calls {names}, uncounted. Use canvas.at, canvas.ask or session.causal")

        turns = session.order.sort(1).values
        turns = ((turns[:, 1:] != turns[:, :-1]) & (turns[:, 1:] > 0)).sum(1) + (turns[:, 0] > 0)

        least = incomplete.long()
        most = session.model_calls
        if exam.sampler.implements("order"):
            least = most = turns
        elif exam.sampler.implements("choose"):
            # a sampler that remasks can reveal a row of T steps in fewer; each other context is one more call
            contexts = session.canvas.contexts
            least = turns + contexts
            most = torch.where(incomplete, session.turns, 0) + contexts
        _check_rows(where, session.model_calls, least, most)

    case = cases(exam.sampler.removes)[0]
    for task, pattern in patterns(case):
        counted = Counting(case.language, exam.sampler.removes)
        filled = exam.fill(replace(case, denoiser=counted), task, 4, pattern)
        if filled is not None:
            _check_spent(f"{task} of {case.name}", filled, counted.counted)


def _check_spent(where: str, session: WatchedSession, counted: Cost) -> None:
    """The account equals the cost counted by the denoiser; a canvas computes rows only for model calls."""
    account = session.account()
    if account.spent != counted:
        raise Failure(f"{where}: the account is {account.spent}; the denoiser computed {counted}")
    if not session.uses("causal") and account.spent.rows > int(account.model_calls.sum()):
        calls = int(account.model_calls.sum())
        raise Failure(f"{where}: it counts {calls} model calls, but {account.spent.rows} rows were computed")


def ragged(exam: Exam) -> None:
    """A row is the same alone and among rows of other lengths and prompts, for any padding."""
    case = cases(exam.sampler.removes)[0]
    places = torch.arange(max(LENGTHS))
    sizes = torch.tensor(LENGTHS).unsqueeze(1)
    drawn = case.language.sample(len(LENGTHS), len(places), seed=7)
    given = torch.where(places < torch.tensor(GIVEN).unsqueeze(1), drawn, case.language.vocabulary)

    for name, denoiser in (("", case.denoiser), (" from scratch", Counting(case.language, exam.sampler.removes))):
        named = replace(case, denoiser=denoiser, name=case.name + name)

        def padded(junk: int, named: Case = named) -> WatchedSession | None:
            tokens = torch.where(places < sizes, given, junk)
            return exam.fill(named, "rows of several lengths", 4, tokens, valid=places < sizes)

        if (first := padded(0)) is None or (other := padded(case.language.vocabulary - 1)) is None:
            return
        if where := differs(other, first, places < sizes):
            raise Failure(f"rows of several lengths of {named.name}: {where}. Do not read the padding of a row")

        for row, size in enumerate(LENGTHS):
            rng = Randomness(1, torch.tensor([100 + row]))
            alone = exam.fill(replace(named, length=size), "a row alone", 4, given[row : row + 1, :size], rng)
            if alone is not None:
                for what, same in ALONE.items():
                    if not same(getattr(alone, what)[0], getattr(first, what)[row, :size]):
                        where = f"row {row} of {size} tokens in rows of several lengths of {named.name}"
                        raise Failure(f"{where}: its {what} differ if it is alone. {INDEPENDENT}")


def stopping(exam: Exam) -> None:
    """A row that has ended does not change, and other rows are the same as without a stop rule."""
    case = cases(exam.sampler.removes)[0]
    blank = torch.full((12, case.length), case.language.vocabulary)
    for steps in (3, case.length):
        whole = exam.fill(case, "blank sequences", steps, blank)
        stopped = exam.fill(case, "blank sequences with a stop rule", steps, blank, stop=AtToken(1, filler=2))
        if stopped is None or whole is None:
            continue

        ends = (stopped.tokens == 1).int()
        first = torch.where(ends.any(1), ends.argmax(1) + 1, case.length)
        if not torch.equal(first, stopped.lengths):
            row = int((first != stopped.lengths).int().argmax())
            raise Failure(
                f"row {row} ends after {int(stopped.lengths[row])} tokens; "
                f"its first end symbol is at position {int(first[row])}"
            )

        if exam.sampler.implements("run"):
            continue
        goes_on = ~ends.any(1)
        if not torch.equal(stopped.tokens[goes_on], whole.tokens[goes_on]):
            raise Failure(f"in {steps} steps: rows without an end change if other rows end. {INDEPENDENT}")
        if bool((stopped.model_calls > whole.model_calls).any()):
            raise Failure(f"in {steps} steps: rows cost more with a stop rule than without")


def determinism(exam: Exam) -> None:
    """Equal seeds give equal results; both rows and seeds make a difference, or neither does."""
    rows = seeds = False
    for case in cases(exam.sampler.removes):
        first = exam.batch(case, SEED)
        again, other = (exam.make(case, steps=4, rows=ROWS, seed=seed) for seed in (SEED, SEED + 1))
        if first is None or again is None or other is None:
            continue

        if difference := differs(first, again):
            raise Failure(f"the same seed twice on {case.name}: {difference}. {KEYED}")
        rows |= bool((first.tokens != first.tokens[0]).any())
        seeds |= not torch.equal(first.tokens, other.tokens)

    if rows and not seeds:
        raise Failure(f"another seed changes nothing. {KEYED}")
    if seeds and not rows:
        raise Failure("all rows are equal, but change with the seed. Key random numbers by the row")


def batches(exam: Exam) -> None:
    """A row is the same in any batch, in any thread, for any prompts of other rows."""
    every = cases(exam.sampler.removes)
    for case in every:
        for task, given in [("blank sequences", None), *patterns(case, ROWS)]:
            if given is not None and case is not every[0]:
                continue

            def part(first: int, last: int, case: Case = case, task: str = task, given: Any = given) -> Any:
                prompts = taken(given, slice(first, last))
                return exam.make(case, task, given=prompts, steps=4, rows=last - first, seed=SEED, first_row=first)

            whole = exam.batch(case, SEED) if given is None else part(0, ROWS)
            if whole is None:
                continue
            with ThreadPoolExecutor(len(CUTS)) as pool:
                if differs(whole, join(list(pool.map(lambda cut: part(*cut), CUTS)))):
                    difference = differs(whole, join([part(*cut) for cut in CUTS]))
                    how = f"differ in batches: {difference}" if difference else "differ in threads, but not in batches"
                    raise Failure(f"{task} of {case.name} {how}. {INDEPENDENT}")


def rng(exam: Exam) -> None:
    """No uniform random number is used for two draws of a token."""
    for where, session in [*exam.blank, *exam.prompted]:
        if place := session.noted.twice():
            at = f"position {place[1]} of row {place[0]}, {where}"
            raise Failure(f"the token at {at} is drawn from the same uniform twice. Use canvas.draw")


def distribution(exam: Exam) -> None:
    """The claimed distribution, tested by bets with at most one false alarm in 10^6 each."""
    if exam.distribution is None:
        return
    trials = {
        "order": ("2-gram", "leak", "interval"),
        "causal": ("2-gram", "leak", "hmm"),
        "language": ("2-gram", "hmm"),
    }
    claim = "the given one"
    if isinstance(exam.distribution, str):
        claim = exam.distribution

    for name in trials.get(claim, ("2-gram", "leak")):
        case = tiny(exam.sampler.removes)[name]
        for steps in (1, 2, case.length) if name == "2-gram" else (2,):
            generation = exam.make(case, steps=steps, rows=DRAWN, seed=8)
            if generation is None:
                continue

            p = p_value(generation, case, exam.distribution, deltas("linear", steps))
            if p < ALARM:
                where = f"on {case.name} in {steps} steps: p = {p:.1g} with {DRAWN} rows"
                raise Failure(f"not the claimed distribution ({claim}) {where}")


CHECKS: dict[str, Callable[[Exam], None]] = {
    "contract": contract,
    "prompts": prompts,
    "counting": counting,
    "determinism": determinism,
    "batches": batches,
    "ragged": ragged,
    "stopping": stopping,
    "rng": rng,
    "distribution": distribution,
}


def differs(one: Generation | WatchedSession, other: Generation | WatchedSession, valid: Tensor | None = None) -> str:
    """The first difference between two results, or an empty string; valid, Bool (B, L): the positions that count."""
    for name in ("tokens", "order", "probability", "model_calls", "impossible"):
        a, b = map(attrgetter(name), (one, other))
        wrong = torch.ne(a, b) if valid is None or a.dim() < 2 else torch.ne(a, b) & valid
        if bool(wrong.any()):
            place = wrong.nonzero()[0].tolist()
            where = ", ".join(f"{name} {at}" for name, at in zip(("row", "position"), place, strict=False))
            return f"{name} differ at {where}: {a[tuple(place)].item():g} and {b[tuple(place)].item():g}"
    return ""


def _check_record(where: str, session: WatchedSession) -> None:
    """Each token has a step and a probability, unless it was given."""
    given = session.given != session.denoiser.vocabulary
    p = session.probability
    for wrong, what in (
        (given & (session.order != 0), "has a step, but was given"),
        (given & (p != 1), "has a probability other than 1, but was given"),
        (~given & ~((p > 0) & (p <= 1 + 1e-6)), "has no probability"),
    ):
        if bool(wrong.any()):
            row, position = wrong.nonzero()[0].tolist()
            raise Failure(f"{where}: position {position} of row {int(session.rng.row_ids[row])} {what}")


def _check_rows(where: str, model_calls: Tensor, least: Tensor, most: Tensor) -> None:
    wrong = (model_calls < least) | (model_calls > most)
    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        low, high = int(least[row]), int(most[row])
        expected = f"{low} to {high}" if low < high else f"at least {low}"
        if low == high:
            expected = str(low)
        raise Failure(f"{where}: row {row} counts {int(model_calls[row])} model calls; its steps need {expected}")
