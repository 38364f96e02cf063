"""Every objective has the exact NELBO as its mean: where its chances can be enumerated, to the last digits."""

from __future__ import annotations

import collections
import itertools
from math import comb

import numpy as np
import pytest
import torch
from scipy.stats import beta, chi2_contingency, kstest

from tests.brute import p_value, sequences
from tests.models.trained.small import L, V, causal_distribution, trunk
from unmask.core.chance import Randomness
from unmask.languages.presets import random_ngram
from unmask.models.trained.objectives import (
    Masks,
    Objective,
    causal_nats,
    draw_masks,
    hidden_distributions,
    masked_nats,
    next_distributions,
    spread_out,
)
from unmask.models.trained.validation import Judge

ALARM = 1e-6  # false alarms of each statistical test
EVERY = torch.from_numpy(sequences(V, L))
SUBSETS = [m for n in range(1, L + 1) for m in itertools.combinations(range(L), n)]


def masks_of(hidden, time):
    """The same positions hidden in every row."""
    rows = len(EVERY)
    order = [*hidden, *(j for j in range(L) if j not in hidden)]
    return Masks(torch.tensor([order] * rows), torch.full((rows,), len(hidden)), torch.full((rows,), time).double())


def estimate(made, hidden, time=0.0):
    with torch.enable_grad():
        nats = masked_nats(made, V, EVERY, masks_of(hidden, time), len(hidden))
    return nats.detach().numpy()


def losses(made, hidden, time=0.0):
    """{j: -log p(x_j | x_R)} for every x, from the logits of the whole context."""
    context = EVERY.clone()
    context[:, list(hidden)] = V
    told = None if made.shape.time_free else torch.full((len(EVERY),), time)
    with torch.enable_grad():
        surprise = -torch.log_softmax(made(context, time=told), -1).detach()
    found = surprise.gather(2, EVERY.unsqueeze(2)).squeeze(2).numpy()
    return {j: found[:, j] for j in hidden}


def nelbo_of_orders(made):
    """The mean over all orders of one position at a time: the definition at infinitely many steps."""
    total = np.zeros(len(EVERY))
    orders = list(itertools.permutations(range(L)))
    for order in orders:
        for place, j in enumerate(order):
            total += losses(made, order[place:])[j] / len(orders)
    return total


def test_continuous_time_by_enumeration():
    made = trunk()
    mean = sum(estimate(made, hidden) / (L * comb(L, len(hidden))) for hidden in SUBSETS)
    np.testing.assert_allclose(mean, nelbo_of_orders(made), atol=1e-9)


@pytest.mark.parametrize("t", [0.03, 0.4, 0.9])
def test_continuous_time_of_a_network_that_is_told_it(t):
    """At every time: the density of t given the number hidden, and (1/t) E[sum over hidden] of the integral."""
    made = trunk(time_free=False, seed=2)
    mean, integral = np.zeros((2, len(EVERY)))
    for hidden in SUBSETS:
        n = len(hidden)
        mean += beta(n, L - n + 1).pdf(t) / (L * comb(L, n)) * estimate(made, hidden, t)
        integral += 1 / t * t**n * (1 - t) ** (L - n) * sum(losses(made, hidden, t).values())
    np.testing.assert_allclose(mean, integral, atol=1e-9)


def test_autoregressive_exactly():
    made = trunk("ar")
    with torch.enable_grad():
        nats = causal_nats(made, V, EVERY).detach()
    np.testing.assert_allclose(nats, -np.log(causal_distribution(made)), atol=1e-9)


LANGUAGE = random_ngram(2, vocabulary=V, threshold=0.1, seed=4)
LIKELY = torch.from_numpy(np.exp(LANGUAGE.log_prob(EVERY).numpy()))


def gradients(made, nats, weights):
    found = torch.autograd.grad((nats * weights).sum(), list(made.parameters()), allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


@pytest.mark.parametrize("hidden", SUBSETS)
def test_soft_targets_have_the_expected_gradient(hidden):
    """In every context by itself: over all completions x_M of x_R, each as likely as the language makes it."""
    made = trunk(seed=3).requires_grad_(True)
    masks = masks_of(hidden, 0.0)
    distributions = hidden_distributions(LANGUAGE, EVERY, masks, len(hidden)).double()
    seen = [j for j in range(L) if j not in hidden]
    contexts = EVERY[:, seen]
    for context in {tuple(row) for row in contexts.tolist()}:
        weights = torch.where((contexts == torch.tensor(context)).all(1), LIKELY, 0.0)
        if weights.sum() == 0:
            continue
        with torch.enable_grad():
            hard = gradients(made, masked_nats(made, V, EVERY, masks, len(hidden)), weights)
            soft = gradients(
                made, masked_nats(made, V, EVERY, masks, len(hidden), distributions=distributions), weights
            )
        for one, other in zip(hard, soft, strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=0)  # laws are kept in float32


def test_soft_targets_of_the_next_token_have_the_expected_gradient():
    made = trunk("ar", seed=3).requires_grad_(True)
    distributions = next_distributions(LANGUAGE, EVERY).double()
    with torch.enable_grad():
        hard = gradients(made, causal_nats(made, V, EVERY), LIKELY)
        soft = gradients(made, causal_nats(made, V, EVERY, distributions), LIKELY)
    for one, other in zip(hard, soft, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def drawn(rows, batch=1, seed=5):
    return draw_masks(Randomness(seed, torch.arange(rows)), batch, L)


def hidden_of(masks):
    """Rows of what is hidden, as 0 and 1: what p_value counts."""
    return (masks.order.argsort(1) < masks.counts.unsqueeze(1)).long().numpy()


def test_masks_have_their_law():
    cells = np.array([[int(j in hidden) for j in range(L)] for hidden in SUBSETS])
    q = np.array([1 / (L * comb(L, len(hidden))) for hidden in SUBSETS])
    assert p_value(hidden_of(drawn(40_000)), cells, q) > ALARM
    uniform = np.full(len(SUBSETS), 1 / len(SUBSETS))
    assert p_value(hidden_of(drawn(40_000)), cells, uniform) < ALARM  # another law is noticed


def test_times_have_their_law():
    masks = drawn(20_000)
    for n in range(1, L + 1):
        times = masks.time[masks.counts == n].numpy()
        assert kstest(times, beta(n, L - n + 1).cdf).pvalue > ALARM
        assert kstest(times, beta(n + 1, L - n + 1).cdf).pvalue < ALARM


def test_every_batch_sees_every_part():
    """Of 3 L rows, three have each number hidden."""
    for seed in range(5):
        counts = drawn(3 * L, 3 * L, seed=seed).counts
        assert counts.sort().values.tolist() == sorted([*range(1, L + 1)] * 3)


def test_rows_do_not_know_their_company():
    """A row's mask is a function of its number: parts of a batch, and processes, draw what the whole draws."""
    whole = drawn(12, 12)
    part = draw_masks(Randomness(5, torch.arange(4, 9)), 12, L)
    assert all(torch.equal(a[4:9], b) for a, b in zip(whole, part, strict=True))


def test_spread_masks_hide_runs():
    """Every period, phase and width as often as it should be: periods alike, then phases and widths of each."""
    rows, length, run = 6000, 24, 3
    expected = collections.Counter()
    for period in range(2, 7):
        for first, wide in itertools.product(range(period), range(1, min(run, period // 2) + 1)):
            hidden = tuple(place for place in range(length) if (place - first) % period < wide)
            expected[hidden] += rows / 5 / period / min(run, period // 2)
    rng = Randomness(4, torch.arange(rows))
    made = spread_out(draw_masks(rng, rows, length), rng, 1.0, run)
    found = collections.Counter(tuple(sorted(o[:n].tolist())) for o, n in zip(made.order, made.counts, strict=True))
    assert found.keys() == expected.keys()
    assert sum(expected.values()) == pytest.approx(rows)
    worst = max(abs(found[hidden] - mean) / (mean * (1 - mean / rows)) ** 0.5 for hidden, mean in expected.items())
    assert worst < 6  # false alarms: 1e-7


def test_a_prompt_is_never_hidden():
    """What stands behind it is hidden as all of a shorter sequence would be."""
    masks = draw_masks(Randomness(5, torch.arange(6000)), 6000, L, prompt=1)
    assert (masks.order[:, -1] == 0).all()
    assert int(masks.counts.min()) == 1
    assert int(masks.counts.max()) == L - 1
    alone = draw_masks(Randomness(6, torch.arange(6000)), 6000, L - 1)
    behind = Masks(masks.order[:, :-1] - 1, masks.counts, masks.time)
    seen = [
        collections.Counter(map(tuple, m.hide(torch.zeros(6000, L - 1).long(), 1).tolist())) for m in (behind, alone)
    ]
    assert seen[0].keys() == seen[1].keys()
    table = [[each[pattern] for pattern in seen[0]] for each in seen]
    assert chi2_contingency(table).pvalue > ALARM
    assert kstest(behind.time.numpy(), alone.time.numpy(), method="asymp").pvalue > ALARM
    apart = spread_out(
        draw_masks(Randomness(5, torch.arange(500)), 500, 9, prompt=4), Randomness(5, torch.arange(500)), 1.0, 3, 4
    )
    shown = apart.hide(torch.zeros(500, 9).long(), 1)
    assert not shown[:, :4].any()
    assert (shown.sum(1) == apart.counts).all()
    assert (shown[:, 4:].sum(0) > 0).all()


@pytest.mark.parametrize("kind", ["mdm", "ar"])
def test_validation_behind_a_prompt(kind):
    """H(X_1) + E[-log p(x_2.. | x_1)], a token, by enumeration, so that an ideal network has H(q); |z| < 5.1."""
    made = trunk(kind, spread=0.2)
    judge = Judge(LANGUAGE, LANGUAGE.sample(3000, L, seed=9), 3, Objective(made.shape, 1))
    if kind == "mdm":  # each number hidden, then each place of these, weighs the same
        subsets = [m for m in SUBSETS if 0 not in m]
        nats = sum(sum(losses(made, m).values()) / len(m) / comb(L - 1, len(m)) for m in subsets)
    else:
        first = torch.log_softmax(made(torch.full((1, 1), V)), -1)[0, 0, EVERY[:, 0]].detach().numpy()
        nats = first - np.log(causal_distribution(made))
    first = torch.special.entr(LANGUAGE.posterior(LANGUAGE.blank(1, L), [0])[0, 0]).sum()
    exact = float(first + LIKELY @ torch.from_numpy(nats)) / L
    found = judge(made)
    assert abs(found.loss.value - exact) < 5.1 * found.loss.standard_error
    assert found.loss.standard_error < 0.01 * found.loss.value
