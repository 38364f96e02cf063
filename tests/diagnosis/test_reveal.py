"""What a trace does against a language, held against enumeration of all strings of tiny ones."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import brute
from unmask import generate
from unmask.core.errors import UnmaskError
from unmask.diagnosis import reveal
from unmask.languages import Interval, Language, random_ngram
from unmask.samplers.trace import Row, Trace, check

TINY = {name: case for name, case in brute.tiny_languages().items() if case[1] > 2}


def agrees(language: Language, trace: Trace, number: int) -> reveal.Reading:
    """The reading of a row, once enumeration has said the same."""
    row = trace.rows[number]
    strings, q = brute.support(language, row.length)
    found = reveal.read(language, trace, number)
    steps, v = list(row.steps()), language.vocabulary

    def mass(stands):
        context = np.full((1, row.length), v)
        context[0, list(stands)] = list(stands.values())
        return brute.evidence(q, strings, context, v)[0]

    start = mass(dict(row.given))
    before = 0.0
    for one, step in zip(steps, found.steps, strict=True):
        tokens = {position: token for position, (token, _) in one.after.items()}
        now = mass(tokens)
        if now == 0:
            assert step.meter == step.lost == math.inf
        else:
            drawn = sum(math.log(p) for _, p in one.after.values())
            assert step.meter == pytest.approx(drawn - math.log(now / start), abs=1e-9)
            assert step.lost == pytest.approx(step.meter - before, abs=1e-9)
        expected = {}
        if before < math.inf:
            fits = q * brute.fits(strings, _context(one.context, row.length, v), v)[0]
            for i, j in combinations(sorted(set(one.revealed)), 2):
                joint = np.zeros((v, v))
                np.add.at(joint, (strings[:, i], strings[:, j]), fits / fits.sum())
                apart = joint.sum(1, keepdims=True) * joint.sum(0)
                expected[i, j] = math.fsum(joint[joint > 0] * np.log(joint[joint > 0] / apart[joint > 0]))
        said = {(i, j): nats for i, j, nats in step.pairs}
        assert said.keys() <= expected.keys()
        for pair, nats in expected.items():
            assert said.get(pair, 0.0) == pytest.approx(nats, abs=1e-8)
        before = step.meter
    dead = [k for k, step in enumerate(found.steps) if step.meter == math.inf]
    assert found.impossible == (dead[0] if dead else None)
    if dead:
        _check_culprit(found, steps[dead[0]], mass)
    else:
        assert (found.guilty, found.because, found.why) == ((), (), "")
    return found


def _check_culprit(found, one, mass):
    after = {position: token for position, (token, _) in one.after.items()}
    drawn = {position: token for position, token in after.items() if position in one.revealed}
    stood = {position: token for position, token in after.items() if position not in drawn}

    def excluded(positions, context):
        return mass(context | {position: drawn[position] for position in positions}) == 0

    assert excluded(found.guilty, stood)
    for size in range(1, len(found.guilty)):
        assert not any(excluded(some, stood) for some in combinations(drawn, size))
    if len(found.guilty) == 2:
        i, j = found.guilty
        nearer = [(a, b) for a, b in combinations(sorted(drawn), 2) if b - a < j - i]
        assert not any(excluded(pair, stood) for pair in nearer)
    kept = {position: stood[position] for position in found.because}
    assert excluded(found.guilty, kept)
    for position in kept:
        assert not excluded(found.guilty, {other: token for other, token in kept.items() if other != position})
    assert all(str(position + 1) in found.why for position in found.guilty)


def _context(stands, length, v):
    context = np.full((1, length), v)
    context[0, list(stands)] = list(stands.values())
    return context


@pytest.mark.parametrize("name", TINY)
def test_the_meter_the_arcs_and_the_culprit_are_those_of_enumeration(name):
    language, length = TINY[name]
    made = generate(language, length=length, steps=2, rows=4, seed=3)
    trace = made.trace()
    strings, q = brute.support(language, length)
    distribution = dict(zip(map(tuple, strings.tolist()), q.tolist(), strict=True))
    for row in range(4):
        found = agrees(language, trace, row)
        mine = distribution.get(tuple(made.tokens[row].tolist()), 0.0)
        share = float(made.probability[row].log().sum()) - math.log(mine) if mine else math.inf
        assert found.lost == pytest.approx(share, abs=1e-9)


CHAIN = random_ngram(2, 3, **brute.SHARP, seed=2)


@st.composite
def walks(draw):
    """Any trace of five positions over three symbols: hidden again, written over, and of any probabilities."""
    stands: set[int] = set()
    given = draw(st.sampled_from([[], [(0, int(CHAIN.sample(1, 5)[0, 0]))]]))
    fixed = {position for position, _ in given}
    events = []
    for turn in range(1, draw(st.integers(1, 4)) + 1):
        for position in draw(st.permutations(sorted(set(range(5)) - fixed)))[: draw(st.integers(1, 4))]:
            if position in stands:
                events.append((turn, position, None, None))
                stands.discard(position)
                if draw(st.booleans()):
                    continue
            p = draw(st.floats(0.01, 1))
            events.append((turn, position, draw(st.integers(0, 2)), p))
            stands.add(position)
    trace = Trace(vocabulary=3, rows=[Row(length=5, events=events, given=given)])
    check(trace)
    return trace


@given(walks())
@settings(max_examples=80, deadline=None)
def test_any_trace_is_read_as_enumeration_reads_it(trace):
    agrees(CHAIN, trace, 0)


@pytest.mark.parametrize("sampler", ["gibbs", "remdm", "wino", "p2"])
def test_what_samplers_take_back_is_read_too(sampler):
    made = generate(CHAIN, sampler=sampler, length=5, steps=3, rows=3, seed=1, trace=True)
    trace = made.trace()
    assert made.taken is not None
    assert sum(len(row.events) for row in trace.rows) == 15 + 2 * len(made.taken.rows)
    for row in range(3):
        found = agrees(CHAIN, trace, row)
        assert [trace.rows[row].final[place] for place in range(5)] == made.tokens[row].tolist()
        if found.steps[-1].meter < math.inf:
            assert found.lost == pytest.approx(
                float(made.probability[row].log().sum() - CHAIN.log_prob(made.tokens[row : row + 1]))
            )


def _all_agree(language, trace):
    for row in range(len(trace.rows)):
        agrees(language, trace, row)


def _mutants():
    """Subtly wrong ways to say the same."""
    context, needed, culprit, pairs = reveal._context, reveal._Case.needed, reveal._Case.culprit, reveal._pairs
    yield "a context of nothing", reveal, "_pairs", lambda l, row, one: pairs(l, row, one._replace(context={}))
    yield "the farthest pair", reveal._Case, "culprit", lambda case: culprit(case)[:1] + tuple(case.drawn)[-1:]
    yield "all that stood", reveal._Case, "needed", lambda case, guilty: tuple(case.stood)
    yield "nothing that stood", reveal._Case, "needed", lambda case, guilty: needed(case, guilty)[1:]
    yield "one token too few", reveal, "_context", lambda l, row, stands: context(l, row, dict([*stands.items()][:-1]))


@pytest.mark.parametrize("mutant", [*_mutants()], ids=lambda mutant: mutant[0])
def test_a_subtly_wrong_reading_is_caught(mutant, monkeypatch):
    language = random_ngram(3, 3, threshold=0.08, seed=0)
    trace = generate(language, length=5, steps=2, rows=12, seed=2).trace()
    _all_agree(language, trace)
    monkeypatch.setattr(*mutant[1:])
    with pytest.raises((AssertionError, UnmaskError)):
        _all_agree(language, trace)


def _trace(language, *events, length=4, given=()):
    return Trace(vocabulary=language.vocabulary, rows=[Row(length=length, events=[*events], given=[*given])])


TOGETHER = "positions 1 and 2 were drawn together; "
ALONE = "position 2 was drawn as c, to which the denoiser gave 0.01: no other token of this step is to blame; "
CYCLE = random_ngram(2, 3, seed=0).__class__(2, [1 / 3] * 3, np.roll(np.eye(3), 1, 1))  # a b c a b c ..


@pytest.mark.parametrize(
    ("language", "events", "why"),
    [
        (
            CYCLE,
            [(1, 1, 0, 0.3), (1, 2, 0, 0.3)],
            "positions 2 and 3 were drawn together; after a the language never continues with a",
        ),
        (
            CYCLE,
            [(1, 0, 0, 0.3), (1, 2, 0, 0.3)],
            "positions 1 and 3 were drawn together; no sequence of the language has a at 1 and a at 3",
        ),
        (
            CYCLE,
            [(1, 0, 0, 0.3), (2, 1, 2, 0.01)],
            ALONE + "after a the language never continues with c",
        ),
        (
            Interval(3),
            [(1, 0, 1, 0.25), (1, 1, 0, 0.25)],
            TOGETHER + "after b the language does not continue with a there",
        ),
    ],
    ids=["neighbours", "apart", "alone", "interval"],
)
def test_the_culprit_in_words(language, events, why):
    trace = _trace(language, *events)
    assert agrees(language, trace, 0).why == why


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (_trace(Interval(3), (1, 0, 0, 0.5)), "the trace has 4 symbols, ngram has 3. Pass the language"),
        (_trace(CYCLE, given=[(0, 0), (1, 0)]), "row 0 of the trace has given tokens that are impossible"),
    ],
)
def test_a_trace_of_another_language_is_refused(trace, said):
    with pytest.raises(UnmaskError, match=said):
        reveal.read(CYCLE, trace, 0)
