"""What every sampler must keep, one function each; CHECKS names them in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from unmask import generation
from unmask.core.chance import Luck
from unmask.denoisers import Cost
from unmask.diagnosis.conformance.cases import Case, Counted, Wide, cases, patterns, tiny
from unmask.diagnosis.conformance.exam import ROWS, Exam, Wrong
from unmask.diagnosis.conformance.laws import ALARM, p_value
from unmask.diagnosis.conformance.options import options
from unmask.diagnosis.conformance.watch import WatchedSession
from unmask.generation import Generation
from unmask.samplers import AtToken
from unmask.schedules import deltas

SEED = 3
CUTS = (0, 1), (1, ROWS)  # a row alone, and the others without it
DRAWN = 8000  # rows that are held against a law


def contract(exam: Exam) -> None:
    """All is filled by the rules: they are checked where they are broken, by the session and the loops."""
    for where, session in exam.blank:
        _check_record(where, session)
    if any(cases()[0].name in refusal and f" in {3 * cases()[0].length} rounds" in refusal for refusal in exam.refused):
        raise Wrong(f"refuses {exam.refused[0]}")


def prompts(exam: Exam) -> None:
    """What is given stays, wherever it stands and whatever the other rows of the batch are given."""
    for where, session in exam.prompted:
        _check_record(where, session)


def counting(exam: Exam) -> None:
    """Every evaluation is counted, and what the flow needs is what is counted."""
    for where, session in [*exam.blank, *exam.prompted]:
        evaluations, order = session.account().evaluations, session.order
        asked = (session.given == session.denoiser.vocabulary).any(1)
        if session.denoiser.uncounted:
            names = " and ".join(f"denoiser.{name}" for name in dict.fromkeys(session.denoiser.uncounted))
            raise Wrong(f"{where}: it calls {names}, which nobody counts; ask canvas.at, canvas.ask or session.causal")
        turns = order.sort(1).values
        turns = ((turns[:, 1:] != turns[:, :-1]) & (turns[:, 1:] > 0)).sum(1) + (turns[:, 0] > 0)
        least, most = asked.long(), evaluations
        if exam.sampler.implements("order"):
            least = most = turns
        elif exam.sampler.implements("choose"):
            # whoever takes back may reveal a row of T rounds in fewer; and each context that it looks at is one more
            contexts = session.canvas.contexts
            least, most = turns + contexts, torch.where(asked, session.turns, 0) + contexts
        _check_rows(where, evaluations, least, most)
    case = cases()[0]
    for what, pattern in patterns(case):
        counted = Counted(case.language)
        filled = exam.fill(replace(case, denoiser=counted), what, 4, pattern)
        if filled is not None:
            _check_spent(f"{what} of {case.name}", filled, counted.counted)


def _check_spent(where: str, session: WatchedSession, counted: Cost) -> None:
    """What the account says is what the denoiser has counted itself; a canvas computes rows for evaluations alone."""
    account = session.account()
    if account.spent != counted:
        raise Wrong(f"{where}: the account says {account.spent}; the denoiser has computed {counted}")
    if not session.uses("causal") and account.spent.rows > int(account.evaluations.sum()):
        counts = f"{int(account.evaluations.sum())} evaluations, but {account.spent.rows} rows were computed"
        raise Wrong(f"{where}: it counts {counts}")


def vocabulary(exam: Exam) -> None:
    """Of 126,464 symbols no probabilities (.., V) are made, and what is spent is what the denoiser counts."""
    wide = Wide()
    for what, shown in (("a blank canvas", 0), ("prompts", 2)):
        given = torch.full((2, 5), wide.vocabulary)
        given[1, :shown] = 7
        before = wide.counted
        case = Case("a denoiser of 126,464 symbols", cases()[0].language, wide, 5)
        session = exam.fill(case, what, 2, given)
        if session is not None:
            _check_record(f"{what} of {case.name}", session)
            counted = Cost(*(getattr(wide.counted, f.name) - getattr(before, f.name) for f in fields(Cost)))
            _check_spent(f"{what} of {case.name}", session, counted)


LENGTHS, BEGUN = (9, 1, 6, 9, 4, 7), (0, 0, 2, 5, 4, 3)  # of rows in one batch, and how much of each is given


def ragged(exam: Exam) -> None:
    """Rows of other lengths and prompts are each what they are alone, whatever stands behind the shorter ones."""
    case = cases()[0]
    places, sizes = torch.arange(max(LENGTHS)), torch.tensor(LENGTHS).unsqueeze(1)
    drawn = case.language.sample(len(LENGTHS), len(places), seed=7)
    given = torch.where(places < torch.tensor(BEGUN).unsqueeze(1), drawn, case.language.vocabulary)
    for name, denoiser in (("", case.denoiser), (" from scratch", Counted(case.language))):
        asked = replace(case, denoiser=denoiser, name=case.name + name)
        kept = None
        for junk in (0, case.language.vocabulary - 1):
            padded = torch.where(places < sizes, given, junk)
            session = exam.fill(asked, "rows of several lengths", 4, padded, valid=places < sizes)
            if session is None:
                return
            if kept is None:
                kept = session
            elif where := _apart(session, kept, places < sizes):
                raise Wrong(
                    f"rows of several lengths of {asked.name}: {where}; nobody may read the padding behind a row"
                )
        assert kept is not None
        for row, size in enumerate(LENGTHS):
            luck = Luck(1, torch.tensor([100 + row]))
            alone = exam.fill(replace(asked, length=size), "a row alone", 4, given[row : row + 1, :size], luck)
            if alone is not None:
                for what in ("tokens", "order", "probability"):
                    same = torch.equal if what != "probability" else torch.allclose  # a row alone may be read at once
                    if not same(getattr(alone, what)[0], getattr(kept, what)[row, :size]):
                        where = f"row {row} of {size} tokens in rows of several lengths of {asked.name}"
                        raise Wrong(f"{where}: its {what} are others alone; let no row depend on the others")


def _apart(one: WatchedSession, other: WatchedSession, valid: Tensor) -> str:
    for what in ("tokens", "order", "probability"):
        wrong = (getattr(one, what) != getattr(other, what)) & valid
        if bool(wrong.any()):
            row, position = wrong.nonzero()[0].tolist()
            return f"{what} differ at row {row}, position {position}"
    if not torch.equal(one.account().evaluations, other.account().evaluations):
        return "evaluations differ"
    return ""


def stopping(exam: Exam) -> None:
    """A row that has ended is left alone, and one that has not is what it is without a stop rule."""
    case = cases()[0]
    rule = AtToken(1, filler=2)
    blank = torch.full((12, case.length), case.language.vocabulary)
    for steps in (3, case.length):
        whole = exam.fill(case, "a blank canvas", steps, blank)
        made = exam.fill(case, "a blank canvas that may end early", steps, blank, stop=rule)
        if made is None or whole is None:
            continue
        ends = (made.tokens == 1).int()
        first = torch.where(ends.any(1), ends.argmax(1) + 1, case.length)
        if not torch.equal(first, made.lengths):
            row = int((first != made.lengths).int().argmax())
            raise Wrong(
                f"row {row} ends after {int(made.lengths[row])} tokens; its first end is number {int(first[row])}"
            )
        if exam.sampler.implements("run"):
            continue
        goes_on = ~ends.any(1)
        if not torch.equal(made.tokens[goes_on], whole.tokens[goes_on]):
            raise Wrong(
                f"in {steps} rounds: rows that do not end are others where some do; let no row depend on the others"
            )
        if bool((made.account().evaluations > whole.account().evaluations).any()):
            raise Wrong(f"in {steps} rounds: rows that may end early cost more than whole ones")


def determinism(exam: Exam) -> None:
    """One seed, one result; and rows differ just where seeds do, or nowhere."""
    rows = seeds = False
    for case in cases():
        first = exam.batch(case, SEED)
        again, other = (exam.make(case, steps=4, rows=ROWS, seed=seed) for seed in (SEED, SEED + 1))
        if first is None or again is None or other is None:
            continue
        if difference := differs(first, again):
            raise Wrong(f"the same seed twice on {case.name}: {difference}; draw from view, canvas.draw or luck alone")
        rows |= bool((first.tokens != first.tokens[0]).any())
        seeds |= not torch.equal(first.tokens, other.tokens)
    if rows and not seeds:
        raise Wrong("another seed changes nothing; draw from view, canvas.draw or luck alone")
    if seeds and not rows:
        raise Wrong("all rows are alike, and other ones for another seed; key what is drawn by the row")


def company(exam: Exam) -> None:
    """A row is the same whoever is made with it: in any block, in any thread, whatever the others are given."""
    for case in cases():
        for what, given in [("a blank canvas", None), *patterns(case, ROWS)]:
            if given is not None and case is not cases()[0]:
                continue

            def part(first: int, last: int, case: Case = case, what: str = what, given: Any = given) -> Any:
                options = {"steps": 4, "rows": last - first, "seed": SEED, "first_row": first}
                return exam.make(case, what, given=None if given is None else given[first:last], **options)

            whole = exam.batch(case, SEED) if given is None else part(0, ROWS)
            if whole is None:
                continue
            with ThreadPoolExecutor(len(CUTS)) as pool:
                if differs(whole, generation.join(list(pool.map(lambda cut: part(*cut), CUTS)))):
                    difference = differs(whole, generation.join([part(*cut) for cut in CUTS]))
                    how = f"in blocks: {difference}" if difference else "in threads, and not in blocks: it is another"
                    raise Wrong(f"{what} of {case.name} {how}; let no row depend on the others")


def luck(exam: Exam) -> None:
    """No two draws of a token share a uniform: a token that is drawn again is drawn anew."""
    for where, session in [*exam.blank, *exam.prompted]:
        if place := session.noted.twice():
            at = f"position {place[1]} of row {place[0]}, {where}"
            raise Wrong(f"the token at {at} is drawn from the same uniform twice; canvas.draw counts visits")


def law(exam: Exam) -> None:
    """The law that is claimed, by a bet against it, with at most one false alarm in 10^6 each."""
    if exam.law is None:
        return
    trials = {
        "order": ("2-gram", "leak", "interval"),
        "causal": ("2-gram", "leak", "hmm"),
        "language": ("2-gram", "hmm"),
    }
    for name in trials.get(exam.law if isinstance(exam.law, str) else "", ("2-gram", "leak")):
        case = tiny()[name]
        for steps in (1, 2, case.length) if name == "2-gram" else (2,):
            made = exam.make(case, steps=steps, rows=DRAWN, seed=8)
            if made is None:
                continue
            p = p_value(made, case, exam.law, deltas("linear", steps))
            if p < ALARM:
                claim = exam.law if isinstance(exam.law, str) else "the given one"
                raise Wrong(
                    f"not the law it claims ({claim}) on {case.name} in {steps} rounds: p = {p:.1g} of {DRAWN} rows"
                )


CHECKS: dict[str, Callable[[Exam], None]] = {
    "contract": contract,
    "prompts": prompts,
    "counting": counting,
    "vocabulary": vocabulary,
    "determinism": determinism,
    "company": company,
    "ragged": ragged,
    "stopping": stopping,
    "luck": luck,
    "options": options,
    "law": law,
}


def differs(one: Generation, other: Generation) -> str:
    """The first row in which two generations differ, or nothing."""
    for name in ("tokens", "order", "probability", "evaluations", "impossible"):
        a, b = getattr(one, name), getattr(other, name)
        if a.shape != b.shape or not torch.equal(a, b):
            place = (a != b).nonzero()[0].tolist()
            where = f"row {place[0]}" + (f", position {place[1]}" if len(place) > 1 else "")
            return f"{name} differ at {where}: {a[tuple(place)].item():g} and {b[tuple(place)].item():g}"
    return ""


def _check_record(where: str, session: WatchedSession) -> None:
    """What the session says of each token: its round and its probability, nothing where it was given."""
    given = session.given != session.denoiser.vocabulary
    p = session.probability
    for wrong, what in (
        (given & (session.order != 0), "has a round, but was given"),
        (given & (p != 1), "has a probability other than 1, but was given"),
        (~given & ~((p > 0) & (p <= 1 + 1e-6)), "has no probability"),
    ):
        if bool(wrong.any()):
            row, position = wrong.nonzero()[0].tolist()
            raise Wrong(f"{where}: position {position} of row {int(session.luck.row_ids[row])} {what}")


def _check_rows(where: str, evaluations: Tensor, least: Tensor, most: Tensor) -> None:
    wrong = (evaluations < least) | (evaluations > most)
    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        low, high = int(least[row]), int(most[row])
        expected = str(low) if low == high else f"{low} to {high}" if low < high else f"at least {low}"
        raise Wrong(f"{where}: row {row} counts {int(evaluations[row])} evaluations; its rounds need {expected}")
