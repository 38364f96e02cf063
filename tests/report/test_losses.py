"""The page of a gap: its figures against the measured numbers, its sentences, and what bad input gets."""

from __future__ import annotations

import re

import pytest

import unmask
from tests.needs import required
from unmask.denoisers import Ideal
from unmask.diagnosis.gap import gap
from unmask.languages import load

with required("pages"):
    from unmask.report import losses

SOFT = load("sparse-hmm(pruned=False)")  # nothing is impossible
HARD = load("paper-2gram")


def measured(language, **how):
    written = unmask.generate(language, **{"steps": 4, "length": 16, "rows": 60, "trace": True} | how)
    return gap(language, written, reference=20), written


@pytest.mark.parametrize("calls", ["one", "chain"])
@pytest.mark.parametrize("language", [SOFT, HARD])
def test_the_loss_of_the_steps_is_the_loss(language, calls):
    written = unmask.generate(language, steps=4, length=16, rows=60, trace=True)
    result = gap(language, written, calls=calls)
    assert result.lost.shape == (4,)
    assert float(result.lost.sum()) == pytest.approx(float(result.nats[result.finite].mean()), abs=1e-9)


def test_the_loss_of_a_step_is_that_of_its_tokens():
    """One token in the first step, three in the second: the first loses nothing, and the second all."""
    how = {"sampler": "fixed-size", "schedule": [0.25, 0.75], "steps": 2, "length": 4, "rows": 40}
    result = gap(SOFT, unmask.generate(SOFT, **how, trace=True), calls="chain", reference=0)
    assert result.lost[0] == 0
    assert float(result.lost[1]) == pytest.approx(float(result.nats.mean()), abs=1e-12)
    assert float(result.lost[1]) != 0


def test_a_joint_draw_has_no_loss_of_a_step():
    written = unmask.generate(HARD, steps=4, length=16, rows=60, draw="fitted", trace=True)
    assert gap(HARD, written, reference=0).lost is None
    assert losses.by_step(gap(HARD, written, reference=0)) is None


def test_every_possible_sequence_is_in_the_histogram():
    result, _ = measured(HARD)
    assert 0 < result.infinite.value < 1
    drawn = losses.by_sequence(result)
    assert sum(row["value"] for row in drawn.rows) == int(result.finite.sum())
    half = float(re.search(r"at most ([-.\d]+) nats", drawn.sentences[0].words)[1])
    assert half == pytest.approx(float(result.nats[result.finite].median()), abs=0.2)


def test_the_page_has_the_verdict_the_cards_and_the_worst_sequences():
    result, written = measured(HARD)
    text = losses.page(result, written, Ideal(HARD), "unmask gap <x>").decode()
    assert result.verdict in text
    assert f"<strong>{result.infinite.value:.3g}</strong>" in text
    assert f"<strong>{result.reference.steps[0.01][1]} steps</strong>" in text
    assert "unmask gap &lt;x&gt;" in text
    numbers = losses.worst(result, written)[0]
    assert result.nats[numbers].min() >= result.nats.sort(descending=True).values[2]
    assert losses.worst(result, written.trace())[0] == numbers


def test_greedy_decoding_shows_its_flips():
    result, _ = measured(SOFT, temperature=0)
    drawn = losses.by_sequence(result)
    assert drawn.title == "Flips in each sequence"
    assert sum(row["value"] for row in drawn.rows) == len(result.changed)
    assert losses.by_step(result) is None
    assert "stop being the most likely" in dict(losses.messages(result))[f"{result.flips.value:.3g} tokens"]


def test_one_sequence_has_a_page_without_a_histogram():
    result, written = measured(SOFT, rows=1)
    assert losses.by_sequence(result) is None
    assert b"The sequences that lose most" in losses.page(result, written, Ideal(SOFT))


@pytest.mark.long
@pytest.mark.parametrize(("width", "dark"), [(390, True), (1400, False)])
def test_it_opens_in_a_browser(tmp_path, open_page, serious, width, dark):
    result, written = measured(HARD, rows=30)
    (tmp_path / "gap.html").write_bytes(losses.page(result, written, Ideal(HARD)))
    opened = open_page(tmp_path / "gap.html", width=width, dark=dark)
    assert serious(opened) == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.locator("figure svg").count() == 2
