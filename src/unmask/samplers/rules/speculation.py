"""Verification of drafts: keep them up to the first rejection, which is replaced (theory.md 10).

    keep y_j with probability min(1, a_j(y_j) / d_j(y_j)); at the first rejection draw from (a_j - d_j)+ and stop

d_j is the distribution of the draft and a_j the target. The output follows the target distribution for any drafts.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core.chance import Stream
from unmask.denoisers import Marginals
from unmask.samplers.session import Session


class Drafts(NamedTuple):
    """K drafted positions of each row in the order in which they are decided."""

    places: Tensor  # (B, K)
    inside: Tensor  # Bool (B, K): the existing ones, which come first in a row
    tokens: Tensor  # (B, K), V elsewhere
    marginals: Marginals  # of the positions inside, row by row: the distributions of the drafts
    visits: Tensor  # (B, K): earlier draws there

    @classmethod
    def of(cls, session: Session, places: Tensor, inside: Tensor, time: Tensor | None = None) -> Drafts:
        """Draw drafts in one model call; the positions of a row must not repeat."""
        canvas = session.canvas
        places = torch.where(inside, places, 0)
        rows = inside.nonzero(as_tuple=True)[0]
        visits = canvas.visits.gather(1, places)
        marginals = canvas.at(rows, places[inside], time)
        tokens = torch.full(places.shape, canvas.vocabulary)
        tokens[inside] = canvas.draw(marginals, rows, places[inside])
        return cls(places, inside, tokens, marginals, visits)


def numbered(mask: Tensor) -> Tensor:
    """(B, K): where mask, Bool (B, K), is true, the count of earlier true entries, row by row."""
    return mask.reshape(-1).cumsum(0).view_as(mask) - 1


def verify_jointly(session: Session, drafts: Drafts, target: Marginals, turn: int) -> tuple[Tensor, Tensor]:
    """Like `verify`, with all drafts checked jointly as a block (arXiv 2403.10444v3):

        r_0 = 1,  r_i = min(1, r_(i-1) a_i(y_i) / d_i(y_i)),    m_i = sum_v (r_i a_(i+1)(v) - d_(i+1)(v))+
        keep the largest i with u_i < m_i / (m_i + 1 - r_i), and all if u_K < r_K;  then draw from (r_i a - d)+

    The distribution is the same, and no fewer drafts are kept: likely tokens compensate for unlikely ones.
    """
    places, inside, tokens, sources, visits = drafts
    u = session.rng.uniform(Stream.ACCEPT, torch.arange(len(places)).unsqueeze(1), places, visits)
    number, count = numbered(inside), inside.sum(1)
    chance, drafted = torch.ones((2, *places.shape), dtype=torch.float64)
    chance[inside], drafted[inside] = target.of(tokens[inside]), sources.of(tokens[inside])
    ratio = torch.ones_like(count, dtype=torch.float64)  # r_i (B)
    ratios, accepted = [ratio], torch.zeros_like(count)
    for i in range(places.shape[1]):
        ratio = (ratio * chance[:, i] / drafted[:, i]).clamp(max=1)
        keep = ratio.clone()
        if len(row := (count > i + 1).nonzero().squeeze(1)):
            following = number[row, i + 1]
            spare = target[following].excess(sources[following], ratio[row])
            keep[row] = (spare / (spare + 1 - ratio[row])).nan_to_num(0.0)
        accepted = torch.where(inside[:, i] & (u[:, i] < keep), i + 1, accepted)
        ratios.append(ratio)
    spare_of = torch.stack(ratios, 1)
    return _write(session, drafts, accepted, turn, chance, target, number, spare_of)


def verify(session: Session, drafts: Drafts, checked: Tensor, target: Marginals, turn: int) -> tuple[Tensor, Tensor]:
    """Write the accepted drafts in this step, and a replacement of the first rejected one.

    Return the number of accepted drafts of each row (B), and the replacement (B), V where all are accepted.

    checked, Bool (B, K): the positions that the target covers, row by row; all others are accepted.
    """
    places, inside, tokens, sources, visits = drafts
    u = session.rng.uniform(Stream.ACCEPT, torch.arange(len(places)).unsqueeze(1), places, visits)
    chance = torch.zeros(places.shape, dtype=torch.float64)
    chance[inside] = sources.of(tokens[inside])
    keep = inside.clone()
    expected = target.of(tokens[checked])
    keep[checked] = u[checked] * chance[checked] < expected
    chance[checked] = expected
    accepted = keep.long().cumprod(1).sum(1)
    return _write(session, drafts, accepted, turn, chance, target, numbered(checked))


def _write(
    session: Session,
    drafts: Drafts,
    accepted: Tensor,
    turn: int,
    chance: Tensor,
    target: Marginals,
    number: Tensor,
    ratios: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Write accepted drafts (B) of probability chance (B, K); replace the next one, whose target is number (B, K)."""
    places, inside, tokens, sources, _ = drafts
    row, column = (torch.arange(places.shape[1]) < accepted.unsqueeze(1)).nonzero(as_tuple=True)
    session.write(row, places[row, column], tokens[row, column], chance[row, column], turn)

    replaced = torch.full_like(accepted, session.denoiser.vocabulary)
    row = (accepted < inside.sum(1)).nonzero().squeeze(1)
    if len(row):
        column = accepted[row]
        distribution = target[number[row, column]]
        source = sources[numbered(inside)[row, column]]
        rest = distribution.beyond(source) if ratios is None else distribution.beyond(source, ratios[row, column])
        positions = places[row, column]
        replaced[row] = rest.draw(session.rng.uniform(Stream.RESIDUAL, row, positions))
        session.write(row, positions, replaced[row], distribution.of(replaced[row]), turn)
    return accepted, replaced
