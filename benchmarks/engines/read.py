"""Engines that are read, not run: the distance of the rule in their code from the one that they state, enumerated.

    python -m benchmarks.engines.read     prints the total variation on the tiny language

Their code has no licence, or needs another machine. So no rows contradict our reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from benchmarks.engines.cases import Law
from benchmarks.engines.laws import dream_rates
from benchmarks.engines.measuring import LENGTH, STEPS
from benchmarks.engines.networks import Network, Tiny
from benchmarks.engines.rules import Change, View, best, certain, written


def sure(threshold: float, argmax: bool) -> Law:
    """d3LLM, one block: all positions of less entropy, or the surest one; argmax: it is the likeliest token."""

    def rule(view: View) -> Iterator[tuple[float, Change]]:
        known = [i for i in view.hidden if view.entropy(i) <= threshold]
        least = min(view.hidden, key=view.entropy)
        forced = {least: int(view.p[least].argmax())} if argmax else view.reveal([least])
        yield 1.0, view.reveal(known) if known else forced

    return lambda network, length, _: written(network, length, rule)


def by_entropy(sign: int, even: bool = False) -> Law:
    """llama.cpp: the surest positions first, or the least sure ones; counts by times, rounded down, or even ones."""

    def law(network: Network, length: int, steps: int) -> Tensor:
        left, counts = length, []
        for rate in dream_rates(steps):
            counts.append(length // steps if even else int(left * rate))
            left -= counts[-1]
        return written(network, length, best(counts, lambda view, i: sign * certain(view, i)))

    return law


READ: dict[str, tuple[Law, Law]] = {  # the law as stated, and that of the code
    "d3LLM, threshold 0.5, T = 1": (sure(0.5, False), sure(0.5, True)),
    "llama.cpp ENTROPY, T = 1": (by_entropy(1, even=True), by_entropy(-1)),
}


def main(say: Callable[[str], object] = print) -> None:
    network = Tiny()
    for name, laws in READ.items():
        stated, code = (law(network, LENGTH, STEPS) for law in laws)
        say(f"{name}: total variation {float((stated - code).abs().sum() / 2):.3f}")


if __name__ == "__main__":
    main()
