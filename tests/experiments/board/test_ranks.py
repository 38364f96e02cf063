"""Two boards ranked: tau by its pairs, p by every permutation, and the pairs that are turned."""

from __future__ import annotations

import json
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, rankdata

from unmask import UnmaskError
from unmask.experiments.board import ranks as module
from unmask.experiments.board.ranks import kendall, ranking, ranks

LEVELS = st.integers(0, 4).map(lambda level: level / 4)  # few, so that some are equal


@pytest.fixture(scope="module", autouse=True)
def few():
    """Where p is not the point."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PERMUTATIONS", 9)
        yield


def ends(*values, half=0.01):
    """By name a, b, ..: each with an interval."""
    return {chr(97 + number): (value, value - half, value + half) for number, value in enumerate(values)}


def varied(pairs):
    return all(len({pair[side] for pair in pairs}) > 1 for side in (0, 1))


@given(st.lists(st.tuples(LEVELS, LEVELS), min_size=3, max_size=7))
def test_tau_by_its_pairs(pairs):
    first, second = (np.array(values) for values in zip(*pairs, strict=True))
    if not varied(pairs):
        with pytest.raises(UnmaskError, match="all samplers are alike on one of the boards"):
            kendall(first, second)
        return
    assert kendall(first, second)[0] == pytest.approx(kendalltau(first, second).statistic)


def test_p_by_every_permutation(monkeypatch):
    monkeypatch.setattr(module, "PERMUTATIONS", 9999)
    first, second = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.5]), np.array([0.2, 0.1, 0.3, 0.5, 0.4, 0.6])
    found = abs(kendalltau(first, second).statistic)
    every = [abs(kendalltau(first, second[list(order)]).statistic) >= found - 1e-12 for order in permutations(range(6))]
    assert 0.01 < np.mean(every) < 0.1
    assert kendall(first, second)[1] == pytest.approx(np.mean(every), abs=0.01)  # five times its standard error


@given(st.lists(st.tuples(LEVELS, LEVELS), min_size=3, max_size=7).filter(varied))
def test_ranks_and_pairs(pairs):
    one, other = (ends(*values, half=0.2) for values in zip(*pairs, strict=True))  # apart where two levels are between
    made = ranking("l", 8, one, other)
    assert [standing.first[0] for standing in made.standings] == sorted((a for a, _ in pairs), reverse=True)
    for side, name in enumerate(("first_rank", "second_rank")):
        found = {standing.sampler: getattr(standing, name) for standing in made.standings}
        expected = rankdata([-pair[side] for pair in pairs])
        assert [found[chr(97 + number)] for number in range(len(pairs))] == pytest.approx(list(expected))
    decided, turned = 0, set()
    for (x, (a, b)), (y, (c, d)) in combinations(enumerate(pairs), 2):
        if abs(a - c) >= 0.5 and abs(b - d) >= 0.5:
            decided += 1
            if (a > c) != (b > d):
                turned.add((chr(97 + x), chr(97 + y)) if a > c else (chr(97 + y), chr(97 + x)))
    assert (made.decided, set(made.turned)) == (decided, turned)


def board(path, **samplers):
    about = {"language": "paper-2gram", "length": 8, "measure": "accuracy_under_parallelism", "knob": "steps"}
    records = [
        about | {"sampler": name} | dict(zip(("value", "low", "high"), said, strict=True))
        for name, said in samplers.items()
    ]
    records.append(about | {"measure": "ser", "sampler": "a", "value": 0.5, "low": None, "high": None})
    path.write_text(json.dumps({"origin": {}, "records": records}))
    return path


def test_samplers_that_both_boards_have(tmp_path):
    one = board(tmp_path / "one.json", **ends(0.9, 0.5, 0.1, 0.7))
    other = board(tmp_path / "other.json", **ends(0.2, 0.5, 0.1))
    (made,) = ranks(one, other)
    assert [standing.sampler for standing in made.standings] == ["a", "b", "c"]
    assert (made.turned, made.decided, made.tau) == ((("a", "b"),), 3, pytest.approx(1 / 3))
    assert made.sentence().startswith(
        "paper-2gram, 8 tokens, 3 samplers: Kendall's tau is 0.33, p = 1 by permutation; 1"
    )
    with pytest.raises(UnmaskError, match="share no language with 3 samplers of one length"):
        ranks(one, board(tmp_path / "few.json", **ends(0.2, 0.5)))
    with pytest.raises(UnmaskError, match="has no accuracy_under_parallelism of b on paper-2gram; measure it again"):
        ranks(one, board(tmp_path / "none.json", a=(0.1, 0.0, 0.2), b=(None, None, None)))
