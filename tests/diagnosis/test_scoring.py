"""unmask.score() with a likelihood: of a generation by its own record, or of tokens with a named sampler."""

from __future__ import annotations

import pytest

import unmask
from unmask.core.errors import UnmaskError

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


def test_refusals():
    made = unmask.generate("paper-2gram", length=6, rows=4)
    with pytest.raises(UnmaskError, match="steps applies to a likelihood"):
        unmask.score(made, "paper-2gram", steps=3)
    with pytest.raises(UnmaskError, match="no record of their sampler"):
        unmask.score(made.tokens, "paper-2gram", likelihood=True)
