"""What the logits' behaviour says of a model when it is loaded: does it see, shift and hide as its card says?

    sees     a change of the last token moves what is said of an early one, or, block-causal, of the same block alone
    shift    the tokens of a text are likelier where the card says their answers stand than one place beside it
    mask     no other special token makes a model say what is hidden so much better
    kind     an AR model's weights read a text far better from left to right than they fill it in

The first can be asked of any weights. The others are of a text, and of weights that know something of it: where nothing
is said better than by chance, nothing is refused. One nat a token is the least difference that counts.
"""

from __future__ import annotations

import math
from contextlib import suppress

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.hub.model import OpenModel

CLEAR = 1.0  # nats a token
KNOWS, SURE = 0.8, 0.35  # of log V: a loss below the first is no chance, and one below the second leaves no doubt
EVERY, MOST = 6, 96  # of so many tokens of a text one is hidden
TRIED = 64  # other tokens that may be the mask
TOGETHER = 16  # of them in one evaluation
TEXT = (
    "The sun was setting behind the hills when the old man came home from the market. He put his bag on the table, "
    "sat down by the window and looked at the garden. It had rained in the morning, and the leaves of the trees were "
    "still wet. His wife came in from the kitchen and asked him what he had bought. Bread, he said, and milk, and a "
    "book for the children, who will be here on Sunday."
)


def probe(model: OpenModel, text: Tensor | None = None) -> None:
    """An error where the model does not behave as its card says; text: tokens (L) to try it with."""
    if text is None and model.tokenizer is not None:
        with suppress(UnmaskError):  # a tokenizer may have no symbols for it
            text = torch.from_numpy(model.tokenizer.encode(TEXT)).long()
    if not bool(_said(model, torch.arange(min(8, model.length)) % model.vocabulary, torch.arange(2)).isfinite().all()):
        raise UnmaskError(f"{model.name} is refused: what it says is no number; its weights are spoiled, or too large")
    if model.card.causal:
        return
    _check_sight(model)
    if text is not None and len(text) >= 2 * EVERY and int(text.max()) < model.vocabulary:
        _check_text(model, text[: min(MOST, model.length)])


def _check_sight(model: OpenModel) -> None:
    block = model.card.block
    length = min(2 * block if block else 12, model.length)
    luck = torch.Generator().manual_seed(0)
    row = torch.randint(0, model.vocabulary, (length,), generator=luck)
    row[::3] = model.vocabulary  # hidden: 0, 3, 6, ..
    end = min(block, length) if block else length
    near, far = row.clone(), row.clone()
    place = next(index for index in reversed(range(end)) if index % 3)
    near[place] = (near[place] + 1) % model.vocabulary
    far[end:] = torch.where(far[end:] < model.vocabulary, (far[end:] + 1) % model.vocabulary, far[end:])
    first, moved, later = (_said(model, x, torch.tensor([0, 3])) for x in (row, near, far))
    scale = float(first.abs().max()) + 1
    if float((first - moved)[0].abs().max()) <= 1e-6 * scale:
        what = f"what it says of position 0 does not move with the token at {place}: it attends from left to right"
        raise UnmaskError(f"{model.name} is refused: {what}, and its card says that it sees both sides")
    if block and length > block and float((first - later).abs().max()) > 1e-3 * scale:
        what = f"what it says of its first block of {block} moves with the tokens behind it"
        raise UnmaskError(f"{model.name} is refused: {what}, and its card says that blocks see only those before them")


def _check_text(model: OpenModel, text: Tensor) -> None:
    places = torch.arange(EVERY // 2, len(text), EVERY)
    row = text.clone()
    row[places] = model.vocabulary
    states = _states(model, row[None])[0]
    truth = text[places]
    answers = places - model.shift
    beside = places - 1 if model.shift == 0 else places
    said = _loss(model, states[answers], truth)
    other = _loss(model, states[beside], truth)
    chance = KNOWS * math.log(model.vocabulary)
    if other < min(said - CLEAR, chance):
        before = "one place before it, as an AR model's does"
        where, card = (before, "same") if model.shift == 0 else ("at its own place", "shifted")
        _refuse(model, f"the answer for a token stands {where}", f"prediction is {card!r}", said, other)
    read = None if model.card.past == "causal" else _read(model, text)  # which reads as well as it writes
    if read is not None and read < min(said - 2 * CLEAR, chance):
        what = "it reads a text from left to right far better than it fills it in: these are an AR model's weights"
        _refuse(model, what, "it is a diffusion model", said, read)
    if said < SURE * math.log(model.vocabulary):
        return
    for some in _candidates(model).split(TOGETHER):
        rows = row.repeat(len(some), 1)
        rows[:, places] = some.unsqueeze(1)
        for candidate, states in zip(some.tolist(), _states(model, rows), strict=True):
            found = _loss(model, states[answers], truth)
            if found < min(said - CLEAR, chance):
                what = f"it answers to token {candidate} as to a mask"
                _refuse(model, what, f"the mask is {model.mask}", said, found)


def _refuse(model: OpenModel, what: str, card: str, said: float, found: float) -> None:
    losses = f"{found:.2f} nats a token of a text, and {said:.2f} as the card has it"
    raise UnmaskError(f"{model.name} is refused: {what} ({losses}), and its card says that {card}")


def _candidates(model: OpenModel) -> Tensor:
    """Other tokens that may be the mask: the last ones, where special tokens stand, and the first few."""
    last = range(model.vocabulary - 1, max(model.vocabulary - TRIED, 0) - 1, -1)
    every = dict.fromkeys((*last, *range(min(8, model.vocabulary))))
    return torch.tensor([token for token in every if token != model.mask])


def _said(model: OpenModel, row: Tensor, places: Tensor) -> Tensor:
    return model.body.logits(_states(model, row[None])[0, places - model.shift * (places > 0)]).double().cpu()


@torch.no_grad()
def _states(model: OpenModel, rows: Tensor) -> Tensor:
    """(B, L, hidden) of rows (B, L), with nothing remembered."""
    device, block = model.body.device, model.card.block
    tokens = torch.where(rows == model.vocabulary, model.mask, rows).to(device)
    place = torch.arange(rows.shape[1], device=device)
    seen = None if block is None else (place // block <= place.unsqueeze(1) // block)[None, None]
    return model.body.states(tokens, None, seen, None)


@torch.no_grad()
def _read(model: OpenModel, text: Tensor) -> float | None:
    """Nats a token, read from left to right; None where the body always sees all."""
    if model.body.sizes is None:
        return None
    device = model.body.device
    place = torch.arange(len(text), device=device)
    states = model.body.states(text.to(device)[None], None, (place <= place.unsqueeze(1))[None, None], None)[0]
    return _loss(model, states[:-1], text[1:])


@torch.no_grad()
def _loss(model: OpenModel, states: Tensor, truth: Tensor) -> float:
    logits = model.logits(states).float().cpu()
    return float(-torch.log_softmax(logits, -1).gather(1, truth.unsqueeze(1)).clamp(min=-1e4).mean())
