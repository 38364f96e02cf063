"""The filter's own loop over tokens is the sampler's, token for token."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.brute import tiny_languages
from unmask import generate
from unmask.core.chance import Randomness
from unmask.denoisers import Causal, Ideal
from unmask.languages import load, random_ngram

CASES = {name: load(name) for name in ("paper-hmm", "sparse-hmm", "paper-2gram", "paper-4gram", "brackets")}
CASES |= {name: tiny_languages()[name][0] for name in ("hmm, final", "3-gram, pruned", "brackets, 1 kind, stop")}
CASES["a wide n-gram"] = random_ngram(3, 30, seed=1)  # drawn row by row


class OneByOne(Causal):
    """A causal reader that only reads."""

    def __init__(self, reader):
        self.reader = reader

    def extend(self, tokens, counts=None, asked=None):
        return self.reader.extend(tokens, counts, asked)

    def rewind(self, lengths):
        self.reader.rewind(lengths)

    @property
    def model_calls(self):
        return self.reader.model_calls

    @property
    def spent(self):
        return self.reader.spent


class Reading(Ideal):
    def causal(self, rows, length, valid=None):
        return OneByOne(super().causal(rows, length, valid))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("prompted", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_finishing_is_the_loop_over_tokens(name, prompted):
    """With no prefix, and with one of every length."""
    language, rows = CASES[name], 21
    length = language.nearest_lengths(40)[0]
    given = None
    if prompted:
        given = language.sample(rows, length, seed=7)
        lengths = torch.from_numpy(np.random.default_rng(0).integers(0, length + 1, rows))
        lengths[:2] = torch.tensor([0, length])
        given[torch.arange(length) >= lengths.unsqueeze(1)] = language.vocabulary
    options = {"sampler": "autoregressive", "rows": rows, "length": length, "seed": 3, "first_row": 5, "given": given}
    ours, loop = generate(language, **options), generate(Reading(language), **options)
    assert type(Ideal(language).causal(1, length)).finish is not Causal.finish
    for field in ("tokens", "order", "model_calls", "impossible"):
        assert torch.equal(getattr(ours, field), getattr(loop, field))
    assert ours.spent == loop.spent
    torch.testing.assert_close(ours.probability, loop.probability, rtol=1e-12, atol=0)


def test_a_reader_stays_where_it_is():
    """It may go on reading after it has finished its rows, and finish them again."""
    language, rng = load("sparse-hmm"), Randomness(1, torch.arange(5))
    reader, other = (Ideal(language).causal(5, 20) for _ in range(2))
    start, text = torch.full((5, 1), 8), language.sample(5, 20, seed=1)
    filled = [torch.full((5, 20), 8) for _ in range(3)]
    reader.finish(start[:, 0], filled[0], rng)
    for again in filled[1:]:
        for part in (start, text[:, :4]):
            torch.testing.assert_close(reader.extend(part), other.extend(part), rtol=0, atol=0)
        reader.finish(text[:, 4], again, rng)
        assert bool((again[:, :5] == 8).all())
        reader.rewind(torch.full((5,), -1))
        other.rewind(torch.full((5,), -1))
    assert torch.equal(filled[1], filled[2])
    assert bool((filled[0] < 8).all())
