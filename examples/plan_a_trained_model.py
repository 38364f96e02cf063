"""How many rounds does a trained network need, and what of it is the network's own fault?

python examples/plan_a_trained_model.py

A tiny network learns a language whose truth is known, for far too short a time; what it has not learned is measured in
contexts of that language, and the planner adds it to what rounds cost an ideal one. Below that no number of rounds
comes. `unmask train`, `learning` and `plan --model` do the same at any size.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import unmask
from unmask import networks
from unmask.cost.planner import Verdict
from unmask.diagnosis.learning import of_language
from unmask.networks.training.recipe import recipe

LENGTH = 16


def main(steps: int = 20) -> list[Verdict]:
    language = unmask.languages.load("paper-2gram")
    shape = networks.preset("quick", "mdm", language.vocabulary, length=LENGTH, hidden=16, heads=2)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory, "mdm")
        unmask.train(language, shape, recipe("quick", "mdm", steps=steps), place)
        network = networks.Network(networks.load(place))
    learned = of_language(network, language, LENGTH, rows=10)
    verdicts = []
    for whose, known in (("ideal", None), ("trained", learned)):
        for target in (12.0, 8.0):
            try:
                verdicts.append(unmask.plan(language, LENGTH, "kl", target, learning=known))
                print(f"{whose:<8} KL of {target:g} nats a row: {verdicts[-1].chosen.steps} rounds")
            except unmask.UnmaskError as error:
                print(f"{whose:<8} KL of {target:g} nats a row: {error}")
    return verdicts


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
