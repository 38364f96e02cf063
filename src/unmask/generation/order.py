"""The order in which positions were revealed: how many a step, and how near to left to right.

Of a row with n written positions, s_i is the step that revealed position i (the last such step if it was re-masked):

    tau            Kendall's tau-b of s_i with i: (C - D) / sqrt(m (m - t)), with m = n (n - 1) / 2 pairs of positions,
                   C revealed from left to right, D from right to left, and t in the same step
    tau_most       sqrt((m - t) / m): tau of left to right with the same number of positions in each step
    leftmost       fraction of steps that revealed the leftmost hidden position: the steps s_i > max(s_1, .., s_(i-1))
    leftmost_random   that fraction for a random order: the mean of (revealed positions) / (hidden positions)

The last step of a row takes all that remains, so `leftmost` leaves it out. Given tokens, padding, and positions behind
the end of a row are left out everywhere. tau and tau_most are means over the rows with at least two steps, the others
are of all steps, or tokens, together. Of many rows, MOST evenly spaced ones are profiled.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

Event = tuple[int, int, int | None, float | None]  # step, position, token (None: hidden again), its probability
LEFTMOST, TAU = 2 / 3, 0.9  # least `leftmost` and tau / tau_most of an order that is left to right in disguise
LEAST = 20  # steps that had a choice; with fewer there is no warning
MOST = 200  # rows of a profile
CERTAIN = 1 - 1e-6  # least probability of a certain token
LEFT_TO_RIGHT = ("autoregressive", "left-to-right", "speculative", "self-speculative")  # by design


@dataclass(frozen=True)
class OrderProfile:
    """The order of some rows; None where no row has such steps or tokens."""

    rows: int  # number of profiled rows
    tokens_per_step: float | None
    tau: float | None
    tau_most: float | None
    leftmost: float | None
    leftmost_random: float | None
    neighbours: float | None  # fraction of the steps of two or more tokens that revealed two neighbouring positions
    nats_per_token: float | None  # mean -log p of a token when it was drawn; its mean is the entropy, if p drew it
    certain: float | None  # fraction of tokens whose probability was 1 when they were drawn
    choices: int  # number of steps that had a choice: all but the last of each row
    sampler: str | None = None

    @property
    def disguised(self) -> bool:
        """Whether a sampler that can reveal in any order revealed from left to right."""
        by_design = (self.sampler or "").partition("(")[0] in LEFT_TO_RIGHT
        if by_design or self.choices < LEAST or self.leftmost is None or self.tau is None or self.tau_most is None:
            return False
        return self.leftmost >= LEFTMOST and self.tau >= TAU * self.tau_most

    @property
    def warning(self) -> str | None:
        """A sentence for an order that is left to right in disguise."""
        if not self.disguised:
            return None
        text = f"left to right in disguise: tau is {self.tau:.2f}, and {self.leftmost:.0%} of the steps revealed the"
        text += f" leftmost hidden position ({self.leftmost_random:.0%} for a random order)"
        if self.certain is not None and self.certain >= 0.5:
            equal = f"{self.certain:.0%} of the tokens had probability 1"
            text += f". {equal}: equal scores do not rank positions, so the way to break ties decides"
        return text

    @property
    def sentence(self) -> str:
        """The numbers for a reader."""
        if self.tokens_per_step is None:
            return "no tokens were written"
        parts = [f"{self.tokens_per_step:.3g} tokens per step"]
        if self.tau is not None:
            most = "" if self.tau_most is None or self.tau_most > 0.995 else f" of at most {self.tau_most:.2f}"
            parts.append(f"tau with left to right {self.tau:.2f}{most}")
        if self.leftmost is not None:
            parts.append(f"leftmost position in {self.leftmost:.0%} of steps (random: {self.leftmost_random:.0%})")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"warning": self.warning}


def order_profile(order: Tensor, probability: Tensor, sampler: str | None = None) -> OrderProfile:
    """The profile of rows by the step of each position (B, L), 0 where it is left out, and its probability (B, L)."""
    chosen = torch.linspace(0, len(order) - 1, min(len(order), MOST), dtype=torch.float64).long()
    order, probability = order[chosen], probability[chosen]
    written = order > 0
    taus, most, leftmost, choices, random, steps, several, beside = [], [], 0, 0, 0.0, 0, 0, 0
    for row, where in zip(order, written, strict=True):
        turns, sizes = row[where].unique(return_counts=True)
        steps += len(turns)
        several += int((sizes > 1).sum())
        beside += len(row[1:][where[1:] & (row[1:] == row[:-1])].unique())
        if len(turns) < 2:
            continue
        hidden = sizes.flip(0).cumsum(0).flip(0)  # before each step
        choices += len(turns) - 1
        random += float((sizes.double() / hidden)[:-1].sum())
        leftmost += len(row[where].cummax(0).values.unique()) - 1  # the last step is a maximum, too
        taus.append(_tau(row[where]))
        pairs = _pairs(sizes.sum())
        most.append(float(((pairs - _pairs(sizes).sum()) / pairs).sqrt()))
    p = probability[written]
    known = p[~p.isnan()]  # others are unknown
    return OrderProfile(
        rows=len(order),
        tokens_per_step=_mean(len(p), steps),
        tau=_mean(sum(taus), len(taus)),
        tau_most=_mean(sum(most), len(most)),
        leftmost=_mean(leftmost, choices),
        leftmost_random=_mean(random, choices),
        neighbours=_mean(beside, several),
        nats_per_token=_mean(-float(known.log().sum()), len(known)),
        certain=_mean(int((known >= CERTAIN).sum()), len(known)),
        choices=choices,
        sampler=sampler,
    )


def of_events(
    rows: Sequence[Sequence[Event]], length: int, sampler: str | None = None, ends: Collection[int] = ()
) -> OrderProfile:
    """The profile of rows by their events, without the positions behind the first of the tokens `ends` of each row."""
    order = torch.zeros((len(rows), length), dtype=torch.int64)
    probability = torch.ones(order.shape, dtype=torch.float64)
    tokens = torch.full_like(order, -1)
    for number, events in enumerate(rows):
        for step, position, token, p in events:
            order[number, position] = 0 if token is None else step
            tokens[number, position] = -1 if token is None else token
            probability[number, position] = torch.nan if p is None else p
    return order_profile(without_ends(order, tokens, ends), probability, sampler)


def without_ends(order: Tensor, tokens: Tensor, ends: Collection[int]) -> Tensor:
    """The order (B, L), 0 behind the first written end of each row of tokens (B, L)."""
    end = torch.isin(tokens, torch.tensor(sorted(ends), dtype=torch.int64)) & (order > 0)
    return torch.where(end.cumsum(1) - end.long() > 0, 0, order)


def _tau(turns: Tensor) -> float:
    """Kendall's tau-b of steps (n), at least two different ones, with their positions."""
    from scipy.stats import kendalltau

    return float(kendalltau(range(len(turns)), turns.numpy()).statistic)


def _pairs(number: Tensor) -> Tensor:
    return number.double() * (number - 1) / 2


def _mean(total: float, number: int) -> float | None:
    return total / number if number else None
