"""The audit names each fault of the fake server, and none that is not there."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import comb

import numpy as np
import pytest

from tests.needs import required
from unmask import UnmaskError
from unmask.diagnosis import counts
from unmask.diagnosis.counts import one_sample, two_samples

with required("endpoint"):
    from tests.diagnosis.endpoint.server import BEHAVIOR, WEIGHTS, FakeServer
    from unmask.diagnosis.endpoint import ALARM, FIELDS, LEVEL, TESTS, audit

ALSO = {  # other tests that the same fault breaks
    "repetition": {"temperature", "boundaries"},  # padding follows each answer but the first
}
HIDES = {"temperature": {"seed", "load", "padding", "defaults", "logits"}}  # all answers are equal


def audited(server, **options):
    return audit("http://fake", transport=server.transport, **{"draws": 60} | options)


def test_there_is_a_test_for_each_fault():
    assert list(TESTS) == list(BEHAVIOR)
    assert len(TESTS) == 12


@pytest.mark.sampled(12)
@pytest.mark.parametrize("fault", BEHAVIOR)
def test_the_audit_names_each_fault(fault):
    found = audited(FakeServer(faults=[fault]))
    assert set(found.red) == {fault} | ALSO.get(fault, set())
    unknown = {one.test for one in found.verdicts if one.verdict == "unknown"}
    assert unknown == HIDES.get(fault, set())
    assert found.requests == sum(one.requests for one in found.verdicts) + 1 + 2 * len(FIELDS) <= 7 * 60 + 100


def test_a_server_without_a_fault_is_green():
    found = audited(FakeServer())
    assert {one.verdict for one in found.verdicts} == {"green"}
    assert (found.fields["temperature"], found.fields["seed"]) == ("obeyed", "obeyed")
    assert found.fields["min_p"] == "refused"


def alarms(seeds):
    """Audits with a red test; each has one with a probability of at most ALARM."""
    return sum(bool(audited(FakeServer(seed=seed), draws=40).red) for seed in seeds)


@pytest.mark.long
def test_few_false_alarms():
    """More than 6 of 20 have a probability below 1e-9."""
    assert sum(comb(20, k) * ALARM**k * (1 - ALARM) ** (20 - k) for k in range(7, 21)) < 1e-9
    assert alarms(range(100, 120)) <= 6


@pytest.mark.long
def test_false_alarms_in_200_audits():
    """More than 15 of 200 have a probability below 1e-9."""
    assert sum(comb(200, k) * ALARM**k * (1 - ALARM) ** (200 - k) for k in range(16, 201)) < 1e-9
    assert alarms(range(200)) <= 15


def test_refused_temperatures_are_no_fault():
    """As a server that refuses temperature != 1: its audit cannot know, and is not red."""

    class Strict(FakeServer):
        def _refusal(self, content):
            return "temperature" if content.get("temperature", 1) != 1 else super()._refusal(content)

    found = audited(Strict())
    assert found.red == []
    assert found["temperature"].verdict == "unknown"
    assert found.fields["temperature"] == "unknown"
    assert found["chunks"].verdict == "green"  # the seed determines the answer


@pytest.mark.long
def test_a_server_that_answers_nothing():
    with pytest.raises(UnmaskError, match="does not answer a usual request: malformed"):
        audited(FakeServer(faults=["not-json"]))
    with pytest.raises(UnmaskError, match=r"does not answer: no connection to .*\. Is it running at http://127"):
        audit("http://127.0.0.1:9", "m")
    with pytest.raises(UnmaskError, match="does not answer a usual request: refused, status 400"):
        audited(FakeServer(faults=["status-400"]))


def test_two_samples_is_fishers_test_of_two_categories():
    from scipy.stats import fisher_exact

    for a, b in ((3, 9), (10, 2), (0, 12), (6, 6)):
        ours = two_samples(Counter(x=a, y=12 - a), Counter(x=b, y=12 - b))
        theirs = fisher_exact([[a, 12 - a], [b, 12 - b]]).pvalue
        assert abs(ours - theirs) < 6 * np.sqrt(theirs / 9_999) + 1e-4
    assert two_samples(Counter(x=5), Counter(x=9)) == 1.0


def test_one_sample_against_enumeration():
    odds = np.array([0.5, 0.3, 0.2])
    rows = np.array([row for row in product(range(9), repeat=3) if sum(row) == 8])
    weights = np.array([comb(8, a) * comb(8 - a, b) for a, b, _ in rows]) * (odds**rows).prod(1)
    ratio = np.where(rows > 0, rows / (8 * odds), 1)
    statistic = 2 * (rows * np.log(ratio)).sum(1)
    for row in ([4, 2, 2], [0, 0, 8], [8, 0, 0], [1, 5, 2]):
        at = int((rows == row).all(1).argmax())
        expected = weights[statistic >= statistic[at] - 1e-9].sum()
        ours = one_sample(dict(zip("abc", row, strict=True)), dict(zip("abc", odds, strict=True)))
        assert abs(ours - expected) < 6 * np.sqrt(expected / 9_999) + 1e-4
    assert one_sample({"d": 1}, {"a": 0.5, "b": 0.5}) == 0.0


def test_the_level_is_that_of_all_tests_together(monkeypatch):
    """The p-values of a fair comparison are below each level at most that often, whatever the categories are."""
    monkeypatch.setattr(counts, "DRAWS", 999)
    rng = np.random.default_rng(5)
    p = [two_samples(*(Counter(rng.choice(list("abcdef"), 40, p=WEIGHTS).tolist()) for _ in "12")) for _ in range(300)]
    for level in (0.02, 0.1, 0.5):  # six standard deviations
        assert np.mean(np.array(p) <= level) <= level + 6 * np.sqrt(level * (1 - level) / 300)
    assert LEVEL * len(TESTS) == ALARM
