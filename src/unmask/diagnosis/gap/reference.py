"""The loss by the order, the variety, and the steps that are needed: the reference of a gap.

If a model contradicts itself, the order of its tokens matters, and can lead to few, similar sequences. With x written
by the sampler one token at a time, which has probability C(x), and s a uniformly random order,

    order loss = E_C[log C(x) - E_s log c_s(x)] = E_s KL(C || c_s) >= KL(C || E_s c_s) >= 0

So its estimate, which is unbiased, is of an upper bound for the divergence from random orders. It is 0 for a model
whose conditionals are those of one distribution. E_s log c_s(x) is the area under the loss curve of a row, from LOOKS
random parts of it. With x from c_s the same formula measures the contradictions of random orders.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core.estimates import LEAST, Estimate
from unmask.core.means import exceeds, interval
from unmask.denoisers import Denoiser
from unmask.diagnosis.gap.path import Path
from unmask.diagnosis.loss_curve import looked
from unmask.metrics.windows import Variety, variety
from unmask.samplers import Generation, Sampler, generate

Steps = dict[float, tuple[int, int]]  # by nats per token: steps of random positions, and at most
ROWS, LOOKS = 20, 16
TARGETS = (0.1, 0.01, 0.001)  # nats per token
ALIKE = 0.05  # a smaller difference of the mean pairwise identity is no loss of variety
COPIES = 0.95  # two sequences with this fraction of equal tokens are nearly the same
RANDOM = ("ancestral", "fixed-size", "first-hitting")  # samplers of uniformly random orders


@dataclass(frozen=True)
class Reference:
    """Some rows of the sampler beside those of random orders, one token at a time."""

    rows: int
    variety: Variety  # of the sampler's rows
    random: Variety  # of random orders
    order: Estimate | None  # order loss, nats per sequence; None if the sampler has no serial order
    itself: Estimate | None  # that of random orders
    steps: Steps
    differ: Estimate | None  # tokens per sequence that change if greedy decoding is done one at a time
    model_calls: int

    @property
    def collapsed(self) -> bool:
        """Whether the sequences are more alike than those of random orders, beyond noise."""
        return self.rows >= LEAST and exceeds(self.variety.identity, self.random.identity, ALIKE)

    @property
    def costs(self) -> bool:
        """Whether the order loses more than random orders, beyond noise."""
        return self.order is not None and self.itself is not None and exceeds(self.order, self.itself)

    @property
    def contradicts(self) -> bool:
        """Whether random orders lose nats against each other, beyond noise: the model contradicts itself."""
        return self.itself is not None and self.itself.low > 0

    @property
    def near_copies(self) -> bool:
        """Whether two sequences are nearly the same, and those of random orders are not."""
        return self.variety.closest >= COPIES > self.random.closest + ALIKE

    @property
    def pairs(self) -> list[tuple[str, Estimate | str, Estimate | str | None]]:
        """The numbers of the sampler and of random orders, by their names."""
        own, other, of = self.variety, self.random, f"of {self.rows}"
        rows: list[tuple[str, Estimate | str | None, Estimate | str | None]] = [
            ("order loss, nats, at most", self.order, self.itself),
            ("distinct sequences", f"{own.distinct} {of}", f"{other.distinct} {of}"),
            ("most alike two sequences", f"{own.closest:.0%} equal tokens", f"{other.closest:.0%}"),
            ("entropy at a position, nats", f"{own.entropy:.3g}", f"{other.entropy:.3g}"),
            ("mean pairwise identity", own.identity, other.identity),
            ("tokens that change per sequence", self.differ, None),
        ]
        return [(name, one, random) for name, one, random in rows if one is not None]


def reference(denoiser: Denoiser, path: Path, sampler: Sampler | None, greedy: bool, seed: int, rows: int) -> Reference:
    """Measure some rows of a path, evenly taken from all, with the same given tokens.

    sampler: that chose positions before it drew tokens; None: unknown, or another."""
    which = torch.arange(rows) * len(path.given) // rows
    given, valid, final, drawn = (part[which] for part in (path.given, path.valid, path.final, path.drawn))
    free = (given == path.vocabulary) & valid
    counts = free.sum(1)
    groups = path.groups[which]
    grid = denoiser.grid
    even = bool((counts == counts[0]).all())

    def lines(tokens: Tensor) -> list[Tensor]:
        return [row[there] for row, there in zip(tokens, valid, strict=True)]

    def write(sampler: str | Sampler, steps: int) -> Generation:
        return generate(denoiser, sampler=sampler, steps=steps, seed=seed, given=lines(given), first_row=which.tolist())

    random = "first-hitting" if grid is None else f"blocks(block_length={grid}, inner='first-hitting')"
    parts = [write(random, int(counts.max()))]

    if sampler is not None and even and (greedy or sampler.spec not in RANDOM):
        one = write(sampler, int(counts[0]))
        if bool((one.order.amax(1) == counts).all()):  # one token in each step
            parts.append(one)

    calls = sum(int(one.model_calls.sum()) for one in parts)
    steps = Steps()
    order = itself = differ = None
    if greedy and len(parts) > 1:
        differ = interval(((parts[1].tokens != final) & drawn).sum(1).double(), groups, 0.0)

    # the curve of random parts is that of rows of one length, filled without blocks
    elif even and grid is None and not greedy:
        losses = []
        for one in parts:
            curve = looked(denoiser, lines(one.tokens), LOOKS, seed, lines(given))
            nats = torch.where(free, one.probability, 1.0).double().log().sum(1)
            losses.append(_order_loss(nats + curve.areas, groups))
            calls += curve.model_calls
            if not steps and bool(curve.losses.isfinite().all()):
                steps = {target: curve.needed(target * curve.length) for target in TARGETS}

        itself = losses[0]
        if sampler is not None and (len(parts) > 1 or sampler.spec in RANDOM):
            order = losses[-1]
    return Reference(rows, variety(final, drawn), variety(parts[0].tokens, free), order, itself, steps, differ, calls)


def _order_loss(values: Tensor, groups: Tensor) -> Estimate:
    """The mean, infinite if a random order cannot write a row."""
    if bool(values.isfinite().all()):
        return interval(values, groups)
    return Estimate(math.inf, math.inf, math.inf, len(values), method="a row is impossible in a random order")
