"""A network as a denoiser: what it says, how often it is evaluated, and what it refuses."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from tests.models.trained.small import L, V, every_context, trunk
from unmask import UnmaskError, generate
from unmask.core.chance import Randomness
from unmask.denoisers import Canvas, Logits
from unmask.models.trained import Network
from unmask.samplers import SAMPLERS

LONG = 12
CLOSE = {"atol": 1e-12, "rtol": 0}
UNIFORM = {name for name in SAMPLERS.makers if SAMPLERS.make(name).removes == "uniform"}  # which networks do not remove
WITHOUT_LANGUAGE = sorted(SAMPLERS.makers.keys() - UNIFORM)


def said(made, tokens, time=None):
    """All of it from nothing, by its definition: softmax where hidden, what is there elsewhere."""
    marginals = torch.softmax(made(tokens, time=time), -1).detach()
    shown = torch.nn.functional.one_hot(tokens, V + 1)[..., :V].to(marginals.dtype)
    return torch.where((tokens < V).unsqueeze(-1), shown, marginals)


def canvas(made, tokens, **options):
    return Canvas(Network(made, **options), tokens, Randomness(0, torch.arange(len(tokens))))


@pytest.mark.parametrize("batch", [None, 100])
def test_posterior(batch):
    made, contexts = trunk(), every_context()
    network, whole = Network(made, batch=batch), said(made, contexts)
    torch.testing.assert_close(network.posterior(contexts), whole, **CLOSE)
    torch.testing.assert_close(network.posterior(contexts, torch.tensor([2, 0])), whole[:, [2, 0]], **CLOSE)
    each = (torch.arange(len(contexts)) % L).unsqueeze(1)
    picked = whole.gather(1, each.unsqueeze(-1).expand(-1, -1, V))
    torch.testing.assert_close(network.posterior(contexts, each), picked, **CLOSE)
    assert not network.posterior(contexts).requires_grad


@pytest.mark.parametrize("batch", [None, 7])
def test_a_canvas_agrees_with_the_posterior_from_scratch(batch):
    """After random reveals and hides; each row that changed is evaluated once, if it is asked for."""
    made, rows, chance = trunk(length=LONG, layers=3), 20, np.random.default_rng(1)
    ours = canvas(made, torch.full((rows, LONG), V), batch=batch)
    for _ in range(8):
        where = torch.from_numpy(chance.random((rows, LONG)) < 0.1)
        ours.reveal(where, torch.from_numpy(chance.integers(0, V, int(where.sum()))))
        ours.hide(torch.from_numpy(chance.random((rows, LONG)) < 0.05))
        scratch = said(copy.deepcopy(made), ours.tokens)
        hidden = (ours.hidden & torch.from_numpy(chance.random((rows, LONG)) < 0.1)).nonzero(as_tuple=True)
        torch.testing.assert_close(ours.at(*hidden).dense(), scratch[hidden], **CLOSE)
        if chance.random() < 0.5:
            everywhere = ours.hidden.nonzero(as_tuple=True)
            torch.testing.assert_close(ours.at(*everywhere).dense(), scratch[everywhere], **CLOSE)
        assert made.evaluated == ours.spent.rows == int(ours.model_calls.sum())
    assert 20 < made.evaluated < 8 * rows


def test_other_places_of_an_unchanged_row_cost_no_evaluation():
    made = trunk()
    ours = canvas(made, torch.full((3, L), V))
    first = ours.at(torch.tensor([0, 1]), torch.tensor([2, 3])).dense()
    second = ours.at(torch.tensor([0, 1, 1]), torch.tensor([1, 0, 3])).dense()
    assert (made.evaluated, ours.spent.rows) == (2, 2)
    torch.testing.assert_close(second[2], first[1], **CLOSE)
    torch.testing.assert_close(second, said(made, ours.tokens)[[0, 1, 1], [1, 0, 3]], **CLOSE)
    assert ours.at(torch.tensor([], dtype=torch.int64), torch.tensor([], dtype=torch.int64)).dense().shape == (0, V)


def test_with_a_time_every_ask_is_an_evaluation():
    made = trunk(time_free=False)
    ours, tokens = canvas(made, torch.full((3, L), V)), torch.full((3, L), V)
    for turn, now in enumerate((0.9, 0.4)):
        time = torch.full((3,), now, dtype=torch.float64)
        places = ours.hidden.nonzero(as_tuple=True)
        wanted = said(copy.deepcopy(made), tokens, time)[places]
        torch.testing.assert_close(ours.at(*places, time).dense(), wanted, **CLOSE)
        assert made.evaluated == 3 * (turn + 1) == ours.spent.rows
    torch.testing.assert_close(Network(made).posterior(tokens, time=time), said(made, tokens, time), **CLOSE)
    for sampler in ("ancestral", "low-confidence", "self-speculative"):
        made.evaluated = 0
        filled = generate(Network(made), sampler=sampler, length=L, rows=10, steps=3)
        assert made.evaluated == filled.spent.rows


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sampler", WITHOUT_LANGUAGE)
def test_every_sampler_runs_and_what_is_counted_is_evaluated(sampler):
    mdm, ar = trunk(length=LONG), trunk("ar", length=LONG)
    spelled = "blocks(block_length=5)" if sampler == "blocks" else sampler
    made = generate(Network(mdm, ar), sampler=spelled, length=LONG, rows=20, steps=5, seed=2)
    assert int(made.tokens.max()) < V
    assert mdm.evaluated + ar.evaluated == made.spent.rows
    if sampler == "as-published-mdlm":  # counts what its cache of a batch would evaluate, of rows that have not changed
        assert made.spent.rows < int(made.model_calls.sum())
    else:
        assert made.spent.rows == int(made.model_calls.sum())


def test_many_symbols_are_never_float64():
    network = Network(*(trunk(kind, vocabulary=1500, dtype=torch.float32, neighbours=0) for kind in ("mdm", "ar")))
    assert network.posterior(torch.full((2, L), 1500)).dtype == torch.float32
    assert isinstance(network.causal(2, L).extend(torch.full((2, 1), 1500)), Logits)
    for sampler in ("ancestral", "autoregressive", "low-confidence", "speculative"):
        assert int(generate(network, sampler=sampler, rows=3, length=L, steps=2).tokens.max()) < 1500


REFUSED = {
    "batch is 0; expected at least 1": lambda: Network(trunk(), batch=0),
    "has no model; expected": lambda: Network(),
    "given as mdm is of kind ar": lambda: Network(trunk("ar")),
    "given as ar is of kind mdm": lambda: Network(trunk(), trunk()),
    "the MDM has 3 symbols, the AR model 2; expected": lambda: Network(trunk(), trunk("ar", vocabulary=2)),
    "length is 5; the MDM was trained for up to 4 tokens. Use": lambda: generate(Network(trunk()), length=5, rows=1),
    "the AR model was trained for up to 4 tokens": lambda: Network(ar=trunk("ar")).causal(1, 5),
    "the MDM was trained for up to 4 tokens": lambda: Network(trunk()).posterior(torch.zeros(1, 5).long()),
    "has no AR model.*--causal-model": lambda: generate(Network(trunk()), sampler="autoregressive", length=L, rows=1),
    "cannot fill masks. Use the sampler autoreg": lambda: generate(Network(ar=trunk("ar")), length=L, rows=1),
    "finds no CUDA device": lambda: Network(trunk(), device="cuda"),
    "unknown device 'gpu'": lambda: Network(trunk(), device="gpu"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_it_refuses(monkeypatch, words):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnmaskError, match=words):
        REFUSED[words]()


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA"), RuntimeError("can't allocate memory: 9 bytes")])
@pytest.mark.parametrize(("rows", "remedy"), [(40, "Pass batch=20"), (1, "Use a smaller network")])
def test_out_of_memory_says_what_to_do(monkeypatch, error, rows, remedy):
    def scarce(self, tokens, *rest):
        raise error

    monkeypatch.setattr(type(trunk()), "below", scarce)
    with pytest.raises(UnmaskError, match=f"{rows} rows of 4 tokens at once do not fit. {remedy}"):
        generate(Network(trunk()), rows=rows, length=L, steps=2)


@pytest.mark.parametrize("sampler", ["ancestral", "low-confidence"])
def test_not_a_number_is_named(sampler):
    made = trunk()
    with torch.no_grad():
        made.head.weight.fill_(torch.nan)
    with pytest.raises(UnmaskError, match="no usable probabilities at position"):
        generate(Network(made), sampler=sampler, rows=2, length=L, steps=2)
