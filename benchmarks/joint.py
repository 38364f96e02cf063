"""Joint draws: SER, bigram distance and plan divergence at L = 32, and seconds at 2,000 x 512.

python -m benchmarks.joint [--speed]; numbers are quoted in docs/joint-draws.md.
"""

from __future__ import annotations

import sys
import time

import torch

from unmask import generate
from unmask.languages import automata, load
from unmask.metrics.windows import total_variation
from unmask.samplers.joint import divergence

DRAWS = ("product", "coupled", "fitted", "alone", "soft")
LANGUAGES = ("paper-2gram", "paper-3gram", "sparse-hmm")
STEPS = (1, 2, 4, 8, 16)
LENGTH, ROWS, STRINGS = 32, 4000, 1000


def losses() -> None:
    print("| language | N | " + " | ".join(DRAWS) + " |\n|---|---|" + "---|" * len(DRAWS))
    for name in LANGUAGES:
        language = load(name)
        for steps in STEPS:
            cells = []
            for draw in DRAWS:
                tokens = generate(language, steps=steps, length=LENGTH, rows=ROWS, seed=1, draw=draw).tokens
                ser = 1 - float(language.supports(tokens).double().mean())
                plan = divergence(language, draw, steps=steps, length=LENGTH, rows=STRINGS, seed=2)
                width = plan.high - plan.value if plan.high is not None else 0.0
                cells.append(f"{ser:.3f} {(total_variation(tokens, language).value):.3f} {plan.value:.3f}±{width:.3f}")
            print(f"| {name} | {steps} | " + " | ".join(cells) + " |", flush=True)


def no_model() -> None:
    """KL(q || uniform string of the support) in nats, L = 32: log |A| - H(q)."""
    for name in LANGUAGES:
        language = load(name)
        automaton = automata.support(language)
        count = torch.zeros(automaton.states, dtype=torch.float64)
        count[0] = 1
        for _ in range(LENGTH):
            there = torch.from_numpy(automaton.moves)
            following = torch.zeros_like(count)
            source, symbol = (there >= 0).nonzero(as_tuple=True)
            count = following.index_add_(0, there[source, symbol], count[source])
        strings = float(count[torch.from_numpy(automaton.final)].sum().log())
        print(f"{name}: no model {strings - language.entropy(LENGTH).value:.2f} nats")


def speed() -> None:
    torch.set_num_threads(1)
    for name in ("paper-2gram", "sparse-hmm"):
        for draw in ("product", "fitted", "alone"):
            generate(name, steps=2, length=16, rows=9, draw=draw)
            began, used = time.perf_counter(), time.process_time()
            generate(name, steps=8, length=512, rows=2000, draw=draw)
            print(f"{name} {draw}: {time.perf_counter() - began:.2f} s, {time.process_time() - used:.2f} s of CPU")


if __name__ == "__main__":
    if "--speed" in sys.argv:
        speed()
    else:
        losses()
        no_model()
