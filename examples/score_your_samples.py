"""Samples of any program against a language that knows the truth: which are wrong, and how. Then on the command line:

python examples/score_your_samples.py sums.npy
unmask score sums.npy --language "modular-sum(terms=3)"

The program here adds up three digits modulo 10, as "8+6+2=4+2=6", and at each step it has a chance of 5% to write any
other digit. Two mistakes may cancel: then an answer is right by wrong steps.
All that a score needs is an array of whole numbers (rows, length): numpy, a tensor or lists.
"""

from __future__ import annotations

import sys

import numpy as np

import unmask


def my_program(rows: int, mistakes: float = 0.05) -> list[str]:
    chance = np.random.default_rng(0)
    texts = []
    for a, b, c in chance.integers(0, 10, (rows, 3)).tolist():
        slips = chance.integers(1, 10, 2) * (chance.random(2) < mistakes)
        first = (a + b + slips[0]) % 10
        last = (first + c + slips[1]) % 10
        texts.append(f"{a}+{b}+{c}={first}+{c}={last}")
    return texts


def main(path: str = "sums.npy", rows: int = 2000) -> unmask.Score:
    language = unmask.languages.ModularSum(terms=3)
    samples = language.encode(my_program(rows))
    np.save(path, samples)
    scored = unmask.score(samples, language)
    print("impossible sequences", scored.ser, " of 1 - 0.95^2 = 0.0975")
    for name in ("answer_error", "right_by_wrong_steps", "wrong_steps"):
        print(f"{name:<20}", scored.metrics[name])
    return scored


if __name__ == "__main__":
    main(*sys.argv[1:2])
