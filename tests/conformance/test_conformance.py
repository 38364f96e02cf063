"""The kit passes the samplers of the house, and finds each planted defect by the check that is about it.

Its chi-square tests have fixed seeds and a false-alarm rate of 1e-6 each.
"""

from __future__ import annotations

import pytest
import torch

from tests.conformance.bad import BAD, ChoosesAfterDrawing, Ending
from unmask import UnmaskError
from unmask.diagnosis import conformance
from unmask.diagnosis.conformance import watch
from unmask.ideal import Ideal
from unmask.languages import random_ngram
from unmask.metrics import output_law
from unmask.samplers import SAMPLERS, Ancestral, Choice, LowConfidence, Sampler, contract

CLAIMS = {  # what is meant to be true of samplers that neither order nor say it themselves
    **dict.fromkeys(["top-probability", "margin", "entropy", "threshold", "factor", "clairvoyant"], "order"),
    **dict.fromkeys(["entropy-bounded", "entropy-sum", "blocks"], "order"),
    **dict.fromkeys(["autoregressive", "speculative"], "causal"),
    "self-speculative": "language",
}
EXCEPTIONS = {
    "as-published-mdlm": ["company"],  # its evaluations depend on the batch, which is what it is kept to show
}


@pytest.mark.parametrize("name", SAMPLERS.makers)
def test_our_samplers_conform(name):
    report = conformance.check(name, law=CLAIMS.get(name), skip=EXCEPTIONS.get(name, ()))
    assert report.passed
    assert report["contract"].outcome == "passed"
    if name in CLAIMS:
        assert report["law"].outcome == "passed"


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_exceptions_are_needed(name):
    assert [check.name for check in conformance.examine(name, law=CLAIMS.get(name)).failed] == EXCEPTIONS[name]


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


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.__name__)
def test_planted_defects_are_found(bad, monkeypatch):
    monkeypatch.setattr(contract, "PATIENCE", 10)
    name, words = BAD[bad]
    report = conformance.examine(bad())
    assert name in [check.name for check in report.failed], report
    assert words in report[name].why
    with pytest.raises(AssertionError, match=f"sampler {bad.__name__} does not conform: .*{name}"):
        conformance.check(bad())


def test_the_frame_of_the_planted_defects_is_sound():
    assert conformance.check(Ending(), law="order").passed


def test_a_law_may_be_a_function():
    """Ancestral sampling follows the law that is enumerated elsewhere, and low confidence does not."""
    conformance.check("ancestral", law=output_law)
    assert not conformance.examine("low-confidence", law=output_law).passed


def test_what_a_sampler_claims_can_be_overruled_or_skipped():
    assert conformance.examine(ChoosesAfterDrawing(), skip=["law"]).passed
    assert conformance.examine(LowConfidence()).passed
    assert conformance.examine(LowConfidence())["law"].outcome == "no claim"


def test_refusals_are_told():
    report = conformance.examine("autoregressive")
    assert report["prompts"].outcome == "passed"
    assert "first suffixes of a 2-gram" in report["prompts"].why
    assert "autoregression can only continue a prefix" in report["prompts"].why


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
    assert "refuses a blank canvas of a 2-gram, 9 tokens in" in conformance.examine(Picky())["contract"].why


def test_an_error_of_the_sampler_is_told_with_its_place():
    report = conformance.examine(Broken())
    assert "IndexError in test_conformance.py, line " in report["contract"].why
    assert {check.outcome for check in report.checks[1:]} == {"not run"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: conformance.check(Both()), "Both implements order and choose; a sampler implements exactly one"),
        (lambda: conformance.check(Sampler()), "Sampler implements none of its methods"),
        (lambda: conformance.check(7), "7? is no sampler but int"),
        (lambda: conformance.check("ancestrel"), "unknown sampler 'ancestrel'"),
        (lambda: conformance.check("ancestral", skip=["laws"]), "unknown check 'laws'; did you mean law"),
        (lambda: conformance.check("low-confidence", law="odd"), "the law is 'odd'; expected order, causal"),
        (lambda: conformance.check("ancestral", law=lambda *_: torch.ones(3)), "expected 81 probabilities"),
    ],
)
def test_mistakes_in_the_call(call, message):
    with pytest.raises(UnmaskError, match=message):
        call()


def test_the_report_is_a_table():
    report = conformance.examine("strided")
    assert str(report).splitlines()[0] == "sampler strided conforms"
    assert all(check.name in str(report) for check in report.checks)
    report.raise_if_failed()


def test_the_watch_sees_what_nobody_counts():
    denoiser = Ideal(random_ngram(2, 4))
    seen = watch.Watch(denoiser)
    seen.denoiser.posterior(torch.full((1, 3), 4))
    with seen.counting():
        seen.denoiser.engine(torch.full((1, 3), 4))
    assert seen.uncounted == ["posterior"]
    assert "posterior" not in vars(denoiser)
