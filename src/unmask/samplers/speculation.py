"""What becomes of drafts once they are verified: kept up to the first refusal, which is replaced (theory.md 10).

    keep y_j with probability min(1, a_j(y_j) / d_j(y_j)); at the first refusal draw from (a_j - d_j)+ and stop

d_j being what the draft was drawn from and a_j the target. What is written then follows the target's law, whatever the
drafts are.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core.chance import Stream
from unmask.denoisers import Marginals
from unmask.samplers.session import Session


class Drafts(NamedTuple):
    """K places of each row in the order in which they are decided, and what was drafted there."""

    places: Tensor  # (B, K)
    inside: Tensor  # Bool (B, K): which of them there are, the first ones of a row
    tokens: Tensor  # (B, K), V where there is none
    said: Marginals  # of the places inside, row by row: what they were drawn from
    visits: Tensor  # (B, K): earlier draws there

    @classmethod
    def of(cls, session: Session, places: Tensor, inside: Tensor, time: Tensor | None = None) -> Drafts:
        """Drawn in one look at the canvas; positions of a row's places must not repeat."""
        canvas = session.canvas
        places = torch.where(inside, places, 0)
        rows = inside.nonzero(as_tuple=True)[0]
        visits = canvas.visits.gather(1, places)
        said = canvas.at(rows, places[inside], time)
        tokens = torch.full(places.shape, canvas.vocabulary)
        tokens[inside] = canvas.draw(said, rows, places[inside])
        return cls(places, inside, tokens, said, visits)


def numbered(mask: Tensor) -> Tensor:
    """(B, K): the how-manieth that is true, row by row and from 0, where mask, Bool (B, K), is true."""
    return mask.reshape(-1).cumsum(0).view_as(mask) - 1


def verify_jointly(session: Session, drafts: Drafts, target: Marginals, turn: int) -> tuple[Tensor, Tensor]:
    """As `verify`, of drafts that are all checked, by their block (arXiv 2403.10444v3):

        r_0 = 1,  r_i = min(1, r_(i-1) a_i(y_i) / d_i(y_i)),    m_i = sum_v (r_i a_(i+1)(v) - d_(i+1)(v))+
        keep the largest i with u_i < m_i / (m_i + 1 - r_i), and all if u_K < r_K;  then draw from (r_i a - d)+

    The law is the same, and no fewer are kept: a likely token makes up for an unlikely one before it.
    """
    places, inside, tokens, said, visits = drafts
    u = session.luck.uniform(Stream.ACCEPT, torch.arange(len(places)).unsqueeze(1), places, visits)
    number, count = numbered(inside), inside.sum(1)
    chance, drafted = torch.ones((2, *places.shape), dtype=torch.float64)
    chance[inside], drafted[inside] = target.of(tokens[inside]), said.of(tokens[inside])
    ratio = torch.ones_like(count, dtype=torch.float64)  # r_i (B)
    ratios, accepted = [ratio], torch.zeros_like(count)
    for i in range(places.shape[1]):
        ratio = (ratio * chance[:, i] / drafted[:, i]).clamp(max=1)
        keep = ratio.clone()
        if len(row := (count > i + 1).nonzero().squeeze(1)):
            following = number[row, i + 1]
            spare = target[following].excess(said[following], ratio[row])
            keep[row] = (spare / (spare + 1 - ratio[row])).nan_to_num(0.0)
        accepted = torch.where(inside[:, i] & (u[:, i] < keep), i + 1, accepted)
        ratios.append(ratio)
    row, column = (torch.arange(places.shape[1]) < accepted.unsqueeze(1)).nonzero(as_tuple=True)
    session.write(row, places[row, column], tokens[row, column], chance[row, column], turn)

    replaced = torch.full_like(accepted, session.denoiser.vocabulary)
    row = (accepted < count).nonzero().squeeze(1)
    if len(row):
        column = accepted[row]
        law = target[number[row, column]]
        rest = law.beyond(said[number[row, column]], torch.stack(ratios, 1)[row, column])
        positions = places[row, column]
        replaced[row] = rest.draw(session.luck.uniform(Stream.RESIDUAL, row, positions))
        session.write(row, positions, replaced[row], law.of(replaced[row]), turn)
    return accepted, replaced


def verify(session: Session, drafts: Drafts, checked: Tensor, target: Marginals, turn: int) -> tuple[Tensor, Tensor]:
    """Write what the drafts become, in this round: how many of each row (B) are kept, and the token (B) that replaces
    the first that is refused, V where none is.

    checked, Bool (B, K): the places that the target speaks of, row by row; at all others it says what the draft said.
    """
    places, inside, tokens, said, visits = drafts
    u = session.luck.uniform(Stream.ACCEPT, torch.arange(len(places)).unsqueeze(1), places, visits)
    chance = torch.zeros(places.shape, dtype=torch.float64)
    chance[inside] = said.of(tokens[inside])
    kept = inside.clone()
    theirs = target.of(tokens[checked])
    kept[checked] = u[checked] * chance[checked] < theirs
    chance[checked] = theirs
    accepted = kept.long().cumprod(1).sum(1)
    row, column = (torch.arange(places.shape[1]) < accepted.unsqueeze(1)).nonzero(as_tuple=True)
    session.write(row, places[row, column], tokens[row, column], chance[row, column], turn)

    replaced = torch.full_like(accepted, session.denoiser.vocabulary)
    row = (accepted < inside.sum(1)).nonzero().squeeze(1)
    if len(row):
        column = accepted[row]
        law = target[numbered(checked)[row, column]]
        rest = law.beyond(said[numbered(inside)[row, column]])
        positions = places[row, column]
        replaced[row] = rest.draw(session.luck.uniform(Stream.RESIDUAL, row, positions))
        session.write(row, positions, replaced[row], law.of(replaced[row]), turn)
    return accepted, replaced
