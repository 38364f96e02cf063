"""The distributions that decoders should write, and those of the rules in their code, on the tiny language.

A law maps (network, length, steps) to the probability of every sequence. Nothing here is code of an engine: each is the
rule as we read it, written again, so that the rows of the engine can contradict it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch

from benchmarks.engines.cases import Law
from benchmarks.engines.networks import Filtered
from benchmarks.engines.rules import Change, Score, View, above, anywhere, best, certain, drawn, each, renoised, written

Block = Callable[[int], int]  # length -> positions of a block


def evenly(score: Score = drawn, greedy: bool = False, block: Block = lambda length: length, steps: int = 0) -> Law:
    """The same number of positions in each step, those with the largest scores; steps: per block, if they are fixed."""

    def law(network, length, number):
        each_block = steps or number
        return written(network, length, best([block(length) // each_block] * each_block, score), greedy, block(length))

    return law


def at_random(network, length, steps):
    """The same number of random positions in each step."""
    return written(network, length, anywhere([length // steps] * steps))


def gated(
    threshold: float,
    score: Score = drawn,
    greedy: Any = False,
    block: Block = lambda length: length,
    slack: float = 0,
) -> Law:
    """All draws above the threshold, or the best one, and with it those within the slack."""
    rule = above(threshold, score=score, slack=slack)
    return lambda network, length, _: written(network, length, rule, greedy, block(length))


def within(nucleus: float, law: Law) -> Law:
    """The law of a loop that draws and scores within the most likely tokens up to this sum."""
    return lambda network, length, steps: law(Filtered(network, nucleus), length, steps)


def one_after_block(threshold: float, argmax: bool) -> Law:
    """All but the last position as `gated`, then the last: the first token of the next block; argmax: not drawn."""

    def law(network, length, _):
        rule = above(threshold)

        def in_order(view: View) -> Iterator[tuple[float, Change]]:
            last = length - 1
            yield from rule(view._replace(hidden=[i for i in view.hidden if i != last] or view.hidden))

        return written(network, length, in_order, greedy=lambda i: argmax and i == length - 1)

    return law


def top_two(network, length, steps):
    """`ancestral` with top_k = 2 of the tokens, in N + 1 steps."""

    def two(view: View) -> Iterator[tuple[float, Change]]:
        inside = {i: set(np.argsort(-view.p[i])[:2].tolist()) for i in view.hidden}
        if any(v not in inside[i] for i, v in view.drawn.items()):
            return
        share = math.prod(view.p[i][list(tokens)].sum() for i, tokens in inside.items())
        for chance, change in each([1 / (steps + 1 - k) for k in range(steps + 1)])(view):
            yield chance / share, change

    return written(network, length, two)


def ancestral(network, length, steps):
    """Each position in its own random step, of N equally likely ones."""
    return written(network, length, each([1 / (steps - k) for k in range(steps)]))


def one_more(last: str) -> Law:
    """The same in N + 1 steps; last: whether their last step draws."""
    return lambda network, length, steps: written(
        network, length, each([1 / (steps + 1 - k) for k in range(steps + 1)], last)
    )


# Dream: times from 1 to eps


def dream_rates(steps: int, eps: float = 1e-3) -> list[float]:
    times = torch.linspace(1, eps, steps + 1, dtype=torch.float64).tolist()
    return [1 - s / t for t, s in pairwise(times[:-1])] + [1.0]


def dream_origin(greedy: bool) -> Law:
    return lambda network, length, steps: written(network, length, each(dream_rates(steps)), greedy)


def dream_rounded_down(network, length, steps):
    left, counts = length, []
    for rate in dream_rates(steps):
        counts.append(int(left * rate))
        left -= counts[-1]
    return written(network, length, best(counts, certain))


# ReMDM: revealed positions are hidden again


def remasked(eta: float, rescale: bool = False, nucleus: float = 1.0, crossing: bool = True, eps: float = 1e-5) -> Law:
    """From t to s a token is hidden with probability sigma, a hidden one drawn so that a fraction 1 - s is revealed.

    crossing: whether the token that crosses the nucleus is kept.
    """

    def law(network, length, steps):
        def rule(view: View) -> Iterator[tuple[float, Change]]:
            if view.step == steps:
                yield 1.0, {i: int(view.p[i].argmax()) for i in view.hidden}
                return
            inside = [_nucleus(view.p[i], nucleus, crossing) for i in view.hidden]
            if any(view.drawn[i] not in tokens for i, tokens in zip(view.hidden, inside, strict=True)):
                return
            share = math.prod(view.p[i][list(tokens)].sum() for i, tokens in zip(view.hidden, inside, strict=True))
            before, after = ((1 - eps) * (view.step + k) / steps for k in (0, 1))
            most = min(1.0, (1 - after) / before) if before else 1.0
            sigma = eta * most if rescale else min(eta, most)
            rates = [
                (after - (1 - sigma) * before) / (1 - before) if i in view.hidden else sigma for i in range(length)
            ]
            for flags in product([False, True], repeat=length):
                chance = math.prod(p if flag else 1 - p for p, flag in zip(rates, flags, strict=True)) / share
                if chance:
                    yield chance, {i: view.drawn.get(i, network.vocabulary) for i, flag in enumerate(flags) if flag}

        return written(network, length, rule, steps=steps + 1)

    return law


def _nucleus(p: np.ndarray, nucleus: float, crossing: bool) -> set[int]:
    """The most likely tokens up to this sum, at least one; crossing: and the one that crosses it."""
    total, tokens = 0.0, set[int]()
    for v in np.argsort(-p):
        if tokens and (total >= nucleus if crossing else total + p[v] > nucleus):
            break
        tokens.add(int(v))
        total += p[v]
    return tokens


def hidden_again(greedy: bool, number: int = 1, again: int = 1) -> Law:
    """ParallelBench: the most probable draws; after 7/8 of them, the least probable are hidden and drawn again."""

    def law(network, length, steps):
        turns = [("reveal", length // steps)] * steps
        turns[int(length * 7 / 8) : int(length * 7 / 8)] = [("hide", number), ("reveal", number)] * again

        def rule(view: View) -> Iterator[tuple[float, Change, tuple[float, ...]]]:
            (turn, count), known = turns[view.step], view.memory or (math.inf,) * length
            if turn == "reveal":
                change = view.reveal(sorted(view.hidden, key=lambda i: -view.of(i))[:count])
                scores = {i: view.of(i) for i in change}
            else:
                change = dict.fromkeys(sorted(range(length), key=known.__getitem__)[:count], network.vocabulary)
                scores = dict.fromkeys(change, math.inf)
            yield 1.0, change, tuple(scores.get(i, old) for i, old in enumerate(known))

        return written(network, length, rule, greedy, steps=len(turns))  # type: ignore[arg-type]

    return law


def two_largest(network, length, steps):
    """xlm-core with top_k = 2: softmax of the two largest weights, p / (N + 1) and t - 1 / (N + 1) of the mask."""

    def rule(view: View) -> Iterator[tuple[float, Change]]:
        if view.step == steps:
            yield 1.0, {i: int(view.p[i].argmax()) for i in view.hidden}
            return
        options = []
        for i in view.hidden:
            weights = np.append(view.p[i] / (steps + 1), 1 - (view.step + 1) / (steps + 1))
            two = np.argsort(-weights)[:2]
            chances = np.exp(weights[two]) / np.exp(weights[two]).sum()
            options.append(list(zip(two.tolist(), chances.tolist(), strict=True)))
        for draw in product(*options):  # the mask is the last symbol
            yield math.prod(q for _, q in draw), {i: v for i, (v, _) in zip(view.hidden, draw, strict=True)}

    return written(network, length, rule, greedy=True)


# uniform noise


def diffusion_gemma(t_max: float, t_min: float, ends: str = "argmax", bound: float = 0.1) -> Law:
    """Keep draws where the entropy bound allows, else random tokens. ends="argmax": the result is the most likely token
    of each position; "canvas": the tokens after the last step."""

    def law(network, length, steps):
        def kernel(step: int, canvas: np.ndarray, p: np.ndarray) -> np.ndarray:
            heat = t_min + (t_max - t_min) * (steps - step) / steps
            p = p ** (1 / heat) / (p ** (1 / heat)).sum(-1, keepdims=True)
            if ends == "argmax" and step == steps - 1:
                return np.eye(p.shape[1])[p.argmax(-1)]
            entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(-1)
            order, accepted = entropy.argsort(), np.zeros(len(p), dtype=bool)
            accepted[order] = entropy[order].cumsum() - entropy[order] <= bound
            return np.where(accepted[:, None], p, 1 / p.shape[1])

        return renoised(network, length, steps, kernel, level=False)

    return law


def uniform_ancestral(greedy: bool) -> Law:
    """q(x_s | x_t) with levels k / N; the clean token is drawn from p, or its most likely one."""

    def law(network, length, steps):
        def kernel(step: int, canvas: np.ndarray, p: np.ndarray) -> np.ndarray:
            size, before, after = p.shape[1], step / steps, (step + 1) / steps
            p = np.eye(size)[p.argmax(-1)] if greedy else p
            kept = before / after
            arrive = kept * np.eye(size)[canvas][:, None, :] + (1 - kept) / size  # q(x_t | x_s): (L, 1, x_s)
            joint = (after * np.eye(size) + (1 - after) / size) * arrive  # of x_0 and x_s: (L, x_0, x_s)
            return (p[:, :, None] * joint / joint.sum(-1, keepdims=True)).sum(1)

        return renoised(network, length, steps, kernel, level=True)

    return law


def corrected(level: float, sweeps: int) -> Law:
    """Noisy sequences of a level, after sweeps that each draw one position again, given all others.

    The position has the smallest margin of its token, by a Gumbel race. The margin depends on the token itself, so
    the sweeps do not keep the distribution, as they would for a random position.
    """

    def law(network, length, _):
        size = network.vocabulary
        canvases = torch.cartesian_prod(*[torch.arange(size)] * length)
        kept = level * torch.eye(size, dtype=torch.float64) + (1 - level) / size
        clean = network.language.log_prob(canvases).exp()
        mass = clean @ kept[canvases.unsqueeze(1), canvases.unsqueeze(0)].prod(-1)
        own = torch.nn.functional.one_hot(canvases, size).double()
        others = network.answers(canvases, level) / (1 + own * size * level / (1 - level))  # without the own token
        given = level * others / others.sum(-1, keepdim=True) + (1 - level) / size  # (canvases, L, V)
        margin = (given * own).sum(-1).log() - (given * (1 - own)).amax(-1).log()
        chosen = (-margin).softmax(-1)
        codes, powers = canvases @ size ** torch.arange(length - 1, -1, -1), size ** torch.arange(length - 1, -1, -1)
        for _ in range(sweeps):
            after = torch.zeros_like(mass)
            for i, v in product(range(length), range(size)):
                to = codes + (v - canvases[:, i]) * powers[i]
                after.index_add_(0, to, mass * chosen[:, i] * given[:, i, v])
            mass = after
        return mass

    return law
