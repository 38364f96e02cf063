"""UniformIdeal and its oracle against enumeration."""

from __future__ import annotations

import math

import pytest
import torch

import unmask
from tests.uniform import CHAIN3, ZERO3, chain, posteriors
from unmask import UnmaskError
from unmask.denoisers import Denoiser, Ideal, Perturbed, UniformIdeal
from unmask.denoisers.uniform import PRIOR
from unmask.languages import Brackets, Interval, Language, random_ngram, sparse_hmm

LANGUAGES = {
    "chain": (chain(ZERO3), 4),
    "3-gram": (random_ngram(3, 3, threshold=0.1, seed=1), 5),
    "hmm": (sparse_hmm(8, 3, 2, seed=1), 5),
    "intervals": (Interval(3), 5),
    "pairs": (Interval(2), 7),
    "whole interval": (Interval(3), 3),
    "brackets": (Brackets(), 6),
}
LEVELS = torch.tensor([0, 0.1, 0.3, 0.3, 0.5, 0.7, 0.9, 0.99, 0.5], dtype=torch.float64)


def rows(name):
    """(noisy tokens, V where hidden; where they are known; their levels), possible where known."""
    language, length = LANGUAGES[name]
    generator = torch.Generator().manual_seed(3)
    shape = (len(LEVELS), length)
    y = torch.randint(0, language.vocabulary + 1, shape, generator=generator)
    known = torch.rand(shape, generator=generator) < 0.25
    y = torch.where(known, language.sample(*shape, seed=1), y)
    return y, known, torch.where(known, 1.0, LEVELS.unsqueeze(1))


def close(one, other, within=1e-12):
    return float((one - other).abs().max()) < within


@pytest.mark.parametrize("name", LANGUAGES)
def test_posteriors_and_evidence_are_those_of_enumeration(name):
    language, _ = LANGUAGES[name]
    y, known, levels = rows(name)
    alone, full, mass = posteriors(language, y, levels)
    denoiser = UniformIdeal(language)
    assert close(denoiser.predict(y, known, LEVELS), alone)
    assert close(denoiser.full().predict(y, known, LEVELS), full)
    got, evidence = torch.empty_like(alone), torch.empty_like(mass)
    denoiser._alone(y, known, LEVELS, got, evidence)
    if not isinstance(language, Interval):
        evidence -= language.log_normaliser(y.shape[1])
    assert close(evidence, mass)


@pytest.mark.parametrize("name", LANGUAGES)
def test_clean_tokens_stay_and_noise_says_nothing(name):
    language, length = LANGUAGES[name]
    x = language.sample(20, length, seed=2)
    full = UniformIdeal(language).full()
    assert torch.equal(full.posterior(x, time=1.0).argmax(2), x)
    assert close(full.posterior(x, time=1.0).amax(2), torch.ones(x.shape))
    blank = language.posterior(language.blank(20, length))
    assert close(full.posterior(x, time=0.0), blank)
    assert close(UniformIdeal(language).posterior(x, time=0.0), blank)


def test_unknown_levels_are_weighted_by_their_evidence():
    language, length = chain(ZERO3), 4
    generator = torch.Generator().manual_seed(1)
    y = torch.randint(0, 4, (12, length), generator=generator)
    parts = [posteriors(language, y, torch.full(y.shape, a)) for a in PRIOR]
    full = sum(part[1] * part[2].exp().view(-1, 1, 1) for part in parts)
    full /= sum(part[2].exp().view(-1, 1, 1) for part in parts)
    prior = UniformIdeal(language, "prior")
    assert close(prior.full().posterior(y), full)
    for i in range(length):  # without the token at i
        others = y.clone()
        others[:, i] = 3
        hidden = [posteriors(language, others, torch.full(y.shape, a)) for a in PRIOR]
        alone = sum(part[0][:, i] * part[2].exp().unsqueeze(1) for part in hidden)
        alone /= sum(part[2].exp().unsqueeze(1) for part in hidden)
        assert close(prior.posterior(y)[:, i], alone)


def test_a_row_has_the_same_bits_in_any_batch():
    language = unmask.load("paper-2gram")
    y = torch.randint(0, 8, (70, 33), generator=torch.Generator().manual_seed(1))
    level, known = torch.linspace(0, 0.99, 70, dtype=torch.float64), torch.zeros(y.shape, dtype=torch.bool)
    denoiser = UniformIdeal(language)
    whole = denoiser.predict(y, known, level)
    for part in (slice(0, 1), slice(13, 30), slice(69, 70)):
        assert torch.equal(whole[part], denoiser.predict(y[part], known[part], level[part]))


def test_positions_can_be_chosen():
    denoiser, y = UniformIdeal(chain(CHAIN3)), torch.tensor([[0, 1, 2], [2, 2, 0]])
    all_of_them = denoiser.posterior(y, time=0.4)
    assert torch.equal(denoiser.posterior(y, torch.tensor([2, 0]), 0.4), all_of_them[:, [2, 0]])
    assert torch.equal(denoiser.probabilities(y, torch.tensor([[1], [2]]), 0.4)[:, 0], all_of_them[[0, 1], [1, 2]])


def test_an_error_of_known_size_mixes_the_posteriors():
    exact, y = UniformIdeal(chain(ZERO3)), torch.tensor([[0, 1, 2]])
    mixed = Perturbed(exact, "mix", 0.1)
    everywhere = torch.zeros(3, dtype=torch.int64), torch.arange(3)
    time, blank = torch.tensor([0.6], dtype=torch.float64), torch.full_like(y, 3)
    r = exact.posterior(y, time=time)[0]
    assert mixed.removes == "uniform"
    assert mixed.engine(y, blank).hollow
    assert close(mixed.engine(y, blank).at(*everywhere, time), 0.9 * r + 0.1 / 3)
    masked = Perturbed(chain(ZERO3), "mix", 0.1).probabilities(torch.tensor([[0, 3, 3]]))
    assert close(masked[:, 1:], 0.9 * Ideal(chain(ZERO3)).probabilities(torch.tensor([[0, 3, 3]]))[:, 1:] + 0.1 / 3)


class Strange(Language):
    """A language that is no machine."""

    kind, vocabulary = "strange", 2
    parameters = _posterior = _sample = log_evidence = None


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda d, y: d.posterior(y), r"time is missing, and level is 'given'; expected a level a. Pass time="),
        (lambda d, y: d.posterior(y, time=math.nan), r"time is nan; expected a level a"),
        (lambda d, y: Perturbed(d, "mix", 1.5), "epsilon is 1.5; expected a number from 0 to 1"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(ask, said):
    with pytest.raises(UnmaskError, match=said) as refusal:
        ask(UniformIdeal(chain(CHAIN3)), torch.tensor([[1, 1, 2]]))
    assert "\n" not in str(refusal.value)


def test_a_language_without_messages_is_refused():
    with pytest.raises(UnmaskError, match="posteriors of strange under uniform noise are not known; expected a m"):
        UniformIdeal(Strange.__new__(Strange))


def p_of(model, *arguments, **options):
    return model(*arguments, **options).logits.double().exp()


def test_the_oracle_has_logits_of_the_asked_view_and_level():
    language = chain(ZERO3)
    y = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
    options = {"noise": "uniform", "dtype": torch.float64}
    exact = UniformIdeal(language)
    given = unmask.oracle(language, level="given", view="loo", **options)
    assert given.config.vocab_size == 3
    assert given.config.mask_token_id is None
    time = torch.tensor([0.2, 0.7])
    for answer in (p_of(given, y, time), p_of(given, y, level=time), p_of(given, y, torch.ones_like(y), level=time)):
        assert close(answer, exact.posterior(y, time=time))
    assert (given.calls, given.needed) == (3, 6)
    prior = unmask.oracle(language, **options)
    assert close(p_of(prior, y, 12), UniformIdeal(language, "prior").full().posterior(y))
    p_of(prior, y)
    assert (prior.calls, prior.needed) == (2, 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"noise": "uniform", "mask_id": 9}, "an oracle of uniform noise has no mask"),
        ({"noise": "uniform", "causal": True}, "an oracle of uniform noise has no mask"),
        ({"noise": "white"}, "unknown noise 'white'"),
        ({"noise": "uniform", "view": "half"}, "unknown view 'half'"),
        ({"level": "given"}, "level, view and prompt_length need noise='uniform'"),
    ],
)
def test_an_oracle_refuses_options_of_the_other_noise(options, said):
    with pytest.raises(UnmaskError, match=said):
        unmask.oracle("paper-2gram", **options)


def test_a_denoiser_removes_masks_by_default():
    assert (Denoiser.removes, Ideal.removes, UniformIdeal.removes) == ("mask", "mask", "uniform")
