"""Counting, caching, impossible contexts: what a canvas promises, on exact denoisers and on a network alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.brute import distribution, evidence, sequences, tiny_languages
from unmask import generate
from unmask.core.chance import Randomness
from unmask.denoisers import Canvas, Cost, Denoiser, Ideal, Perturbed, PrefixCausal, as_marginals
from unmask.languages import Interval, load
from unmask.samplers import SAMPLERS, schedules


class Network(Denoiser, torch.nn.Module):
    """A denoiser with hand-set weights: on Interval(2), where two neighbours share one bit, it is exact.

    logits_j = 50 sum_i mix_ji embed(x_i): the partner's token, or nothing while it is hidden.
    """

    vocabulary = 2

    def __init__(self, length: int, time_free: bool = True) -> None:
        super().__init__()
        self.time_free = time_free
        self.embed = torch.nn.Embedding.from_pretrained(torch.tensor([[50.0, 0.0], [0.0, 50.0], [0.0, 0.0]]))
        self.mix = torch.eye(length)[[j ^ 1 for j in range(length)]]
        self.looks = 0

    def posterior(self, tokens, positions=None, time=None):
        assert (time is None) == self.time_free
        self.looks += len(tokens)
        marginals = torch.softmax(self.mix @ self.embed(tokens), -1)
        places = torch.arange(tokens.shape[1]) if positions is None else positions
        return marginals.gather(1, places.expand(len(tokens), -1).unsqueeze(-1).expand(-1, -1, self.vocabulary))


def look(canvas, rows=None):
    """What is said of every hidden position, dense (K, V), and where (K)."""
    hidden = canvas.hidden if rows is None else canvas.hidden & rows.unsqueeze(1)
    places = hidden.nonzero(as_tuple=True)
    return canvas.at(*places).dense(), places


LOOKING_BACK = {"p2", "token-editing", "wino"}
MASKED = {name for name in SAMPLERS.makers if SAMPLERS.make(name).removes == "mask"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sampler", sorted(MASKED))
def test_a_network_with_the_same_weights_makes_the_same_sequences(sampler):
    """The samplers run unchanged on torch, and with the same luck write the same tokens as on the exact denoiser."""
    length, options = 8, {"sampler": sampler, "steps": 4, "length": 8, "rows": 200, "seed": 2}
    if sampler == "blocks":
        options["sampler"] = "blocks(block_length=4)"
    exact = generate(Interval(2), **options)
    learned = generate(Network(length), **options)
    assert torch.equal(exact.tokens, learned.tokens)
    assert torch.equal(exact.order, learned.order)
    if sampler in LOOKING_BACK:  # at what stands, which costs an exact engine nothing more
        assert bool((learned.model_calls >= exact.model_calls).all())
    else:
        assert torch.equal(exact.model_calls, learned.model_calls)


def test_evaluations_are_the_valid_steps():
    """A step that reveals nothing costs nothing: E[valid] = sum_k 1 - (1 - delta_k)^L, per row, whatever the batch."""
    language, length, steps, rows = Interval(2), 12, 20, 4000
    made = generate(language, steps=steps, length=length, rows=rows)
    distinct = torch.tensor([len(set(order)) for order in made.order.tolist()])
    assert torch.equal(made.model_calls, distinct)
    expected = steps * (1 - (1 - 1 / steps) ** length)
    spread = float(distinct.double().std()) / rows**0.5
    assert abs(float(distinct.double().mean()) - expected) < 5 * spread
    assert made.spent.rows == int(distinct.sum())


def test_looking_twice_is_free_until_something_changes():
    network = Network(4)
    canvas = Canvas(network, torch.full((3, 4), 2), Randomness(0, torch.arange(3)))
    look(canvas)
    look(canvas)
    assert canvas.model_calls.tolist() == [1, 1, 1]
    assert (canvas.spent, network.looks) == (Cost(1, 3, 12), 3)
    canvas.reveal((torch.tensor([1]), torch.tensor([0])), torch.tensor([1]))
    said, (rows, positions) = look(canvas)
    assert said[(rows == 1) & (positions == 1)].argmax() == 1
    assert canvas.model_calls.tolist() == [1, 2, 1]
    assert (canvas.spent, network.looks) == (Cost(2, 4, 16), 4)
    canvas.at(torch.tensor([1]), torch.tensor([2]))
    assert (canvas.spent, network.looks) == (Cost(2, 4, 16), 4)
    canvas.hide(torch.tensor([[False] * 4, [True, False, False, False], [False] * 4]))
    said, (rows, _) = look(canvas)
    assert torch.allclose(said[rows == 1], torch.full((4, 2), 0.5, dtype=said.dtype))
    assert canvas.model_calls.tolist() == [1, 3, 1]


def test_a_complete_row_needs_nothing():
    canvas = Canvas(Network(4), torch.tensor([[0, 0, 1, 1], [2, 2, 2, 2]]), Randomness(0, torch.arange(2)))
    look(canvas)
    look(canvas)
    assert canvas.model_calls.tolist() == [0, 1]


@pytest.mark.parametrize("sampler", ["ancestral", "low-confidence"])
def test_a_denoiser_that_knows_the_time_is_asked_every_round(sampler):
    made = generate(Network(8, time_free=False), sampler=sampler, steps=4, length=8, rows=50)
    assert Interval(2).supports(made.tokens).any()
    assert int(made.model_calls.max()) == 4


@pytest.mark.parametrize("name", ["2-gram, pruned", "3-gram, pruned", "interval 3", "brackets, 2 kinds"])
@pytest.mark.parametrize("sampler", ["ancestral", "low-confidence"])
def test_impossible_is_the_first_evaluation_of_a_context_without_mass(name, sampler):
    """Replayed from the tokens and the order: q(x_R) = 0 for what earlier steps had revealed."""
    language, length = tiny_languages()[name]
    every, q = sequences(language.vocabulary, length), distribution(language, length)
    made = generate(language, sampler=sampler, steps=3, length=length, rows=1500)
    tokens, order = made.tokens.numpy(), made.order.numpy()
    expected = np.zeros(len(tokens), int)
    for turn in (3, 2, 1):
        seen = np.where(order < turn, tokens, language.vocabulary)
        dead = evidence(q, every, seen, language.vocabulary) == 0
        asked = (order == turn).any(1) & dead
        number = np.array([len(set(row[row < turn])) + 1 for row in order])
        expected = np.where(asked, number, expected)
    assert made.impossible.tolist() == expected.tolist()
    assert expected.any()
    assert not language.supports(made.tokens)[expected > 0].any()


@pytest.mark.parametrize("name", tiny_languages())
def test_a_canvas_agrees_with_the_posterior_from_scratch(name):
    """After random reveals and hides, impossible contexts included, `at` is the stateless answer, of any positions."""
    language, length = tiny_languages()[name]
    v, rows = language.vocabulary, 40
    chance = np.random.default_rng(1)
    canvas = Canvas(Ideal(language), language.blank(rows, length), Randomness(0, torch.arange(rows)))
    for _ in range(6):
        where = torch.from_numpy(chance.random((rows, length)) < 0.3)
        canvas.reveal(where, torch.from_numpy(chance.integers(0, v, int(where.sum()))))
        canvas.hide(torch.from_numpy(chance.random((rows, length)) < 0.2))
        scratch = language.posterior(canvas.tokens)
        said, places = look(canvas)
        torch.testing.assert_close(said, scratch[places], atol=1e-9, rtol=0)
        some = torch.from_numpy(chance.random((rows, length)) < 0.5) & canvas.hidden
        places = some.nonzero(as_tuple=True)
        torch.testing.assert_close(canvas.at(*places).dense(), scratch[places], atol=1e-9, rtol=0)


def test_a_canvas_can_begin_with_given_tokens():
    language = load("sparse-hmm")
    given = language.sample(5, 64, seed=1)
    given[:, ::3] = language.vocabulary
    canvas = Canvas(Ideal(language), given, Randomness(0, torch.arange(5)))
    said, places = look(canvas)
    torch.testing.assert_close(said, language.posterior(given)[places], atol=1e-12, rtol=0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", tiny_languages())
def test_the_exact_reader_is_the_posterior_of_prefixes_and_rewinds(name):
    """FilterCausal against the stateless posterior, ragged counts and rewinds included, on arbitrary prefixes."""
    language, length = tiny_languages()[name]
    v, rows = language.vocabulary, 30
    chance = np.random.default_rng(2)
    tokens = torch.from_numpy(chance.integers(0, v, (rows, length)))
    for reader in (Ideal(language).causal(rows, length), PrefixCausal(Ideal(language), rows, length)):
        read = torch.full((rows,), -1)  # the start has not been read
        for turn in range(5):
            counts = torch.from_numpy(chance.integers(0, 3, rows)) if turn else torch.ones(rows, dtype=torch.int64)
            counts = torch.minimum(counts, length - 1 - read)
            ahead = (read.unsqueeze(1) + torch.arange(3)).clamp(min=-1)
            chunk = torch.where(ahead < 0, v, tokens.gather(1, ahead.clamp(0, length - 1)))
            used = torch.arange(3) < counts.unsqueeze(1)
            asked = torch.from_numpy(chance.random((rows, 3)) < 0.7) if turn % 2 else None
            answer = as_marginals(reader.extend(chunk, counts, asked)).dense()
            places = (used if asked is None else used & asked).nonzero()
            assert len(answer) == len(places)
            for said, (b, k) in zip(answer, places.tolist(), strict=True):
                j = int(read[b]) + 1 + k
                context = torch.where(torch.arange(length) < j, tokens[b], v)
                torch.testing.assert_close(said, language.posterior(context[None])[0, j], atol=1e-9, rtol=0)
            read = read + counts
            if turn == 3:
                read = torch.minimum(read, torch.from_numpy(chance.integers(0, length, rows)))
                reader.rewind(read)


@pytest.mark.parametrize("kind", ["leak", "tilt"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.01, 0.3, 5.0])
@pytest.mark.parametrize("name", ["hmm, sparse", "2-gram, pruned", "interval 3", "brackets, 1 kind"])
def test_perturbed_is_exactly_epsilon_away_in_every_context(name, kind, epsilon):
    """KL(q(. | x_R) || p(. | x_R)) over all contexts of positive probability; tilt keeps the support."""
    language, length = tiny_languages()[name]
    length = min(length, 4)
    v = language.vocabulary
    contexts = torch.from_numpy(sequences(v + 1, length))
    contexts = contexts[torch.isfinite(language.log_evidence(contexts))]
    hidden = contexts == v
    q = language.posterior(contexts)[hidden]
    perturbed = Perturbed(language, kind, epsilon, seed=3)
    p = perturbed.posterior(contexts)[hidden]
    torch.testing.assert_close(p.sum(-1), torch.ones(len(p), dtype=torch.float64), atol=1e-12, rtol=0)
    divergence = torch.where(q > 0, q * (q / p).log(), 0.0).sum(-1)
    free = (q > 0).sum(-1) > 1 if kind == "tilt" else torch.ones(len(q), dtype=torch.bool)
    torch.testing.assert_close(
        divergence[free], torch.full((int(free.sum()),), epsilon, dtype=torch.float64), atol=1e-12, rtol=1e-9
    )
    assert bool((divergence[~free].abs() < 1e-15).all())
    if kind == "tilt":
        assert torch.equal(p > 0, q > 0)
    elif epsilon:
        assert bool((p > q).any(-1).all())
    torch.testing.assert_close(perturbed.posterior(contexts)[~hidden], language.posterior(contexts)[~hidden])


def test_perturbed_canvases_and_readers_agree_with_its_posterior():
    language = load("paper-2gram")
    perturbed = Perturbed(language, "leak", 0.05)
    given = language.sample(6, 20)
    given[:, ::2] = language.vocabulary
    canvas = Canvas(perturbed, given, Randomness(0, torch.arange(6)))
    said, places = look(canvas)
    torch.testing.assert_close(said, perturbed.posterior(given)[places], atol=1e-9, rtol=0)
    drawn = language.sample(6, 20)
    start = torch.full((6, 1), language.vocabulary)
    answer = as_marginals(perturbed.causal(6, 20).extend(torch.cat([start, drawn], 1)[:, :20])).dense().view(6, 20, -1)
    for j in (0, 7, 19):
        prefix = torch.where(torch.arange(20) < j, drawn, language.vocabulary)
        torch.testing.assert_close(answer[:, j], perturbed.posterior(prefix)[:, j], atol=1e-9, rtol=0)


def test_a_network_that_fails_is_named():
    """NaN, or no mass at all, stops at its position instead of writing some token."""

    class Broken(Network):
        def posterior(self, tokens, positions=None, time=None):
            return super().posterior(tokens, positions, time) * torch.nan

    with pytest.raises(Exception, match="probabilities of Broken at position"):
        generate(Broken(4), steps=2, length=4, rows=2)


def test_schedules_are_read_by_every_planned_sampler():
    """All mass on one step is one evaluation a row."""
    made = generate(Interval(2), schedule=[0.0, 1.0, 0.0], length=6, rows=5)
    assert made.model_calls.tolist() == [1] * 5
    assert bool((made.order == 2).all())
    assert schedules.deltas([0.0, 1.0, 0.0]).tolist() == [0.0, 1.0, 0.0]
