"""The kit passes the samplers of the house, and finds each planted defect by the check that is about it.

Its tests of distributions have fixed seeds and a false-alarm rate of at most 1e-6 each.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multinomial

from tests.diagnosis.conformance.bad import BAD, GOOD, ByPosition, ChoosesAfterDrawing
from unmask import UnmaskError, generate
from unmask.diagnosis import conformance
from unmask.diagnosis.conformance import distributions
from unmask.diagnosis.conformance.checks import CHECKS
from unmask.languages import random_ngram
from unmask.metrics import output_distribution
from unmask.samplers import SAMPLERS, Sampler, session
from unmask.samplers.rules.low_confidence import LowConfidence

EXCEPTIONS = {"as-published-mdlm": ["batches"]}  # its evaluations depend on the batch: that is what it is kept to show


def all_but(*names):
    """Checks to skip where a test is about others."""
    return [name for name in CHECKS if name not in names]


@pytest.mark.sampled(30)
@pytest.mark.parametrize("name", SAMPLERS.makers)
def test_our_samplers_conform(name):
    report = conformance.examine(name)
    assert [check.name for check in report.failed] == EXCEPTIONS.get(name, []), report
    assert report["contract"].outcome == "passed"
    if SAMPLERS.make(name).distribution is not None:
        assert report["distribution"].outcome == "passed"


def test_claims_are_made():
    """What follows no distribution that is written down says nothing; all others say which."""
    silent = [name for name in SAMPLERS.makers if SAMPLERS.make(name).distribution is None]
    taking_back = ["gibbs", "p2", "remdm", "token-editing", "wino"]
    expected = [
        *taking_back,
        "as-published-mdlm",
        "llada",
        "low-confidence",
        "renoise",
    ]
    assert sorted(silent) == sorted(expected)
    for distribution, names in {"causal": ["autoregressive", "speculative"], "language": ["self-speculative"]}.items():
        assert [name for name in SAMPLERS.makers if SAMPLERS.make(name).distribution == distribution] == names


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "sampler",
    [
        "blocks(block_length=3, inner=margin)",
        "blocks(block_length=4, inner=low-confidence)",
        "speculative(draft_length=2)",
        "low-confidence(temperature=0, ties=position)",
        "gibbs(inner=strided, stride=2)",
    ],
)
def test_options_and_nested_samplers_conform(sampler):
    conformance.check(sampler)


@pytest.mark.sampled(26)
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.__name__)
def test_planted_defects_are_found(bad, monkeypatch):
    monkeypatch.setattr(session, "PATIENCE", 10)
    name, words = BAD[bad]
    report = conformance.examine(bad(), skip=all_but("contract", name))
    assert report["contract"].outcome == ("failed" if name == "contract" else "passed")
    assert name in [check.name for check in report.failed], report
    assert words in report[name].why
    with pytest.raises(AssertionError, match=f"sampler {bad.__name__} does not conform: .*{name}"):
        report.raise_if_failed()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("good", GOOD)
def test_what_is_sound_passes(good):
    """The frame of the planted defects, a rule by position, a rule with a memory."""
    assert conformance.check(good(), distribution="order").passed


def test_a_rule_by_position_is_the_same_in_any_company():
    """Prompts of 0, 2, 5 and 7 of 8 tokens: positions are those of the canvas, not of a window."""
    language = random_ngram(2, 4, threshold=0.1, seed=1)
    given = language.sample(4, 8, seed=3)
    given[torch.arange(8) >= torch.tensor([0, 2, 5, 7]).unsqueeze(1)] = language.vocabulary
    made = generate(language, sampler=ByPosition(), given=given, steps=8)
    for row in range(4):
        alone = generate(language, sampler=ByPosition(), given=given[row : row + 1], first_row=row, steps=8)
        assert torch.equal(alone.tokens[0], made.tokens[row])
        assert torch.equal(alone.order[0], made.order[row])


def test_a_law_may_be_a_function():
    """Ancestral sampling follows the distribution that is enumerated elsewhere, and low confidence does not."""
    report = conformance.check("ancestral", distribution=output_distribution, skip=all_but("distribution"))
    assert report["distribution"].outcome == "passed"
    with pytest.raises(AssertionError, match="sampler low-confidence does not conform: distribution"):
        conformance.check("low-confidence", distribution=output_distribution, skip=all_but("distribution"))


@pytest.mark.long
def test_what_a_sampler_claims_can_be_overruled_or_skipped():
    assert conformance.examine(ChoosesAfterDrawing(), skip=["distribution"]).passed
    silent = conformance.examine(LowConfidence(), skip=all_but("distribution"))
    assert silent.passed
    assert silent["distribution"].outcome == "no claim"


class Picky(Sampler):
    def choose(self, view):
        raise UnmaskError("not today")


def test_a_sampler_that_refuses_everything_does_not_pass():
    assert "refuses blank sequences of a 2-gram, 9 tokens in" in conformance.examine(Picky())["contract"].why


@pytest.mark.parametrize("distribution", [[0.5, 0.5], [0.98, 0.01, 0.01], [0.999, 0.0009, 0.0001], [0.7, 0.2, 0.1]])
def test_false_alarms_are_as_rare_as_they_say(distribution):
    """Of every count of 30 draws, by their exact probability; a chi-square of the skewed ones is 64 times too sure."""
    every = torch.cartesian_prod(*[torch.arange(31)] * (len(distribution) - 1)).view(-1, len(distribution) - 1)
    every = every[every.sum(1) <= 30]
    every = torch.cat([30 - every.sum(1, keepdim=True), every], 1)
    mass = multinomial.pmf(every.numpy(), 30, distribution)
    found = np.array(
        [
            distributions.against_distributions(
                c, torch.tensor(distribution).double(), torch.zeros(len(distribution)).long()
            )
            for c in every
        ]
    )
    for alarm in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6):
        assert mass[found <= alarm].sum() <= alarm
    assert found.min() < 1e-6


def test_groups_bet_together():
    """A small departure in each of fifty distributions, which none shows alone."""
    distribution = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64).repeat(50)
    groups = torch.arange(50).repeat_interleave(3)
    counts = torch.tensor([132, 55, 13]).repeat(50)
    assert distributions.against_distributions(counts, distribution, groups) < 1e-6
    assert distributions.against_distributions(counts[:3], distribution[:3], groups[:3]) > 1e-2
    assert distributions.against_distributions(torch.tensor([120, 60, 20]).repeat(50), distribution, groups) == 1.0
