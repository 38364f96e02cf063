"""The memory: its posteriors are those of its chain, by a sum over all strings."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from tests.models.trained.small import L, V, every_context, trunk
from unmask import languages
from unmask.core.errors import UnmaskError
from unmask.models.trained import Shape, preset
from unmask.models.trained.chain import Chain
from unmask.models.trained.recipe import Learner, recipe

SIZES = [(1, 1, 3, 3), (1, 2, 4, 3), (2, 2, 4, 2), (3, 1, 5, 2), (3, 2, 2, 2), (2, 1, 1, 2)]  # k, R, L, V


def chain(vocabulary: int, tokens: int, states: int, noise: str = "mask") -> Chain:
    shape = Shape("mdm", vocabulary, 8, hidden=4, heads=1, noise=noise, neighbours=tokens, states=states)
    made = Chain(shape).double()
    generator = torch.Generator().manual_seed(tokens)
    for weight in made.parameters():
        torch.nn.init.normal_(weight, generator=generator)
    return made


def weight(made: Chain, string: tuple[int, ...]) -> float:
    """begin prod T of a string, a sum over the hidden states of its windows."""
    vocabulary, k = made.vocabulary, made.tokens

    def number(tokens: tuple[int, ...]) -> int:
        return sum(token * vocabulary**place for place, token in enumerate(reversed(tokens)))

    table = made.table.detach().exp().view(-1, vocabulary, made.states, vocabulary, made.states)
    state = made.begin.detach().exp()[number(string[:k])]
    for t in range(k, len(string)):
        state = state @ table[number(string[t - k + 1 : t]), string[t - k], :, string[t]]
    return float(state.sum())


def enumerated(made: Chain, evidence: Tensor) -> Tensor:
    """p(x_j | evidence), (B, L, V); strings are at least one window long."""
    rows, length, vocabulary = evidence.shape
    mass = torch.zeros_like(evidence)
    for string in itertools.product(range(vocabulary), repeat=max(length, made.tokens)):
        of_string = weight(made, string)
        for row in range(rows):
            shown = math.prod(float(evidence[row, j, string[j]]) for j in range(length))
            for j in range(length):
                mass[row, j, string[j]] += of_string * shown
    return mass / mass.sum(2, keepdim=True)


@torch.no_grad()
@pytest.mark.parametrize(("tokens", "states", "length", "vocabulary"), SIZES)
def test_posteriors_are_sums_over_all_strings(tokens, states, length, vocabulary):
    made = chain(vocabulary, tokens, states)
    evidence = torch.rand(2, length, vocabulary, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(made.posterior(evidence), enumerated(made, evidence), atol=1e-12, rtol=0)
    assert not torch.allclose(made.posterior(evidence.flip(1)), enumerated(made, evidence), atol=1e-3) or length == 1


@torch.no_grad()
def test_evidence_is_the_mask_or_the_noise():
    made = chain(V, 1, 2)
    contexts = every_context()[::5]
    shown = torch.cat([torch.eye(V), torch.ones(1, V)]).double()[contexts]
    logits = made(contexts)[..., 4:]
    expected = made.posterior(shown).clamp(min=1e-9).log()
    torch.testing.assert_close(logits, expected, atol=1e-12, rtol=0)

    noisy = contexts.clamp(max=V - 1)
    level = torch.linspace(0.1, 0.9, len(noisy), dtype=torch.float64)
    kernel = level.view(-1, 1, 1) * torch.eye(V).double()[noisy] + (1 - level.view(-1, 1, 1)) / V
    torch.testing.assert_close(made(noisy, level)[..., 4:], made.posterior(kernel).log(), atol=1e-12, rtol=0)
    assert not torch.allclose(made(noisy, level.flip(0))[..., 4:], made.posterior(kernel).log(), atol=1e-2)


@torch.no_grad()
@pytest.mark.parametrize("order", [2, 3])
def test_a_table_of_an_n_gram_has_its_posteriors(order):
    language = languages.random_ngram(order, 3, seed=1)
    made = chain(3, order - 1, 1)
    transition = torch.as_tensor(language.transition, dtype=torch.float64).view(3, -1, 3)  # first, middle, last
    made.table.copy_(transition.transpose(0, 1).clamp(min=1e-300).log())
    made.begin.copy_(torch.as_tensor(language.initial, dtype=torch.float64).view(-1, 1).clamp(min=1e-300).log())

    contexts = every_context(3, 5)
    contexts = contexts[~language.impossible(contexts)]
    hidden = contexts == 3
    posteriors = made(contexts)[..., 4:].exp()[hidden]
    torch.testing.assert_close(posteriors, language.posterior(contexts)[hidden], atol=1e-8, rtol=0)


def test_the_gradient_ignores_the_size_of_messages():
    """The sums by which messages are divided are constants for the gradient, which is right all the same."""
    made = chain(2, 2, 2)
    evidence = torch.rand(2, 5, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def answer(table: Tensor, begin: Tensor) -> Tensor:
        return torch.func.functional_call(made, {"table": table, "begin": begin}, (evidence,))

    made.forward = made.posterior  # type: ignore[method-assign]
    assert torch.autograd.gradcheck(answer, (made.table, made.begin))


@torch.no_grad()
def test_messages_are_never_in_half_precision(monkeypatch):
    """Neither where autocast would, nor for a network that is in bfloat16: weights are rounded, sums are not."""
    seen = []
    honest = Chain.posterior
    monkeypatch.setattr(Chain, "posterior", lambda self, evidence: seen.append(honest(self, evidence)) or seen[-1])
    tokens = every_context()
    made = chain(V, 2, 2).float()
    expected = made(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        made(tokens)
    assert torch.equal(seen[0], seen[1])
    assert made.bfloat16()(tokens).dtype == torch.bfloat16
    assert seen[2].dtype == torch.float32
    torch.testing.assert_close(seen[2], expected[..., 4:].exp(), atol=0.02, rtol=0)


def test_the_blocks_read_the_posterior():
    made = trunk(states=2)
    tokens = torch.tensor([[V, 0, V, 1]])
    said = made.chain(tokens)
    posterior = said[..., 16:].exp()
    torch.testing.assert_close(said[..., :16], made.chain.read(posterior), atol=1e-8, rtol=0)


@pytest.mark.parametrize(("kind", "neighbours"), [("ar", 1), ("mdm", 0)])
def test_only_an_mdm_with_neighbours_has_a_chain(kind, neighbours):
    with pytest.raises(UnmaskError, match=r"expected an MDM with at least one neighbour.*\. Leave states out"):
        Shape(kind, V, L, hidden=4, heads=1, neighbours=neighbours, states=2)


def test_a_chain_is_named_where_there_is_one():
    """Shapes without a chain keep their digests."""
    assert "states" not in Shape("mdm", V, L, hidden=4, heads=1, neighbours=2).to_dict()
    own = Shape("mdm", V, L, hidden=4, heads=1, neighbours=2, states=3)
    assert Shape.from_dict(own.to_dict()) == own


def test_the_chain_of_the_preset_is_small():
    for vocabulary, memory in ((8, (2, 8)), (14, (1, 8)), (24, (1, 8)), (50, (1, 4)), (200, (1, 1)), (201, (1, 0))):
        shape = preset("chain", "mdm", vocabulary)
        assert (shape.neighbours, shape.states) == memory
    assert preset("chain", "ar", 8).states == preset("thorough", "mdm", 8).states == 0
    assert preset("chain", "mdm", 8, states=3).states == 3
    assert preset("chain", "mdm", 8, neighbours=0).states == 0


def test_no_weight_is_updated_twice():
    for shape in (preset("chain", "mdm", 8), preset("quick", "mdm", 8)):
        learner = Learner(shape, recipe("chain"), torch.device("cpu"))
        updated = [*learner.matrices, *(name for names, _, _ in learner.groups for name in names)]
        assert sorted(updated) == sorted(learner.weights)
