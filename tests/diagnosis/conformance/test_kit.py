"""The kit passes the samplers of the house, and finds each planted defect by the check that is about it.

Its tests of distributions have fixed seeds and a false-alarm rate of at most 1e-6 each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.stats import multinomial

from tests.diagnosis.conformance.bad import BAD, GOOD, ByPosition, ChoosesAfterDrawing
from unmask import UnmaskError, generate
from unmask.denoisers import Ideal
from unmask.diagnosis import conformance
from unmask.diagnosis.conformance import distributions, watch
from unmask.diagnosis.conformance.checks import CHECKS
from unmask.languages import random_ngram
from unmask.metrics import output_distribution
from unmask.samplers import SAMPLERS, Choice, Sampler, session
from unmask.samplers.rules.confidence import LowConfidence
from unmask.samplers.rules.orders import Ancestral

EXCEPTIONS = {  # its evaluations depend on the batch, and its race needs all symbols: that is what it is kept to show
    "as-published-mdlm": ["vocabulary", "batches"],
}


def all_but(*names):
    """Checks to skip where a test is about others."""
    return [name for name in CHECKS if name not in names]


@pytest.mark.rotates(10)
@pytest.mark.parametrize("name", SAMPLERS.makers)
def test_our_samplers_conform(name):
    report = conformance.examine(name)
    assert [check.name for check in report.failed] == EXCEPTIONS.get(name, []), report
    assert report["contract"].outcome == "passed"
    if SAMPLERS.make(name).distribution is not None:
        assert report["distribution"].outcome == "passed"


@dataclass(frozen=True)
class Couples(ByPosition):
    """Nothing reads `gap`."""

    gap: int = 1


def test_an_option_that_changes_nothing_is_a_warning():
    report = conformance.examine(Couples(), skip=all_but("contract", "options"))
    assert report.passed
    assert report["options"].outcome == "warned"
    assert report["options"].why == "gap has no effect on small languages: tried 2, 0"
    for name in ("threshold", "low-confidence", "speculative", "blocks", "entropy-bounded"):
        assert conformance.examine(name, skip=all_but("contract", "options"))["options"].outcome == "passed"
    assert conformance.examine("strided", skip=all_but("contract", "options"))["options"].outcome == "no claim"


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
        "verify-and-restart",
    ]
    assert sorted(silent) == sorted(expected)
    for distribution, names in {"causal": ["autoregressive", "speculative"], "language": ["self-speculative"]}.items():
        assert [name for name in SAMPLERS.makers if SAMPLERS.make(name).distribution == distribution] == names


@pytest.mark.rotates(4)
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


def test_a_cache_for_one_row_knows_no_company():
    conformance.check("as-published-mdlm(batch=1)", skip=["vocabulary"])


@pytest.mark.rotates(4)
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


@pytest.mark.rotates(3)
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


def test_what_a_sampler_claims_can_be_overruled_or_skipped():
    assert conformance.examine(ChoosesAfterDrawing(), skip=["distribution"]).passed
    silent = conformance.examine(LowConfidence(), skip=all_but("distribution"))
    assert silent.passed
    assert silent["distribution"].outcome == "no claim"


def test_refusals_are_told():
    report = conformance.examine("autoregressive", skip=all_but("prompts"))
    assert report["prompts"].outcome == "passed"
    assert "first suffixes of a 2-gram" in report["prompts"].why
    assert "expected a prefix for autoregression" in report["prompts"].why


class Picky(Sampler):
    def choose(self, view):
        raise UnmaskError("not today")


class Broken(Sampler):
    def choose(self, view):
        return Choice(view.hidden[:, [99]])


class Both(Ancestral):
    def choose(self, view):
        return Choice(view.hidden)


def test_a_sampler_that_refuses_everything_does_not_pass():
    assert "refuses blank sequences of a 2-gram, 9 tokens in" in conformance.examine(Picky())["contract"].why


def test_an_error_of_the_sampler_is_told_with_its_place():
    report = conformance.examine(Broken())
    assert "IndexError in test_kit.py, line " in report["contract"].why
    assert {check.outcome for check in report.checks[1:]} == {"not run"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: conformance.check(Both()), "Both implements order and choose; expected exactly one"),
        (lambda: conformance.check(Sampler()), "Sampler implements none of its methods"),
        (lambda: conformance.check(7), "7? is of class int"),
        (lambda: conformance.check("ancestrel"), "unknown sampler 'ancestrel'"),
        (
            lambda: conformance.check("ancestral", skip=["distributions"]),
            "unknown check 'distributions'",
        ),
        (
            lambda: conformance.check("low-confidence", distribution="odd", skip=all_but("distribution")),
            "the claimed distribution is 'odd'; expected order, causal",
        ),
        (
            lambda: conformance.check("ancestral", distribution=lambda *_: torch.ones(3), skip=all_but("distribution")),
            "expected 81 probabilities",
        ),
    ],
)
def test_mistakes_in_the_call(call, message):
    with pytest.raises(UnmaskError, match=message):
        call()


def test_the_report_is_a_table():
    report = conformance.examine("strided", skip=all_but("contract", "distribution"))
    assert str(report).splitlines()[0] == "sampler strided conforms"
    assert all(check.name in str(report) for check in report.checks)
    report.raise_if_failed()


def test_the_watch_sees_what_nobody_counts():
    denoiser = Ideal(random_ngram(2, 4))
    seen = watch.Watched(denoiser)
    seen.posterior(torch.full((1, 3), 4))
    with seen.counting():
        seen.engine(torch.full((1, 3), 4))
    assert seen.uncounted == ["posterior"]


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
