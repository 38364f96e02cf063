"""How many steps does a trained network need, and how much of the error is learning error?

python examples/plan_a_trained_model.py

A tiny network learns a known language for far too short a time. Its learning error is measured in contexts of that
language, and the planner adds it to the sampling error of an ideal denoiser. No number of steps gets below it.
`unmask train`, `unmask model learning` and `unmask plan --model` do the same at any size.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import unmask
from unmask.diagnosis.learning import of_language
from unmask.models import trained
from unmask.models.trained.recipe import recipe
from unmask.planning.plan import Verdict

LENGTH = 16


def main(steps: int = 3) -> list[Verdict]:
    language = unmask.languages.load("paper-2gram")
    shape = trained.preset("quick", "mdm", language.vocabulary, length=LENGTH, hidden=16, heads=2)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory, "mdm")
        unmask.train(language, shape, recipe("quick", "mdm", steps=steps), place)
        network = trained.Network(trained.load(place))
    learned = of_language(network, language, LENGTH, rows=10)
    verdicts = []
    for name, known in (("ideal", None), ("trained", learned)):
        for target in (12.0, 8.0):
            try:
                verdicts.append(unmask.plan(language, LENGTH, "kl", target, learning=known))
                print(f"{name:<8} KL of {target:g} nats per sequence: {verdicts[-1].chosen.steps} steps")
            except unmask.UnmaskError as error:
                print(f"{name:<8} KL of {target:g} nats per sequence: {error}")
    return verdicts


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
