"""A model that does not behave as its card says is refused when it is loaded: of weights that know a language."""

from __future__ import annotations

import pytest
import torch

from tests.models.open.small import CONFIGS, MASK, V, card, load, published
from unmask import UnmaskError
from unmask.models import open as hub
from unmask.models.open.body import Body, Sizes
from unmask.models.open.dit import DiT
from unmask.models.open.probing import probe

LENGTH, SYMBOLS, SURE = 24, 5, 8.0  # SURE: the logit of the token that it predicts


def language():
    """A text: each symbol is the sum of the two before it."""
    out = [1, 3]
    while len(out) < LENGTH:
        out.append((out[-1] + out[-2]) % SYMBOLS)
    return torch.tensor(out)


TEXT = language()


class Knows(Body):
    """A network that knows the language: a diffusion model with this mask and shift, or one from left to right."""

    def __init__(self, mask=MASK, shift=0, causal=False):
        super().__init__(V, V, 64, Sizes(1, 1, 2))
        self.mask, self.shift, self.causal = mask, shift, causal

    def states(self, tokens, columns, seen, reach):
        follows = (tokens + tokens.roll(1, 1)) % SYMBOLS  # the token behind each
        if self.causal:  # with another attention than it learned, it says nothing
            predicted = torch.full_like(tokens, MASK) if seen is None else follows
        else:
            predicted = torch.where(tokens == self.mask, follows.roll(1, 1), tokens).roll(-self.shift, 1)
        logits = SURE * torch.nn.functional.one_hot(predicted, V).double()
        logits[..., SYMBOLS] += 0.1 * tokens.double().mean(1, keepdim=True)  # every position sees the whole row
        return logits

    def logits(self, states):
        return states


@pytest.fixture
def bodies():
    return {
        "plain": Knows(),
        "other mask": Knows(mask=35),
        "shifted": Knows(shift=1),
        "causal": Knows(causal=True),
    }


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
