"""What a network is trained on: for each row an unbiased estimate of its NELBO, in nats a sequence (theory.md 1).

An MDM, one position at a time in random order (N -> infinity), and in N rounds of a schedule:

    NELBO_inf(x) = L E_n E_{|M|=n} [ mean_{j in M} -log p(x_j | x_R) ],   n uniform in 1..L, M uniform, R the rest
    NELBO_N(x)   = L E_k E_M       [ mean_{j in M} -log p(x_j | x_R) ],   k ~ delta, M: one position, chosen uniformly,
                                                                          and each other one with probability 1 - p_k

Both are int (1/t) E_M[sum] dt and sum_k delta_k/(1-p_k) E_M[sum], the number of hidden positions drawn in proportion to
its weight times itself: so every estimate is L times a mean, where 1/t times a sum has infinite variance near t = 0.
Given n, the time is then Beta(n, L-n+1): it is the n-th least of L uniforms, and M are the positions of the n least.

An AR model: -log p(x) = sum_j -log p(x_j | x_<j), exactly.

Soft targets are the expectation of either over x_j ~ q(. | x_R), which an exact language knows: the cross-entropy to a
law in the place of a drawn token. It has the same minimiser, and the same gradient in expectation, without the noise of
the draw (laws.py).

Of a prompt, c tokens at the beginning that are always shown, nothing is learned: all of this is conditional on it, with
L - c in the place of L, and M among what stands behind it.

A language with an end pads what follows it. Both kinds write whole canvases, and are trained on the padding too, which
costs a trained network nothing; nats a token are nats over |x|, the tokens up to and including the first end.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from unmask.core.chance import Luck, Stream
from unmask.schedules import Schedule

FORCED, SPREAD = 1, 2  # visits of the uniforms that choose the position hidden for certain, and that spread masks
PERIOD = 6  # of masks that hide one position at a time, at most


class Network(Protocol):
    """A trunk, or one that is shared among processes."""

    def __call__(self, tokens: Tensor, asked: Tensor | None = None, time: Tensor | None = None) -> Tensor: ...


class Masks(NamedTuple):
    """What is hidden from an MDM: of each row the first `counts` of its positions in `order`."""

    order: Tensor  # (B, L)
    counts: Tensor  # (B), at least 1
    time: Tensor  # (B): when so many are hidden; for networks that are told

    def hide(self, tokens: Tensor, mask: int) -> Tensor:
        """tokens (B, L) with the mask where they are hidden."""
        ranks = torch.empty_like(self.order).scatter_(1, self.order, self._places.expand_as(self.order))
        return torch.where(ranks < self.counts.unsqueeze(1), mask, tokens)

    def mean(self, losses: Tensor) -> Tensor:
        """(B): means of losses (B, A), at the first A places of the order, over what is hidden."""
        counted = self._places[: losses.shape[1]] < self.counts.unsqueeze(1)
        return torch.where(counted, losses, 0.0).sum(1) / self.counts

    @property
    def _places(self) -> Tensor:
        return torch.arange(self.order.shape[1], device=self.order.device)


def draw_masks(luck: Luck, batch: int, length: int, delta: Tensor | None = None, prompt: int = 0) -> Masks:
    """Masks for the rows of the luck, of the NELBO at infinitely many rounds or for a schedule delta (N), behind a
    prompt of so many tokens.

    Low discrepancy: row r takes its number of hidden positions, or its round, from the (r mod batch)-th of `batch`
    equal parts of their distribution, so that every batch sees them all; within a batch they increase with the row.
    """
    labels, left = luck.grid(Stream.ORDER, length), length - prompt
    labels[:, :prompt] = torch.inf
    own = luck.grid(Stream.ORDER, 1, FORCED + 1).squeeze(1)
    share = (luck.row_ids % batch + own) / batch
    if delta is None:
        counts = 1 + (share * left).long().clamp(max=left - 1)
        ordered = labels.sort(1)
        return Masks(ordered.indices, counts, ordered.values.gather(1, counts.unsqueeze(1) - 1).squeeze(1))
    rounds = len(delta)
    k = torch.searchsorted(delta.cumsum(0), share, right=True).clamp(max=rounds - 1)
    forced = prompt + (luck.grid(Stream.ORDER, 1, FORCED) * left).long()
    labels.scatter_(1, forced, -1.0)
    counts = (labels < (1 - Schedule(delta).p)[k].unsqueeze(1)).sum(1).clamp(min=1)
    return Masks(labels.argsort(1), counts, 1 - k / rounds)


def spread_out(masks: Masks, luck: Luck, share: float, run: int = 1, prompt: int = 0) -> Masks:
    """Masks that hide, in so many of the rows, w positions side by side of every s: a curriculum.

    s is from 2 to 6, or to twice the longest run if that is more, and w from 1 to run and at most s/2. What is around a
    hidden position says most about it, and all of it is there. Random masks of few positions show it too, and have less
    to ask; of many, it is rarely whole. Of a run the ends are told by one side alone: where a symbol stands in two
    places, as the result of a sum that is the next one's operand, only a run makes a network compute it. For a start
    alone: it is no NELBO.
    """
    own = luck.grid(Stream.ORDER, 4, SPREAD)
    period = 2 + (own[:, :1] * (max(PERIOD, 2 * run) - 1)).long()
    first = (own[:, 1:2] * period).long()
    wide = 1 + (own[:, 3:] * (period // 2).clamp(max=run)).long()
    places = torch.arange(masks.order.shape[1])
    apart = (((places - first) % period >= wide) | (places < prompt)).long()
    order, counts = apart.argsort(dim=1, stable=True), (1 - apart).sum(1)
    chosen = (own[:, 2] < share) & (counts > 0)
    return Masks(
        torch.where(chosen.unsqueeze(1), order, masks.order),
        torch.where(chosen, counts, masks.counts),
        torch.where(chosen, counts.double() / (len(places) - prompt), masks.time),
    )


def masked_nats(
    network: Network,
    mask: int,
    tokens: Tensor,
    masks: Masks,
    most: int,
    timed: bool = False,
    laws: Tensor | None = None,
    prompt: int = 0,
) -> Tensor:
    """(B): L, less the prompt, times the mean of -log p(x_j | x_R) over what is hidden, at most `most` places of a row.

    With laws (B, most, V), those of the positions hidden, its expectation over x_j.
    """
    asked = masks.order[:, :most]
    logits = network(masks.hide(tokens, mask), asked, masks.time.float() if timed else None)
    return (tokens.shape[1] - prompt) * masks.mean(_surprise(logits, tokens.gather(1, asked) if laws is None else laws))


def causal_nats(network: Network, start: int, tokens: Tensor, laws: Tensor | None = None, prompt: int = 0) -> Tensor:
    """(B): the sum of -log p(x_j | x_<j) behind the prompt, or with laws (B, L, V) of its expectations over x_j."""
    return _surprise(network(follows(tokens, start)), tokens if laws is None else laws)[:, prompt:].sum(1)


def follows(tokens: Tensor, start: int) -> Tensor:
    """(B, L): the start and all tokens but the last, which is what an AR model reads."""
    return torch.cat([torch.full_like(tokens[:, :1], start), tokens[:, :-1]], 1)


def _surprise(logits: Tensor, truth: Tensor) -> Tensor:
    """-log p(truth) (B, A) by logits (B, A, V), at least in float32; its expectation where truth is a law (B, A, V)."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return functional.cross_entropy(logits.flatten(0, 1), truth.flatten(0, 1), reduction="none").view(truth.shape[:2])
