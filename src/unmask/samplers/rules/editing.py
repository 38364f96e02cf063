"""Editing: revealed tokens are replaced or hidden where the model now prefers another token.

Token to token is the rule of LLaDA2.1 (arXiv 2602.08676v3, and its published loop):

    reveal   where the drawn token is more probable than `threshold`; the `least` most probable if these are fewer
    edit     where another token than the revealed one is drawn, more probable than `editing`: it replaces the old one
    repeat   once a block is full, until a step edits nothing, and at most `post` times

Token to mask (to=mask, arXiv 2604.18738v2) hides the token instead, so that it is redrawn from a context without it.
Here a step hides fewer tokens than it reveals, the least likely ones, until the block is full: otherwise it might not
end. trigger="own" hides tokens less likely than 1 - editing, "other" those that would have been edited.

The marginal of a revealed position is given all other tokens (the paper's network also reads the token itself and is
trained to doubt it). LLaDA2.2 also inserts and deletes; a canvas of fixed length does not allow that. Inside blocks, as
published: blocks(block_length=32, inner=token-editing). The paper's temperature is 0; steps are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch

from unmask.core import arguments
from unmask.core.chance import MAX_VISIT
from unmask.core.errors import UnmaskError
from unmask.samplers.contract import SAMPLERS, Choice, Fraction, Sampler, Some
from unmask.samplers.ranking import Temperature, Ties, above, at_least, in_order, lowest
from unmask.samplers.view import View


@SAMPLERS.register("token-editing")
@dataclass(frozen=True)
class TokenEditing(Sampler):
    """LLaDA2.1: reveal by threshold, replace or hide tokens where the model prefers another; steps are not used."""

    pace = "free"
    revises = True
    threshold: Fraction = 0.95
    editing: Fraction = 0.9
    to: str = "token"
    trigger: str = "other"
    least: Some = 1
    post: Annotated[int, partial(arguments.whole, least=0, most=MAX_VISIT // 2)] = 16
    temperature: Temperature = 1.0
    ties: Ties = "chance"

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.word("way to edit", self.to, ("token", "mask"))
        arguments.word("trigger", self.trigger, ("other", "own"))
        if (self.to, self.trigger) == ("token", "own"):
            raise UnmaskError("trigger=own gives no replacement token; expected trigger=other. Or pass to=mask.")

    def choose(self, view: View) -> Choice:
        tokens = view.draw(self.temperature)
        sure = view.of(tokens)
        reveal = view.hidden & (above(view, sure, self.threshold) | (in_order(view, sure, self.ties) < self.least))
        full = view.revealed.any(1) & ~view.hidden.any(1)
        post = view.memory.get("post", torch.zeros_like(view.count)) + full

        hindsight = view.looking_back()
        own = hindsight.of(view.tokens)
        if self.trigger == "own":
            other, odds = tokens, sure
            wrong = hindsight.hidden & ~at_least(view, own, 1 - self.editing)
        else:
            other = hindsight.draw(self.temperature)
            odds = hindsight.of(other)
            wrong = hindsight.hidden & (other != view.tokens) & above(view, odds, self.editing)

        # a full block has more steps, as long as they change it
        view.memory["post"] = post
        filled = (view.hidden & ~reveal).sum(1) == 0
        stay = (reveal.any(1) | full & wrong.any(1)) & filled & (post < self.post)

        if self.to == "token":
            return Choice(reveal | wrong, torch.where(wrong, other, tokens), hide=wrong, stay=stay, odds=odds)
        most = torch.where(full, wrong.sum(1), reveal.sum(1) - 1)
        return Choice(reveal, tokens, hide=lowest(view, own, wrong, most, self.ties), stay=stay)
