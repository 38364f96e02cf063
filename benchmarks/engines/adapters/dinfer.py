"""dInfer's decoders of a block, around one call of the network for each step."""

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import Case
from benchmarks.engines.found import Checkout
from benchmarks.engines.gated import Gated
from benchmarks.engines.networks import TAIL

NAME, FILE = "dInfer", "python/dinfer/decoding/parallel_strategy.py"


def cases(checkouts):
    at = Checkout(checkouts, "dInfer", "github.com/inclusionAI/dInfer")
    utils = at.load("python/dinfer/decoding/utils.py")
    module = at.load(FILE, {"engine.utils": utils, "engine": {}}, within="engine")

    def loop(make):
        def run(network, rows, length, steps):
            mask = network.config.mask_token_id
            decoder, x = make(mask, steps), torch.full((rows, length), mask)
            decoder.block_init(x, 0)
            while bool((x == mask).any()):
                decoder.decode(network(x).logits, 0, length, x)
            return x

        return run

    def threshold(mask, _):
        return module.ThresholdParallelDecoder(1.0, 0.9, mask_id=mask)

    def fixed(mask, steps):
        return module.FixedParallelDecoder(1.0, steps, mask_id=mask)

    law, ties = laws.gated(0.9, slack=1e-5), "probable draws first, equal ones together"
    return at.version(FILE), [
        Case("threshold 0.9, T = 1", loop(threshold), Gated(0.9, slack=1e-5), law, meant=ties, tail=TAIL),
        Case("fixed steps, T = 1", loop(fixed), "low-confidence", laws.evenly()),
    ]
