"""Compare the behaviour of a loaded model with its card: attention, shift, mask and kind.

    attention  a change of the last token changes the logits of an early one; block-causal: only within its block
    shift      the tokens of a text have a higher likelihood at the position that the card predicts them than next to it
    mask       no other special token as the mask gives a much higher likelihood of hidden tokens
    kind       an AR model predicts a text much better from left to right than as hidden tokens

The first test works for all weights. The others need weights that predict a text better than chance; otherwise they
pass. Only differences of at least one nat per token count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.models.open.model import OpenModel

CLEAR = 1.0  # nats per token
KNOWS, SURE = 0.8, 0.35  # times log V: losses that beat chance; losses at which no other mask is tried
EVERY, MOST = 6, 96  # one of EVERY tokens is hidden, in at most MOST tokens of a text
TRIED = 64  # other tokens that may be the mask
TOGETHER = 16  # of these in one model call
LENGTH = 12  # tokens that show whether attention is bidirectional
BESIDE = {"same": "at the previous position, as in an AR model", "shifted": "at its own position"}  # of a wrong card
TEXT = (
    "The sun was setting behind the hills when the old man came home from the market. He put his bag on the table, "
    "sat down by the window and looked at the garden. It had rained in the morning, and the leaves of the trees were "
    "still wet. His wife came in from the kitchen and asked him what he had bought. Bread, he said, and milk, and a "
    "book for the children, who will be here on Sunday."
)


def probe(model: OpenModel, text: Tensor | None = None) -> str:
    """Return the findings; an error if the model's behaviour differs from its card. text: tokens (L) of a test text."""
    if text is None and model.tokenizer is not None:
        with suppress(UnmaskError):  # the tokenizer may not be able to encode it
            text = torch.from_numpy(model.tokenizer.encode(TEXT)).long()

    first = _logits(model, torch.arange(min(8, model.length)) % model.vocabulary, torch.arange(min(2, model.length)))
    if not bool(first.isfinite().all()):
        _refuse(model, "its logits are not finite. Check its weights, or use --dtype float32")
    if model.card.causal:
        return "an AR model"

    _check_sight(model)
    findings = [f"attention {model.card.attention}", f"mask {_symbols(model, (model.mask,))}"]
    if any(model.card.frame):
        before, after = model.card.frame
        findings.append(f"frame {_symbols(model, before)} .. {_symbols(model, after)}")
    findings.append(f"{len(set(model.card.banned) - {model.mask})} other tokens never written")

    if text is not None and len(text) >= 2 * EVERY and int(text.max()) < model.vocabulary:
        loss = _check_text(model, text[: min(MOST, model.length)])
        chance = f"chance {math.log(model.vocabulary):.2f}"
        if loss is not None:
            findings.append(f"hidden tokens of an English text take {loss:.2f} nats each ({chance})")
    return ", ".join(findings)


def _symbols(model: OpenModel, tokens: Sequence[int]) -> str:
    """Tokens by their numbers, with their names if they are special ones."""
    names = {number: f"{name} ({number})" for name, number in getattr(model.tokenizer, "controls", {}).items()}
    return " ".join(names.get(one, str(one)) for one in tokens)


def _check_sight(model: OpenModel) -> None:
    block = model.card.block
    length = end = min(LENGTH, model.length)
    if block:
        length, end = min(2 * block, model.length), min(block, model.length)
    rng = torch.Generator().manual_seed(0)
    row = torch.randint(0, model.vocabulary, (length,), generator=rng)
    row[::3] = model.vocabulary  # hidden: 0, 3, 6, ..

    # near: one other token in the first block; far: other tokens behind it
    near, far = row.clone(), row.clone()
    changed = next(index for index in reversed(range(end)) if index % 3)
    near[changed] = (near[changed] + 1) % model.vocabulary
    far[end:] = torch.where(far[end:] < model.vocabulary, (far[end:] + 1) % model.vocabulary, far[end:])
    seen = torch.tensor([0, 3]).clamp(max=length - 1)

    first, moved, later = (_logits(model, x, seen) for x in (row, near, far))
    scale = float(first.abs().max()) + 1

    if float((first - moved)[0].abs().max()) <= 1e-6 * scale:
        problem = f"its logits at position 0 do not depend on the token at {changed}, so its attention is causal"
        _refuse(model, f"{problem}; expected bidirectional attention, as in its card")
    if block and length > block and float((first - later).abs().max()) > 1e-3 * scale:
        problem = f"its logits in the first block of {block} depend on later tokens"
        _refuse(model, f"{problem}; expected block-causal attention, as in its card")


def _check_text(model: OpenModel, text: Tensor) -> float | None:
    """Return nats per hidden token of a text; None if the model may write none of these tokens."""
    hidden = torch.arange(EVERY // 2, len(text), EVERY)
    hidden = hidden[~torch.isin(text[hidden], torch.tensor([model.mask, *model.card.banned]))]
    if not len(hidden):
        return None

    row = text.clone()
    truth = text[hidden]
    answers = hidden - model.shift
    row[hidden] = model.vocabulary
    states = _states(model, row[None])[0]
    loss = _loss(model, states[answers], truth)
    chance = KNOWS * math.log(model.vocabulary)

    def check(other: float, margin: float, problem: str, expected: str) -> None:
        if other < min(loss - margin, chance):
            losses = f"{other:.2f} nats per token of a text, {loss:.2f} with the settings of the card"
            _refuse(model, f"{problem} ({losses}); expected {expected}, as in its card")

    beside, prediction = _loss(model, states[hidden - 1 + model.shift], truth), model.card.prediction
    check(beside, CLEAR, f"a token is predicted {BESIDE[prediction]}", f"prediction {prediction!r}")

    if model.body.sizes is not None:
        position = torch.arange(len(text), device=model.body.device)
        states = _states(model, text[None], (position <= position.unsqueeze(1))[None, None])[0]
        problem = "it predicts a text much better from left to right than as hidden tokens, like an AR model"
        check(_loss(model, states[:-1], text[1:]), 2 * CLEAR, problem, "a diffusion model")

    if loss < SURE * math.log(model.vocabulary):
        return loss

    # the mask may be another special token
    last = range(model.vocabulary - 1, max(model.vocabulary - TRIED, 0) - 1, -1)  # often special tokens
    every = torch.tensor(list(dict.fromkeys((*last, *range(min(8, model.vocabulary))))))
    for some in every[every != model.mask].split(TOGETHER):
        rows = row.repeat(len(some), 1)
        rows[:, hidden] = some.unsqueeze(1)
        for candidate, states in zip(some.tolist(), _states(model, rows), strict=True):
            other = _loss(model, states[answers], truth)
            check(other, CLEAR, f"token {candidate} acts as its mask", f"mask {model.mask}")
    return loss


def _refuse(model: OpenModel, problem: str) -> NoReturn:
    raise UnmaskError(f"{model.name} is refused: {problem}")


@torch.no_grad()  # weights of a foreign network may ask for gradients
def _logits(model: OpenModel, row: Tensor, positions: Tensor) -> Tensor:
    return model.body.logits(_states(model, row[None])[0, positions - model.shift * (positions > 0)]).double().cpu()


@torch.no_grad()
def _states(model: OpenModel, rows: Tensor, seen: Tensor | None = None) -> Tensor:
    """States (B, L, hidden) of rows (B, L), without a cache; with the attention of the card, unless it is given."""
    device, block = model.body.device, model.card.block
    tokens = torch.where(rows == model.vocabulary, model.mask, rows).to(device)
    if seen is None and block is not None:
        position = torch.arange(rows.shape[1], device=device)
        seen = (position // block <= position.unsqueeze(1) // block)[None, None]
    return model.body.states(tokens, None, seen, None)


@torch.no_grad()
def _loss(model: OpenModel, states: Tensor, truth: Tensor) -> float:
    logits = model.logits(states).float().cpu()
    return float(-torch.log_softmax(logits, -1).gather(1, truth.unsqueeze(1)).clamp(min=-1e4).mean())
