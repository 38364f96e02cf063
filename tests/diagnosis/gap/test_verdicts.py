"""Fourteen cases, the right decision of a reader, and the verdict that leads to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import unmask
from tests.diagnosis.gap.toys import Families, Toy, peaked

CHAIN = "paper-2gram(pruned=False)"
SPARSE = "paper-2gram"


def of(source, **how):
    return unmask.gap(source, **{"rows": 100, "length": 16, "seed": 1} | how)


def near_copies():
    """A sampler of which two sequences are nearly the same, without a loss of variety on average."""
    gap = of(CHAIN, steps=4)
    beside = gap.reference
    beside = replace(beside, variety=replace(beside.variety, closest=0.99), random=replace(beside.random, closest=0.5))
    return replace(gap, reference=beside)


def below_zero():
    """Losses below 0 beyond noise: of another draw than the one that wrote the rows."""
    gap = of(CHAIN, steps=4)
    return replace(gap, nats=-gap.nats.abs() - 0.1, logs=True)


CASES = {  # case: (the right decision, the gap, words of the verdict that lead to it, words that would mislead)
    "few steps of a chain": ("use more steps", lambda: of(CHAIN, steps=2), ["costs", "per token"], ["not disting"]),
    "one token a step": (
        "change nothing",
        lambda: of(CHAIN, steps=16, sampler="left-to-right"),
        ["changes nothing"],
        [],
    ),
    "a sampler that repeats itself": (
        "take another sampler",
        lambda: of(Families(2.0), sampler="entropy", steps=12, length=24),
        ["loses variety", "Do not choose it"],
        [],
    ),
    "random orders of the same model": (
        "use it",
        lambda: of(Families(2.0), steps=12, length=24),
        ["Parallel decoding costs"],
        ["variety", "Its order"],
    ),
    "variety not measured": (
        "measure it first",
        lambda: of(Families(2.0), sampler="entropy", steps=12, length=24, reference=0),
        ["Variety is not measured", "Pass reference=20"],
        ["Do not choose"],
    ),
    "near-copies": (
        "look at the sequences",
        near_copies,
        ["Two sequences share 99%", "Look at the sequences"],
        ["loses variety"],
    ),
    "rows of another draw": (
        "measure with the right draw",
        below_zero,
        ["below 0 beyond noise", "Pass those"],
        ["costs"],
    ),
    "a model that contradicts itself": (
        "compare orders first",
        lambda: of(Toy(6, 1.0), steps=5, length=6, rows=300, reference=300),
        ["contradicts itself", "Compare orders first"],
        [],
    ),
    "filters of an exact model": (
        "measure without the filters",
        lambda: of(SPARSE, steps=2, length=8, rows=30, top_k=1),
        ["With top-k 1 the predictions contradict", "another cannot write", "measure the model without them"],
        ["model contradicts itself", "inf"],
    ),
    "a temperature of an exact model": (
        "measure without the temperature",
        lambda: of(CHAIN, sampler="fixed-size", steps=16, reference=100, temperature=0.3),
        ["With temperature 0.3 the predictions contradict", "measure the model without them"],
        ["model contradicts itself"],
    ),
    "too few rows for a rare event": (
        "use more rows",
        lambda: of(peaked(0.96), steps=2, length=8, rows=50, reference=0),
        ["No interval", "Use more rows"],
        [],
    ),
    "a filter that excludes": (
        "compare the fractions first",
        lambda: of(SPARSE, steps=2),
        ["have probability 0 under the model itself", "Compare samplers by this fraction first"],
        [],
    ),
    "positions chosen by drawn tokens": (
        "trust no small number",
        lambda: of(CHAIN, sampler="low-confidence", steps=4),
        ["not a KL divergence", "small by chance"],
        ["Parallel decoding costs"],
    ),
    "temperature 0": (
        "count the tokens that change",
        lambda: of(CHAIN, sampler="entropy", steps=4, temperature=0.0),
        ["stop being the most likely"],
        ["nats"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_verdict_leads_to_the_right_decision(case):
    _, gap, leads, misleads = CASES[case]
    verdict = gap().verdict
    for words in leads:
        assert words in verdict
    for words in misleads:
        assert words not in verdict
