"""Chains for which the fitted draw writes a worse distribution than the product, by ascent on their parameters.

    python -m benchmarks.joint_theory_search [--seconds 500]

p is what ancestral sampling writes: a mixture over all orders, enumerated. Tensors have an axis for each token,
(B, V, .., V), for B chains at once. The ascent is on KL(q || fitted) / KL(q || product), by Adam from random chains
with random forbidden moves. Each line is the best of B chains; `random` counts those that are worse at the start.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

SWEEPS, MANY = 25, 2000  # in the ascent; of the values that are shown
SCALE, RATE, WIDEST = 2.5, 0.08, 12.0  # of random logits; of Adam; and the limit of logits
SMALLEST = 1e-6  # SER and KL below which a chain does not count: there both draws are the same
SIZES = ((3, 2), (3, 3), (4, 3), (3, 4), (4, 4), (3, 5), (4, 5))  # symbols, tokens
CHAINS = {2: 64, 3: 48, 4: 24, 5: 8}


class Losses(NamedTuple):
    """Of B chains, in nats: KL(q || p) of both draws; and the SER of the product."""

    product: Tensor
    fitted: Tensor
    ser: Tensor


def chain(start: Tensor, moves: Tensor, length: int) -> Tensor:
    """(B, V, .., V): q of chains with start (B, V) and moves (B, V, V)."""
    q = start
    for t in range(1, length):
        q = q.unsqueeze(-1) * moves.view(len(moves), *[1] * (t - 1), *moves.shape[1:])
    return q


def total(mass: Tensor, places: Iterable[int]) -> Tensor:
    """The sum over these places, which stay as axes of size 1."""
    axes = tuple(place + 1 for place in places)
    return mass.sum(axes, keepdim=True) if axes else mass


def over(mass: Tensor, norm: Tensor) -> Tensor:
    """mass / norm, and 0 where the norm is 0."""
    return torch.where(norm > 0, mass / torch.where(norm > 0, norm, 1.0), 0.0)


def joints(q: Tensor, hidden: list[int], sweeps: int) -> tuple[Tensor, Tensor]:
    """The product and the fitted joint of the hidden places, given the tokens at all others."""
    others = {i: [j for j in hidden if j != i] for i in hidden}
    marginals = {i: over(total(q, others[i]), total(q, hidden)) for i in hidden}
    product = math.prod(marginals.values())
    fitted = torch.where(q > 0, product, 0.0)
    for _ in range(sweeps if len(hidden) > 1 else 0):
        for i in hidden:
            fitted = fitted * over(marginals[i], total(fitted, others[i]))
    return product, over(fitted, total(fitted, hidden))


def parts(places: list[int]) -> Iterator[tuple[int, ...]]:
    for size in range(1, len(places) + 1):
        yield from itertools.combinations(places, size)


def by_blocks(q: Tensor, sweeps: int) -> list[dict[int, Tensor]]:
    """For each draw, by the number of blocks: the sum of p(x | blocks) over ordered set partitions."""
    every = frozenset(range(q.dim() - 1))
    reached: list[dict[frozenset[int], dict[int, Tensor]]] = [{frozenset(): {0: torch.ones(())}} for _ in range(2)]
    for shown in sorted(map(frozenset, [(), *parts(sorted(every))]), key=len):
        hidden = sorted(every - shown)
        for own, joint in zip(reached, joints(q, hidden, sweeps) if hidden else (), strict=False):
            here = own.pop(shown)
            for block in parts(hidden):
                drawn = total(joint, set(hidden) - {*block})
                after = own.setdefault(shown | {*block}, {})
                for count, mass in here.items():
                    after[count + 1] = after.get(count + 1, 0.0) + mass * drawn
    return [own[every] for own in reached]


def losses(q: Tensor, steps: int, sweeps: int) -> Losses:
    length, found = q.dim() - 1, []
    for blocks in by_blocks(q, sweeps):
        # of N^L labels C(N, r) give an ordered partition into r blocks
        p = sum((math.comb(steps, r) / steps**length * mass for r, mass in blocks.items()), torch.zeros(()))
        log = torch.where(q > 0, q, 1.0).log() - torch.where(q > 0, p, 1.0).log()
        found += [(q * log).flatten(1).sum(1), 1 - torch.where(q > 0, p, 0.0).flatten(1).sum(1)]
    return Losses(found[0], found[2], found[1])


def ratio(one: Losses) -> Tensor:
    """(B): KL of the fitted draw over that of the product; 0 where both are too small."""
    counts = (one.ser > SMALLEST) & (one.product > SMALLEST)
    return torch.where(counts, one.fitted / torch.where(counts, one.product, 1.0), 0.0)


def climb(symbols: int, length: int, steps: int, seed: int, turns: int) -> str:
    """The worst chain of an ascent."""
    count, rng = CHAINS[length], torch.Generator().manual_seed(seed)
    dense = 0.4 + 0.5 * torch.rand((count, 1, 1), generator=rng)
    allowed = torch.rand((count, symbols, symbols), generator=rng) < dense
    allowed |= torch.eye(symbols, dtype=torch.bool)[torch.randperm(symbols, generator=rng)]  # no row is empty
    start = (SCALE * torch.randn((count, symbols), generator=rng)).requires_grad_()
    moves = (SCALE * torch.randn((count, symbols, symbols), generator=rng)).requires_grad_()
    optimizer = torch.optim.Adam([start, moves], lr=RATE)

    def law() -> Tensor:
        logits = torch.where(allowed, moves.clamp(-WIDEST, WIDEST), -torch.inf)
        return chain(start.clamp(-WIDEST, WIDEST).softmax(1), logits.softmax(2), length)

    with torch.no_grad():
        at_first = losses(law(), steps, MANY // 10)
        worse = int((ratio(at_first) > 1).sum())
    best, worst = torch.zeros(count), law().detach()
    for _ in range(turns):
        q = law()
        height = ratio(losses(q, steps, SWEEPS))
        higher = height.detach() > best
        best, worst[higher] = torch.maximum(best, height.detach()), q.detach()[higher]
        optimizer.zero_grad()
        (-torch.where(height > 0, height, 1.0).log().sum()).backward()
        for one in (start, moves):
            assert one.grad is not None
            one.grad.nan_to_num_()
        optimizer.step()

    with torch.no_grad():
        shown = losses(worst, steps, MANY)
    first = int(ratio(shown).argmax())
    most = float((shown.fitted - shown.product).max())
    values = f"KL {shown.fitted[first]:.4f} against {shown.product[first]:.4f}, SER {shown.ser[first]:.4f}"
    head = f"V={symbols} L={length} N={steps:2}: random {worse}/{count}"
    return f"{head}; ratio {ratio(shown)[first]:.4f} ({values}); largest difference {most:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=500, help="no ascent starts later")
    parser.add_argument("--turns", type=int, default=150)
    parser.add_argument("--steps", type=int, nargs="+", default=[2, 4, 16])
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    began = time.monotonic()
    for steps, (symbols, length) in itertools.product(args.steps, SIZES):
        if time.monotonic() - began < args.seconds:
            print(climb(symbols, length, steps, seed=1000 * length + steps, turns=args.turns), flush=True)


if __name__ == "__main__":
    main()
