"""What a generation says that it has spent is what the denoiser has counted; and a stranger may write either half."""

from __future__ import annotations

import pytest
import torch

from tests.samplers.counting import (
    LANGUAGE,
    LOOKING_BACK,
    OPTIONED,
    SAMPLED,
    Asked,
    Computing,
    Hollow,
    counts,
    given_patterns,
)
from unmask import UnmaskError, generate
from unmask.denoisers import Canvas, Cost, Denoiser, Guided, Ideal
from unmask.samplers import SAMPLERS
from unmask.samplers.contract import CANVAS

LENGTH, STEPS = 12, 6
PREFIXES = ["autoregressive", "speculative"]


@pytest.mark.rotates(4)
@pytest.mark.parametrize("kind", [Asked, Computing])
@pytest.mark.parametrize("name", SAMPLED)
def test_what_is_spent_is_what_the_denoiser_counts(name, kind):
    """Calls, rows and tokens, for every sampler on blank canvases, ragged prompts and infilling."""
    for what, given in given_patterns(LENGTH).items():
        denoiser = kind()
        try:
            made = generate(denoiser, sampler=name, given=given, steps=STEPS, seed=4)
        except UnmaskError:
            assert (name, what) in [(reads, "infilling") for reads in PREFIXES]
            continue
        assert made.spent == denoiser.counted, what
        assert made.spent.rows > 0
        alike = generate(Ideal(LANGUAGE), sampler=name, given=given, steps=STEPS, seed=4)
        assert torch.equal(made.tokens, alike.tokens)
        if not name.startswith("as-published"):  # that one counts what the published code pays for
            if name in LOOKING_BACK:  # of these every place that stands is a context, and of an exact denoiser none
                assert bool((made.model_calls >= alike.model_calls).all())
            else:
                assert torch.equal(made.model_calls, alike.model_calls)
            needed = int(made.model_calls.sum())
            if SAMPLERS.make(name).reads == CANVAS:  # a reader from scratch computes a row for each prefix of a call
                assert needed == made.spent.rows if kind is Asked else needed <= made.spent.rows  # it keeps nothing


@pytest.mark.parametrize("name", LOOKING_BACK)
def test_of_a_hollow_engine_what_stands_costs_nothing_more(name):
    """One evaluation says of a row what is hidden and what stands: those that are counted are those that are computed,
    as many as of the exact denoiser."""
    for what, given in given_patterns(LENGTH).items():
        denoiser = Hollow()
        made = generate(denoiser, sampler=name, given=given, steps=STEPS, seed=4)
        assert made.spent == denoiser.counted, what
        assert int(made.model_calls.sum()) == made.spent.rows
        alike = generate(Ideal(LANGUAGE), sampler=name, given=given, steps=STEPS, seed=4)
        for part in ("tokens", "order", "model_calls"):
            assert torch.equal(getattr(made, part), getattr(alike, part)), (what, part)


def test_one_engine_that_hides_its_work_is_seen(monkeypatch):
    """Mutant: a canvas that forgets what was looked at ahead."""
    monkeypatch.setattr(Canvas, "spent", property(lambda canvas: canvas._engine.spent))
    denoiser = Asked()
    made = generate(denoiser, sampler="self-speculative", steps=STEPS, length=LENGTH, rows=5)
    assert made.spent != denoiser.counted


def test_the_table_of_counts():
    """Every sampler on 20 rows of 16 positions in 8 steps: printed, and held where theory says it."""
    table = counts(rows=20, length=16, steps=8)
    print(table)
    lines = {line[:42].strip(): line[42:].split() for line in table.splitlines()[1:]}
    assert list(lines) == SAMPLED
    for name in ("fixed-size", "left-to-right", "strided", "low-confidence", "margin", OPTIONED["blocks"]):
        assert lines[name] == ["8.00", "160", "8"]
    assert lines["autoregressive"] == lines["first-hitting"] == ["16.00", "320", "16"]
    assert lines["gibbs"][0] == f"{float(lines['ancestral'][0]) + 16:.2f}"


class Half(Denoiser):
    """What is said of a hidden position: its neighbour's token half of the time."""

    vocabulary = 3

    def answer(self, tokens, rows, positions):
        before = torch.where(positions > 0, tokens[rows, positions - 1], self.vocabulary)
        shown = torch.nn.functional.one_hot(before, self.vocabulary + 1)[:, :-1].double()
        return (shown + 1 / 3) / (shown.sum(1, keepdim=True) + 1)

    def engine(self, tokens, given=None, valid=None):
        if valid is not None:
            return super().engine(tokens, given, valid)
        inner = Computing().engine(tokens)
        inner.at = lambda rows, positions, time: inner.spend_on(rows) or self.answer(inner.tokens, rows, positions)
        return inner


class Other(Denoiser):
    """The same, that only writes `posterior`."""

    vocabulary = 3

    def posterior(self, tokens, positions=None, time=None):
        places = torch.arange(tokens.shape[1]) if positions is None else positions
        places = places.expand(len(tokens), -1)
        rows = torch.arange(len(tokens)).unsqueeze(1).expand(places.shape)
        said = Half().answer(tokens, rows.reshape(-1), places.reshape(-1)).view(*places.shape, 3)
        asked = tokens.gather(1, places)
        known = torch.nn.functional.one_hot(asked, 4)[..., :-1].double()
        return torch.where((asked < 3).unsqueeze(-1), known, said)


@pytest.mark.parametrize(
    "sampler", ["ancestral", "margin", "autoregressive", "speculative", "self-speculative", "gibbs"]
)
def test_a_stranger_writes_one_half_and_has_the_other(sampler):
    options = {"sampler": sampler, "steps": 4, "length": 7, "rows": 30, "seed": 2}
    one, other = generate(Half(), **options), generate(Other(), **options)
    for name in ("tokens", "order", "probability", "model_calls"):
        assert torch.equal(getattr(one, name), getattr(other, name))
    assert one.spent.rows == other.spent.rows
    tokens = one.tokens.clone()
    tokens[:, ::2] = 3
    torch.testing.assert_close(Half().posterior(tokens), Other().posterior(tokens))
    torch.testing.assert_close(Half().probabilities(tokens, torch.tensor([2, 1])), Other().posterior(tokens)[:, [2, 1]])


def test_a_stranger_that_predicts_nothing_is_refused():
    with pytest.raises(UnmaskError, match="Empty predicts nothing; write posterior"):

        class Empty(Denoiser):
            vocabulary = 3


@pytest.mark.parametrize("sampler", ["fixed-size", "low-confidence", "self-speculative", "gibbs"])
def test_guidance_costs_two_evaluations_an_answer(sampler):
    given = given_patterns(LENGTH)["ragged prompts"]
    plain, counted = (Asked(), Asked())
    alone = generate(plain, sampler=sampler, given=given, steps=STEPS, seed=4)
    made = generate(counted, sampler=sampler, given=given, steps=STEPS, seed=4, guidance=0.8)
    assert int(made.model_calls.sum()) == made.spent.rows
    assert made.spent == counted.counted
    if sampler in ("fixed-size", "low-confidence", "gibbs"):
        assert torch.equal(made.model_calls, 2 * alone.model_calls)
        assert made.spent == Cost(2 * alone.spent.forwards, 2 * alone.spent.rows, 2 * alone.spent.tokens)


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
def test_guidance_is_by_what_was_given(scale):
    """p(v | x)^(1+w) / p(v | x without the prompt)^w at every hidden position, in every context; what is written counts
    on both sides. Mutant: the prompt hidden nowhere."""
    language = LANGUAGE
    given = torch.full((6, 6), language.vocabulary)
    given[:, :2] = language.sample(6, 6, seed=1)[:, :2]
    tokens = given.clone()
    canvas = Canvas(Guided(Ideal(language), scale), tokens, None)
    drawn = language.sample(6, 6, seed=2)
    for place in (4, 3, 5):
        rows, positions = canvas.hidden.nonzero(as_tuple=True)
        said = canvas.at(rows, positions).dense()
        p = language.posterior(tokens)[rows, positions]
        bare = torch.where(given < language.vocabulary, language.vocabulary, tokens)
        p0 = language.posterior(bare)[rows, positions].clamp(min=torch.finfo(torch.float64).tiny)
        weights = torch.where(p > 0, p, 0.0) ** (1 + scale) / p0**scale
        torch.testing.assert_close(said, weights / weights.sum(1, keepdim=True), atol=1e-10, rtol=0)
        if scale:
            assert float((said - p).abs().max()) > 1e-3
        canvas.reveal((torch.arange(6), torch.full((6,), place)), drawn[:, place])
    assert canvas.model_calls.tolist() == [3 * (2 if scale else 1)] * 6
