"""A model that does not behave as its card says is refused when it is loaded: of weights that know a language."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.models.open.small import CONFIGS, MASK, V, card, load, published
from unmask import UnmaskError
from unmask.models import open as hub
from unmask.models.open.dit import DiT
from unmask.models.open.probing import probe

STEPS, ROWS, LENGTH, SYMBOLS = 250, 32, 24, 5


def drawn(rows, rng):
    """A language: each symbol is the sum of the two before it."""
    out = list(torch.randint(0, SYMBOLS, (2, rows), generator=rng))
    while len(out) < LENGTH:
        out.append((out[-1] + out[-2]) % SYMBOLS)
    return torch.stack(out, 1)


TEXT = drawn(1, torch.Generator().manual_seed(9))[0]


def learned(directory, mask=MASK, shift=0, causal=False):
    """A model that has learned the cycle, as a diffusion model with this mask and shift, or from left to right."""
    published(directory, "qwen2", CONFIGS["qwen2"])
    model = load(directory, card("qwen2"), dtype=torch.float32)
    body = model.body.requires_grad_(True)
    optimiser = torch.optim.Adam(body.parameters(), lr=1e-2)
    rng = torch.Generator().manual_seed(0)
    place, mean = torch.arange(LENGTH), 2.0
    for _ in range(STEPS):
        rows = drawn(ROWS, rng)
        if causal:
            states = body.states(rows, None, (place <= place.unsqueeze(1))[None, None], None)
            logits, truth = body.logits(states[:, 1:-1]), rows[:, 2:]
        else:
            hidden = torch.rand(rows.shape, generator=rng) < 0.3
            hidden[:, :2] = False
            states = body.states(torch.where(hidden, mask, rows), None, None, None)
            logits = body.logits(states[:, : LENGTH - shift])[hidden[:, shift:]]
            truth = rows[:, shift:][hidden[:, shift:]]
        loss = functional.cross_entropy(logits.flatten(0, -2), truth.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        mean = 0.9 * mean + 0.1 * float(loss.detach())
        if mean < 0.2:
            break
    assert mean < 0.4
    body.requires_grad_(False)
    return body


@pytest.fixture(scope="module")
def bodies(tmp_path_factory):
    kinds = {"plain": {}, "other mask": {"mask": 35}, "shifted": {"shift": 1}, "causal": {"causal": True}}
    return {name: learned(tmp_path_factory.mktemp("learned"), **options) for name, options in kinds.items()}


@pytest.mark.parametrize(("body", "fields"), [("plain", {}), ("shifted", {"prediction": "shifted"})])
def test_what_behaves_as_its_card_says_is_taken(bodies, body, fields):
    probe(hub.OpenModel(card("qwen2", **fields), bodies[body]), TEXT)


@pytest.mark.parametrize(
    ("body", "fields", "message"),
    [
        ("causal", {}, ".*like an AR model"),
        ("other mask", {}, f"token 35 acts as its mask .*expected mask {MASK}, as in its card"),
        ("shifted", {}, "a token is predicted at the previous position"),
        ("plain", {"prediction": "shifted"}, "a token is predicted at its own position"),
    ],
)
def test_what_behaves_otherwise_is_refused(bodies, body, fields, message):
    with pytest.raises(UnmaskError, match=f"small-qwen2 is refused: {message}"):
        probe(hub.OpenModel(card("qwen2", **fields), bodies[body]), TEXT)


@pytest.mark.parametrize("fields", [{}, {"block": 4}, {"prediction": "shifted"}, {"block": 4, "prediction": "shifted"}])
def test_random_weights_say_nothing_against_a_card(tmp_path, fields):
    model = load(published(tmp_path, "qwen2", CONFIGS["qwen2"]), card("qwen2", **fields))
    probe(model)
    probe(model, torch.arange(24) % V)


class OneSided(DiT):
    """A library that lets a model see what is before it, whatever it was told."""

    def states(self, tokens, columns, seen, reach):
        place = torch.arange(tokens.shape[1])
        return super().states(tokens, columns, (place <= place.unsqueeze(1))[None, None], reach)


class AllSided(DiT):
    def states(self, tokens, columns, seen, reach):
        return super().states(tokens, columns, None, reach)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (OneSided, {}, "its attention is causal; expected bidirectional attention"),
        (OneSided, {"block": 4}, "its attention is causal"),
        (AllSided, {"block": 4}, "its logits in the first block of 4 depend on later tokens"),
    ],
)
def test_what_sees_otherwise_is_refused_whatever_its_weights(tmp_path, kind, fields, message):
    model = load(published(tmp_path, "qwen2", CONFIGS["qwen2"]), card("qwen2", **fields))
    model.body.__class__ = kind
    with pytest.raises(UnmaskError, match=message):
        probe(model)


@pytest.mark.parametrize("block", [None, 4, 1])
def test_weights_that_are_no_numbers_are_refused(tmp_path, block):
    model = load(published(tmp_path, "qwen2", CONFIGS["qwen2"]), card("qwen2", block=block))
    model.body.blocks[0].up.weight[0, 0] = torch.nan
    with pytest.raises(UnmaskError, match="is refused: its logits are not finite"):
        probe(model)
