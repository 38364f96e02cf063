"""Repair: revealed tokens are replaced, hidden again or redrawn.

Editing: revealed tokens are replaced or hidden where the model now prefers another token.

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

WINO: wide in, narrow out (arXiv 2507.18578v2, by the authors' published code).

In each step draw a token for every hidden position, and reveal all above a low threshold, at least the most probable
one. Re-mask revealed tokens that are now less probable, given all others, than a high threshold:

    wide    p(y_j | x_R) > threshold          narrow    p(x_j | x_(R - j)) < back

Both come from one model call. The published code gets p without j's own token from a second, hidden copy of the block,
which reads all but its own position: one forward of L + block positions per step, counted as one. `model_calls` counts
the same for hollow models, such as exact ones; for others each revealed position is one more.

    capped    as in the code, not in its abstract: at most 70% of the hidden positions are revealed, from 5 to 20; a
              step that reveals one re-masks none; and fewer are re-masked than the step before has revealed, 30 before
              the first. capped=False: only the condition that fewer are re-masked than revealed, so that it ends.

Within blocks, as published: blocks(block_length=128, inner=wino). The paper's temperature is 0; steps are not used.

Gibbs sweeps (theory.md 10): after a base sampler, positions are hidden again and redrawn given all others.

    for each of `sweeps`: for each position from left to right: hide x_j, draw it from p(. | x_-j)

With an ideal denoiser each draw preserves the language's distribution, so sweeps bring any base closer to it; an
impossible sequence may stay impossible. `stride` s > 0 redraws the positions j = k mod s together, for k = 0..s-1: this
is exact if positions s apart are independent given the rest. Each draw of a row is a model call: L or s per sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch

from unmask.core import arguments
from unmask.core.chance import MAX_VISIT
from unmask.core.errors import UnmaskError
from unmask.samplers.contract import (
    CANVAS,
    SAMPLERS,
    Choice,
    Flag,
    Fraction,
    Places,
    Reads,
    Sampler,
    Some,
    check_inner,
    inner_of,
)
from unmask.samplers.loops import fill
from unmask.samplers.ranking import Temperature, Ties, above, at_least, in_order, lowest
from unmask.samplers.session import Session
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


FRACTION, FEWEST, MOST, FIRST = 0.7, 5, 20, 30


@SAMPLERS.register("wino")
@dataclass(frozen=True)
class Wino(Sampler):
    """WINO: reveal by a low threshold, re-mask by a high one; steps are not used."""

    pace = "free"
    revises = True
    threshold: Fraction = 0.6
    back: Fraction = 0.9
    capped: Flag = True
    temperature: Temperature = 1.0
    ties: Ties = "chance"

    def choose(self, view: View) -> Choice:
        tokens = view.draw(self.temperature)
        sure = view.of(tokens)
        place = in_order(view, sure, self.ties)
        wide = view.hidden & (above(view, sure, self.threshold) | (place == 0))

        earlier = view.memory.get("earlier", torch.zeros_like(view.count))
        if self.capped:
            most = (view.hidden.sum(1).float() * FRACTION).long().clamp(FEWEST, MOST)
            wide &= place < most.unsqueeze(1)

        # how many may be hidden: fewer than the step has revealed, or than the one before it
        number = wide.sum(1)
        revealed = number
        if self.capped:
            revealed = torch.where(earlier > 0, earlier, FIRST)
        fewer = torch.where(number > 1, revealed - 1, 0)
        view.memory["earlier"] = torch.where(number > 0, number, earlier)

        hindsight = view.looking_back((fewer > 0).unsqueeze(1))
        own = hindsight.of(view.tokens)
        doubted = hindsight.hidden & ~at_least(view, own, self.back)
        return Choice(wide, tokens, hide=lowest(view, own, doubted, fewer, self.ties))


@SAMPLERS.register("gibbs")
@dataclass(frozen=True)
class Gibbs(Sampler):
    """Another sampler, then sweeps that hide each position again and redraw it given all others."""

    inner: str | Sampler = "ancestral"
    sweeps: Annotated[int, partial(arguments.whole, least=0, most=MAX_VISIT // 2)] = 1
    stride: Places = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_inner(self)

    @property
    def reads(self) -> frozenset[Reads]:
        return inner_of(self).reads | CANVAS

    @property
    def revises(self) -> bool:
        return True

    @property
    def chooses_before_drawing(self) -> bool:
        return inner_of(self).chooses_before_drawing

    def run(self, session: Session) -> None:
        fill(inner_of(self), session)
        session.planned = False
        canvas = session.canvas
        drawn = session.hidden & ~session.settled.unsqueeze(1)
        last = session.order.amax(1)
        size = drawn.shape[1]
        time = None if canvas.time_free else torch.full((len(drawn),), 1 / size, dtype=torch.float64)

        stride = min(self.stride or size, size)
        groups = [torch.arange(k, size, stride) for k in range(stride)]
        groups = [group for group in groups if bool(drawn[:, group].any())]
        for _ in range(self.sweeps):
            for group in groups:
                rows, columns = drawn[:, group].nonzero(as_tuple=True)
                positions = group[columns]
                last = last + drawn[:, group].any(1)
                session.hide(rows, positions, last[rows])

                marginals = canvas.at(rows, positions, time)
                tokens = canvas.draw(marginals, rows, positions)
                session.write(rows, positions, tokens, marginals.of(tokens), last[rows])
