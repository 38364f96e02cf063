"""unmask.score() with a likelihood: of a generation by its own record, or of tokens with a named sampler."""

from __future__ import annotations

import pytest
import torch

import unmask
from tests.diagnosis.noisy import ZERO3, chain
from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser, Ideal
from unmask.diagnosis.likelihood import of_sampler
from unmask.languages import NGram
from unmask.languages.automata import support
from unmask.samplers.joint import Joint

SAMPLER = "top-probability(ties='position')"


def test_a_generation_brings_its_sampler():
    made = unmask.generate("paper-2gram", sampler=SAMPLER, steps=12, length=12, rows=20)
    language = unmask.languages.load("paper-2gram")
    exact = float(language.log_prob(made.tokens).mean())
    own = unmask.score(made, language, likelihood=True)
    named = unmask.score(made.tokens, "paper-2gram", likelihood=True, sampler=SAMPLER, steps=12)
    for scored in (own, named):
        assert scored.likelihood["nats"].value == pytest.approx(exact, abs=1e-9)
        assert scored.likelihood["exact"]
        assert scored.to_dict()["likelihood"]["model_calls"] == 20 * 12
    assert "likelihood" not in unmask.score(made, language).to_dict()
    prompted = unmask.generate(language, sampler=SAMPLER, steps=8, given=unmask.prompts(language, 20, 12, 4))
    rest = language.log_evidence(prompted.tokens) - language.log_evidence(prompted.given)
    found = unmask.score(prompted, language, likelihood=True).likelihood["nats"].value
    assert found == pytest.approx(float(rest.mean()), abs=1e-9)


@pytest.mark.parametrize("draw", ["fitted", "alone", "coupled"])
def test_a_joint_draw_is_part_of_the_record(draw):
    """Its probabilities sum to 1 over the language, and those of the product do not."""
    language = unmask.languages.Interval(2)
    every = torch.cartesian_prod(*[torch.arange(language.vocabulary)] * 4)
    every = every[language.supports(every)]
    exact = of_sampler(Ideal(language), SAMPLER, every, steps=2, draw=draw)
    assert exact.exact
    assert exact.model_calls.tolist() == [2] * len(every)
    assert float(exact.nats.exp().sum()) == pytest.approx(1, abs=1e-9)
    assert float(of_sampler(Ideal(language), SAMPLER, every, steps=2).nats.exp().sum()) < 0.9
    made = unmask.generate(language, sampler=SAMPLER, steps=2, length=4, rows=300, draw=draw)
    mine = unmask.score(made, language, likelihood=True).likelihood["nats"].value
    place = (made.tokens.unsqueeze(1) == every).all(2).int().argmax(1)
    assert mine == pytest.approx(float(exact.nats[place].mean()), abs=1e-9)
    entropy = float((exact.nats.exp() * exact.nats).sum())
    assert abs(mine - entropy) < 6 * float(exact.nats[place].std()) / 300**0.5 + 1e-9


class Twos(Denoiser):
    """Certain of symbol 2 everywhere, so that a draw smooths steps which cannot have it."""

    def __init__(self, language):
        self.language, self.vocabulary = language, language.vocabulary

    def posterior(self, tokens, positions=None, time=None):
        return torch.eye(3, dtype=torch.float64)[2].expand(*positions.expand(len(tokens), -1).shape, 3)


# of the second, symbols 0 and 1 move alike: one of them follows symbol 2, and only that one them
@pytest.mark.parametrize("rows", [ZERO3, [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.6, 0.4, 0.0]]])
@pytest.mark.parametrize("kind", [Ideal, Twos])
@pytest.mark.parametrize("draw", ["fitted", "alone", "coupled", "soft"])
def test_a_joint_draw_gives_impossible_texts_no_probability(draw, kind, rows):
    """Whatever step rules them out, as independent draws do; the probabilities of all texts sum to 1."""
    language = NGram(2, [0.5, 0.3, 0.2], rows)
    every = torch.cartesian_prod(*[torch.arange(3)] * 3)
    for steps in (1, 2, 3):
        found = of_sampler(kind(language), "left-to-right", every, steps=steps, draw=draw)
        assert float(found.nats.exp().sum()) == pytest.approx(1, abs=1e-9)
        assert bool((found.nats[~language.supports(every)] == -torch.inf).all())


def test_texts_that_do_not_continue_what_is_given():
    """One of them is an invalid row; if all are, samples and given tokens do not belong together."""
    language, given = chain(ZERO3), torch.tensor([1, 3, 3])
    rows = torch.tensor([[0, 0, 1], [1, 1, 2]])
    assert unmask.score(rows, language, given=given).impossible_rows == 1
    for measure in (unmask.score, unmask.metrics.score, unmask.metrics.rows):
        with pytest.raises(UnmaskError, match="the texts differ from the given tokens; expected texts that continue"):
            measure(rows[:1], language, given=given)
    with pytest.raises(UnmaskError, match="the texts differ from the given tokens; expected texts that continue"):
        of_sampler(Ideal(language), SAMPLER, rows, given=given)


@pytest.mark.parametrize(("wrong", "expected"), [(0, "at least 1"), (1.5, "a whole number, 1 to")])
def test_groups_have_rows(wrong, expected):
    with pytest.raises(UnmaskError, match=f"chosen_among is {wrong}; expected {expected}"):
        unmask.score(torch.tensor([[0, 0, 1]]), chain(ZERO3), chosen_among=wrong)


def test_refusals():
    made = unmask.generate("sparse-hmm", length=6, rows=4, draw=Joint(support(unmask.languages.load("sparse-hmm"))))
    with pytest.raises(UnmaskError, match="a draw without a name"):
        unmask.score(made, "sparse-hmm", likelihood=True)
    made = unmask.generate("paper-2gram", length=6, rows=4)
    with pytest.raises(UnmaskError, match="steps applies to a likelihood"):
        unmask.score(made, "paper-2gram", steps=3)
    with pytest.raises(UnmaskError, match="no record of their sampler"):
        unmask.score(made.tokens, "paper-2gram", likelihood=True)
