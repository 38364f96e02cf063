"""Accuracy against cost: which settings are better than AR at the same cost, and the fastest that reaches a target."""

from __future__ import annotations

import pytest

from tests.needs import required

with required("pages"):
    from unmask.report.spending import against_ar, fastest, paired


def point(kind="mdm", steps=4, calls=4.0, seconds=0.1, value=0.5, low=0.4, high=0.6, keys=("a",)):
    found = {"kind": kind, "sampler": "autoregressive" if kind == "ar" else "ancestral", "steps": steps, "knob": None}
    found |= {"model_calls": calls, "seconds": seconds, "value": value, "low": low, "high": high, "keys": list(keys)}
    return found


def scores(right, of=40):
    return {f"item {number}": float(number < right) for number in range(of)}


ITEMS = {"ar": scores(20), "good": scores(32), "same": scores(21), "bad": scores(5), "other": scores(30)}
AR = point("ar", None, 12.0, 0.3, keys=("ar",))


def test_only_settings_that_cost_at_most_as_much_as_ar_are_compared():
    points = [AR, point(steps=8, calls=8, keys=("good",)), point(steps=2, calls=2, keys=("bad",))]
    points += [point(steps=3, calls=3, keys=("same",)), point(steps=64, calls=40, seconds=0.2, keys=("good",))]
    words = against_ar(ITEMS, points, "model_calls")
    assert words.startswith("3 settings need at most the model calls of AR; better than AR: ancestral, 8 steps (+30.0 ")
    assert "worse than AR: ancestral, 2 steps (-37.5 " in words
    assert words.endswith("not distinguishable: 1.")
    assert against_ar(ITEMS, points, "seconds").startswith("4 settings need at most the time of AR; better than AR: ")
    assert against_ar(ITEMS, points[1:], "model_calls") == ""


def test_the_level_is_divided_by_the_number_of_settings():
    """Of 40 items 8 are right with one alone: p = .0078, which decides one comparison and not each of ten."""
    items = {"ar": scores(20), "eight": scores(28)}
    one = point(calls=1, keys=("eight",))
    assert "better than AR" in against_ar(items, [AR | {"keys": ["ar"]}, one], "model_calls")
    many = [one | {"steps": number} for number in range(1, 11)]
    assert "better than AR" not in against_ar(items, [AR, *many], "model_calls")


def test_several_seeds_are_samples_of_an_item():
    both = paired(ITEMS, point(keys=("good", "bad")), AR, 0.05)
    assert both.first == pytest.approx((32 + 5) / 80)
    assert both.items == 40
    assert both.p is None


def test_the_fastest_that_reaches_a_target_may_be_ar():
    quick = point(steps=2, seconds=0.05, value=0.55, low=0.52, high=0.6)
    sure = point(steps=8, seconds=0.4, value=0.97, low=0.96, high=0.99)
    ar = AR | {"value": 0.85, "low": 0.82, "high": 0.88}
    words = fastest([ar, quick, sure])
    assert words == (
        "The fastest measured setting that reaches or may reach an accuracy of 50%: ancestral, 2 steps in 0.05 s; "
        "80%: AR in 0.3 s; 90%: ancestral, 8 steps in 0.4 s; 95%: ancestral, 8 steps in 0.4 s."
    )
    assert "95%: none." in fastest([ar, quick])
