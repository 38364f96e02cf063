"""LLaDA's published generate.py."""

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import GREEDY, KEEPS, Case
from benchmarks.engines.found import Checkout

NAME, FILE = "LLaDA generate", "generate.py"


def cases(checkouts):
    at = Checkout(checkouts, "LLaDA", "github.com/ML-GSAI/LLaDA")
    generate = at.load(FILE).generate

    def loop(temperature, remasking="low_confidence"):
        def run(network, rows, length, steps):
            prompt, mask = torch.zeros((rows, 0), dtype=torch.long), network.config.mask_token_id
            sizes = {"steps": steps, "gen_length": length, "block_length": length}
            return generate(network, prompt, temperature=temperature, remasking=remasking, mask_id=mask, **sizes)

        return run

    return at.version(FILE), [
        Case("T = 1", loop(1.0), "llada(temperature=1)", laws.evenly(), meant=KEEPS),
        Case("T = 0 (default)", loop(0.0), "llada(temperature=0)", laws.evenly(greedy=True), meant=GREEDY),
        Case("T = 1, random", loop(1.0, "random"), "fixed-size", laws.at_random),
    ]
