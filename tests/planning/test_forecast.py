"""The loss of parallel decoding, predicted from the masked loss: by enumeration, and on models that are only asked."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from tests import brute
from tests.diagnosis.noisy import CHAIN3, Noisy, chain
from tests.models.open.small import CONFIGS
from tests.models.open.speaking import spoken
from unmask.denoisers import Ideal
from unmask.diagnosis.likelihood import of_sampler
from unmask.diagnosis.loss_curve import LossCurve, loss_curve, masked_losses
from unmask.languages import Brackets, Interval, ModularSum, random_ngram
from unmask.models.open import load_model
from unmask.models.open.prompted import Query
from unmask.models.trained import Network, load
from unmask.models.trained.loop import train
from unmask.models.trained.recipe import Recipe
from unmask.models.trained.shape import Shape
from unmask.planning.forecast import forecast

TEXTS = [f"the cat {n} sat on the mat and the dog did not, {n * n} times" for n in range(12)]


def of_all(denoiser, strings, length):
    """The loss curve of equally likely strings with every order of revealing: nothing is sampled."""
    texts = torch.from_numpy(strings)
    orders = torch.tensor(list(itertools.permutations(range(length))))
    rows = len(texts) * len(orders)
    truth = texts.repeat_interleave(len(orders), 0)
    targets, ranks = torch.arange(length).expand(rows, -1), orders.repeat(len(texts), 1)
    start, valid = torch.full_like(truth, denoiser.vocabulary), torch.ones_like(truth, dtype=torch.bool)
    losses = [masked_losses(denoiser, truth, targets, ranks >= k, start, valid) for k in range(length)]
    return LossCurve(torch.arange(length).expand(rows, -1), torch.stack(losses, 1), length, 0, monotone=False)


def by_orders(denoiser, strings, q, counts):
    """E over orders of fixed sizes of -sum_x q(x) log p_order(x), minus the same one by one."""
    texts, length = torch.from_numpy(strings), strings.shape[1]

    def loss(counts):
        total, orders = 0.0, list(itertools.permutations(range(length)))
        for order in orders:
            begun = 0
            for count in counts:
                now = list(order[begun : begun + count])
                context = texts.clone()
                context[:, list(order[begun:])] = denoiser.vocabulary
                c = denoiser.probabilities(context).gather(2, texts.unsqueeze(2)).squeeze(2)
                total -= float(torch.from_numpy(q) @ c[:, now].log().sum(1))
                begun += count
        return total / len(orders)

    return loss(counts) - loss([1] * length)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("language", "length"), [(Interval(2), 4), (Brackets(1, 2), 4), (ModularSum(2), 5)])
@pytest.mark.parametrize("counts", [[2, 2], [1, 3], [4], [1, 1, 2]])
def test_the_forward_divergence_of_an_ideal_denoiser(language, length, counts):
    """G = E KL(q || p_order) to 1e-9; for these languages all texts are equally likely."""
    strings, q = brute.support(language, length)
    assert q.max() - q.min() < 1e-12
    counts = [*counts[:-1], counts[-1] + length - 4]
    found = of_all(Ideal(language), strings, length).divergence([n / length for n in counts], fixed_size=True)
    assert found.value == pytest.approx(by_orders(Ideal(language), strings, q, counts), abs=1e-9)
    log_q = Ideal(language).language.log_prob(torch.from_numpy(strings))
    entropy = -float(torch.from_numpy(q) @ log_q)
    one = of_all(Ideal(language), strings, length).nelbo([1 / length] * length, fixed_size=True)
    assert one.value == pytest.approx(entropy, abs=1e-9)


def test_an_inconsistent_denoiser_is_not_clipped():
    """A8: the additional loss, which isotonic regression would change."""
    denoiser, strings = Noisy(chain(CHAIN3), 4, noise=1.5), brute.sequences(3, 4)
    q = torch.full((len(strings),), 1 / len(strings), dtype=torch.float64).numpy()
    curve = of_all(denoiser, strings, 4)
    for counts in ([2, 2], [1, 3], [3, 1]):
        truth = by_orders(denoiser, strings, q, counts)
        found = curve.divergence([n / 4 for n in counts], fixed_size=True).value
        assert found == pytest.approx(truth, abs=1e-9)
    smooth = LossCurve(curve.revealed, curve.losses, 4, 0)
    assert abs(smooth.divergence([0.25, 0.75], fixed_size=True).value - truth) > 1e-6


@pytest.fixture(scope="module", params=sorted(CONFIGS))
def each(request, tmp_path_factory):
    """A random open model of each masked family."""
    place = tmp_path_factory.mktemp("model")
    return load_model(spoken(place, request.param), card=str(place / "card.json"), device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    return load_model(spoken(place), card=str(place / "card.json"), device="cpu", dtype="float64")


def test_a_random_open_model(model):
    """Texts and prompts of several lengths; one token per step loses nothing; each text takes `looks` model calls."""
    prompts = [Query(prompt="a" * (1 + number % 3)) for number in range(len(TEXTS))]
    found = forecast(model, prompts, TEXTS, length=16, looks=4, target=0.5)
    assert found.model_calls == 4 * len(TEXTS)
    assert list(found.gaps) == [1, 2, 4, 8]
    assert found.gap(16).value == pytest.approx(0, abs=1e-12)
    assert all(math.isfinite(one.value) and one.low <= one.high for by in found.gaps.values() for one in by.values())
    losses = {n: found.gap(n, "linear") for n in range(1, 17)}
    steps, fewest = found.steps["linear"], found.fewest["linear"]
    assert fewest <= steps
    assert losses[steps].high <= 0.5 < losses.get(steps - 1, losses[1]).high
    assert losses[fewest].value <= 0.5
    assert found.to_dict()["plans"]["linear"]["fewest"] == fewest
    assert (f"{fewest} step" in found.text and "may suffice" in found.text) == (fewest < steps)
    assert "nats per answer" in found.text
    faster = forecast(model, None, TEXTS, length=16, looks=4, target=1e6, times=(3.0, 6.0))
    assert faster.steps == {"linear": 1, "optimal": 1}
    assert "8 times faster than AR" in faster.text


def test_it_predicts_the_loss_of_random_orders(each):
    """The measured loss of fixed-size with 2 steps against first-hitting, on the same texts: 5 standard errors."""
    model = each
    found = forecast(model, None, TEXTS, length=8, looks=8, seed=3).gap(2)
    tokens = torch.stack([torch.from_numpy(model.tokenizer.encode(text)).long()[:8] for text in TEXTS])
    few = of_sampler(model, "fixed-size", tokens, steps=2, draws=12, seed=1)
    one = of_sampler(model, "first-hitting", tokens, draws=12, seed=2)
    measured = one.nats - few.nats
    error = math.hypot(float(measured.std()) / len(tokens) ** 0.5, (found.high - found.low) / 4)
    assert abs(found.value - float(measured.mean())) < 5 * error


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_trained_network(tmp_path, seed):
    """Predicted on some rows of its language, measured on others with the sampler itself: within 5 standard errors."""
    language = random_ngram(2, 4, temperature=2.0, seed=seed)
    shape, recipe = Shape("mdm", 4, 8, hidden=16, layers=1, heads=2), Recipe(steps=150, batch=64, rate=0.02)
    train(language, shape, recipe, tmp_path / "net")
    network = Network(load(tmp_path / "net", "cpu"))
    curve = loss_curve(network, language.sample(400, 8, seed=1), 8, 1, monotone=False)
    rows = language.sample(400, 8, seed=2)
    one = of_sampler(network, "first-hitting", rows, draws=8, seed=1).nats
    for steps in (1, 2, 4):
        predicted = curve.divergence([1 / steps] * steps, fixed_size=True)
        measured = one - of_sampler(network, "fixed-size", rows, steps=steps, draws=8, seed=2).nats
        error = math.hypot(float(measured.std()) / 20, (predicted.high - predicted.low) / 4)
        assert abs(predicted.value - float(measured.mean())) < 5 * error
        assert steps > 1 or predicted.low > 0, "there is something to predict"
