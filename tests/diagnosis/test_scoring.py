"""unmask.score() with a likelihood: of a generation by its own record, or of tokens with a named sampler."""

from __future__ import annotations

import pytest
import torch

import unmask
from unmask.core.errors import UnmaskError
from unmask.denoisers import Ideal
from unmask.diagnosis.likelihood import of_sampler
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


def test_refusals():
    made = unmask.generate("sparse-hmm", length=6, rows=4, draw=Joint(support(unmask.languages.load("sparse-hmm"))))
    with pytest.raises(UnmaskError, match="a draw without a name"):
        unmask.score(made, "sparse-hmm", likelihood=True)
    made = unmask.generate("paper-2gram", length=6, rows=4)
    with pytest.raises(UnmaskError, match="steps applies to a likelihood"):
        unmask.score(made, "paper-2gram", steps=3)
    with pytest.raises(UnmaskError, match="no record of their sampler"):
        unmask.score(made.tokens, "paper-2gram", likelihood=True)
