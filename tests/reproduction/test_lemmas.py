"""The checks of lemmas detect errors: a bound that is too tight, or a formula that is slightly off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reproduction import appendix, separators
from reproduction.jobs import lemma
from unmask import UnmaskError
from unmask.languages import random_ngram
from unmask.theory import correctness

CHEAP = ("a1", "a2", "a3", "b6", "b10", "b11", "c1", "c5", "c6", "c6-half", "c7", "c9", "b12")


def counted(name, cases=40):
    return {record["measure"]: record["value"] for record in lemma(name, cases)}


@pytest.mark.parametrize("name", CHEAP)
def test_lemmas_hold(name):
    counts = counted(name)
    assert (counts["violations"], counts["cases"] > 0) == (0, True)


def test_the_step_of_c5_does_not_hold():
    counts = counted("c5-jensen", 1)
    assert counts == {"cases": 1, "violations": 1, "tightest": pytest.approx(0.08320 / 0.0625)}


TOO_TIGHT = {  # (module, statement, the factor of its bound)
    "a1": (separators, "lemma_a1", 0.3),
    "c1": (correctness, "lemma_c1", 0.9),
    "c5": (correctness, "lemma_c5", 0.9),
    "c6": (correctness, "lemma_c6", 1.1),
    "b9": (separators, "lemma_b9", 0.2),
    "b8": (separators, "lemma_b8", 0.3),
    "b10": (separators, "lemma_b10", 0.9),
    "b11": (separators, "lemma_b11", 0.02),
    "c3": (correctness, "theorem_4_3", 0.1),
}


@pytest.mark.parametrize("name", TOO_TIGHT)
def test_a_bound_that_is_too_tight_is_detected(monkeypatch, name):
    module, function, factor = TOO_TIGHT[name]
    true = getattr(module, function)

    def tight(*args):
        statements = true(*args)
        if isinstance(statements, tuple):
            return tuple(replace(one, value=one.value * factor) for one in statements)
        return replace(statements, value=statements.value * factor)

    monkeypatch.setattr(module, function, tight)
    assert counted(name)["violations"] > 0


def test_other_checks_that_compare_two_ways():
    for name in ("b2", "b3", "c2", "c8", "c8-ngram", "ngram-hmm"):
        counts = counted(name, 6)
        assert (counts["violations"], counts["tightest"] <= 1 + 1e-6) == (0, True), name


def test_a_wrong_hidden_markov_model_is_detected(monkeypatch):
    """The model of another n-gram."""
    true = appendix.ngram_as_hmm
    monkeypatch.setattr(appendix, "ngram_as_hmm", lambda one: true(random_ngram(one.order, 3, seed=1)))
    assert counted("ngram-hmm", 6)["violations"] > 0


def test_unknown_lemma():
    with pytest.raises(UnmaskError, match="there is no lemma 'b99'"):
        lemma("b99")
