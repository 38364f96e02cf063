"""The engine of open models against loops that are slow and obvious: every sampler, topology, cache and shape."""

from __future__ import annotations

import pytest
import torch

from tests.models.open.small import CONFIGS, MASK, V, card, load, published
from tests.samplers.table import MASKED
from unmask import UnmaskError, generate
from unmask.denoisers import Denoiser
from unmask.samplers import AtToken

READERS = ("autoregressive", "speculative")  # which need an AR model beside it
KINDS = {
    "bidirectional": {},
    "shifted": {"prediction": "shifted"},
    "blocks": {"block": 4},
    "shifted blocks": {"block": 4, "prediction": "shifted"},
}
RAGGED = [[3, 1, 4, *[V] * 9], [2, 7, *[V] * 5], [5, *[V] * 13], [1, 6, V, 8, V, V, 2, V, V, V]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return published(tmp_path_factory.mktemp("small"), "qwen2", CONFIGS["qwen2"])


SAMPLERS = [row.sampler for row in MASKED if row.name not in READERS]
PAIRS = [
    pytest.param(kind, name, marks=() if number % len(KINDS) == place else pytest.mark.long)
    for place, kind in enumerate(KINDS)
    for number, name in enumerate(SAMPLERS)
]


@pytest.fixture(scope="module", params=KINDS)
def model(request, directory):
    return load(directory, card("qwen2", **KINDS[request.param]))


class Plain(Denoiser):
    """Rows from scratch, all of their logits: attention that the card says, softmax in float64."""

    def __init__(self, model):
        self.model, self.vocabulary, self.grid = model, model.vocabulary, model.grid

    @torch.no_grad()
    def posterior(self, tokens, positions=None, time=None):
        length, block = tokens.shape[1], self.model.card.block or tokens.shape[1]
        seen = torch.tensor([[j // block <= i // block for j in range(length)] for i in range(length)])
        logits = self.model.body.logits(
            self.model.body.states(torch.where(tokens == V, MASK, tokens), None, seen, None)
        )
        logits[..., MASK] = -torch.inf
        if self.model.card.prediction == "shifted":
            logits = torch.cat([logits[:, :1], logits[:, :-1]], 1)
        said = logits.softmax(-1)
        return said if positions is None else said.gather(1, positions.unsqueeze(-1).expand(*positions.shape, V))


@pytest.mark.sampled(37)
@pytest.mark.parametrize(("model", "name"), PAIRS, indirect=["model"])
def test_every_sampler_writes_what_it_writes_on_a_plain_denoiser(model, name):
    for given in (None, RAGGED):
        options = {"sampler": name, "steps": 6, "seed": 3}
        options |= {"length": 12, "rows": 5} if given is None else {"given": given}
        ours, plain = generate(model, **options), generate(Plain(model), **options)
        assert torch.equal(ours.tokens, plain.tokens)
        assert torch.equal(ours.order, plain.order)
        assert torch.equal(ours.model_calls, plain.model_calls)
        torch.testing.assert_close(ours.probability, plain.probability, rtol=0, atol=1e-9)


def test_what_is_banned_is_never_written(directory):
    model = load(directory, card("qwen2", banned=(3, 4, 5)))
    written = generate(model, length=30, rows=40, steps=30).tokens
    assert not torch.isin(written, torch.tensor([3, 4, 5, MASK])).any()
    free = generate(load(directory, card("qwen2")), length=30, rows=40, steps=30).tokens
    assert torch.isin(free, torch.tensor([3, 4, 5])).any()
    assert not (free == MASK).any()


def test_blocks_that_are_settled_are_computed_once(directory):
    """Four blocks of 4 in 4 steps each: a forward looks at one block, and at the last one once more beside it."""
    model = load(directory, card("qwen2", block=4))
    made = generate(model, sampler="blocks(block_length=4)", steps=16, length=16, rows=3, seed=1)
    assert made.spent.forwards == 16
    assert made.spent.tokens == 3 * (16 * 4 + 3 * 4)
    free = load(directory, card("qwen2"))
    assert generate(free, sampler="blocks(block_length=4)", steps=16, length=16, rows=3).spent.tokens == 3 * 16 * 16


def test_blocks_of_samplers_are_those_of_the_model(directory):
    """A prompt leaves a part of one, a gap may leave nothing; one step each. Of other lengths they are the row's."""
    row = [1, 2, 3, 4, 5, 6, V, V, 3, 4, 5, 6, V, V, 7, V, V]
    by_grid = [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 2, 2, 0, 2, 3]
    by_count = [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 2, 2]
    model, free = load(directory, card("qwen2", block=4)), load(directory, card("qwen2"))
    options = {"sampler": "blocks(block_length=4)", "given": [row]}
    assert generate(model, steps=3, **options).order.tolist() == [by_grid]
    assert generate(model, steps=3, temperature=0.5, guidance=1.0, **options).order.tolist() == [by_grid]
    assert generate(free, steps=2, **options).order.tolist() == [by_count]
    parts = options | {"sampler": "blocks(block_length=2)"}  # of a block of 4, on the same grid
    by_part = [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 2, 2, 0, 3, 4]
    assert generate(model, steps=4, **parts).order.tolist() == [by_part]
    odd = options | {"sampler": "blocks(block_length=3)"}
    assert generate(model, steps=3, **odd).order.tolist() == generate(free, steps=3, **odd).order.tolist()


def test_what_is_remembered_of_blocks_is_forgotten_where_it_changes(directory):
    """ReMDM hides tokens of earlier blocks again."""
    model = load(directory, card("qwen2", block=4))
    options = {"sampler": "remdm", "steps": 12, "length": 16, "rows": 20, "seed": 5}
    assert torch.equal(generate(model, **options).tokens, generate(Plain(model), **options).tokens)
    broken = load(directory, card("qwen2", block=4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "scatter_reduce_", lambda self, *rest, **kw: self)  # nothing is forgotten
        with pytest.raises(AssertionError):
            assert torch.equal(generate(broken, **options).tokens, generate(Plain(broken), **options).tokens)


def test_a_row_that_has_ended_is_not_paid_for(directory):
    """Up to its end it is what it is without a stop."""
    model = load(directory, card("qwen2"))
    options = {"sampler": "left-to-right", "steps": 40, "length": 40, "rows": 30, "seed": 6}
    whole, ended = generate(model, **options), generate(model, stop=AtToken((1, 2), filler=0), **options)
    for row in range(30):
        end = int(ended.lengths[row])
        assert torch.equal(whole.tokens[row, :end], ended.tokens[row, :end])
        assert int(ended.model_calls[row]) == end
    assert (ended.lengths < 40).sum() > 5
    assert ended.spent.rows == int(ended.model_calls.sum())


def test_longer_than_its_context(directory):
    with pytest.raises(UnmaskError, match="length is 65; expected at most 64 for small-qwen2"):
        generate(load(directory, card("qwen2")), length=65, rows=1, steps=2)
