"""DARE's rollout: sequences packed into one row, noise in float32."""

import warnings

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import KEEPS, Case
from benchmarks.engines.found import Checkout
from benchmarks.engines.networks import TAIL, Output, Rounded

NAME, FILE = "DARE rollout", "verl/workers/rollout/generate.py"


def cases(checkouts):
    at = Checkout(checkouts, "DARE", "github.com/yjyddq/DARE")
    stubs = {"transformers": {}, "pandas": {}, "tqdm": {}}
    generate = at.load(FILE, stubs).generate

    def loop(remasking, dtype):
        def run(network, rows, length, steps):
            model, mask = Rounded(network, dtype), network.config.mask_token_id

            def packed(x, **_):
                return Output(model(x.view(rows, length)).logits.flatten(0, 1).unsqueeze(0))

            how = {"steps": steps, "gen_length": length, "block_length": length, "temperature": 1.0, "mode": "train"}
            ends, x = torch.arange(rows + 1) * length, torch.full((1, rows * length), mask)
            with warnings.catch_warnings():  # of autocast for CUDA, without CUDA
                warnings.simplefilter("ignore")
                return generate(packed, x, ends, length, remasking=remasking, mask_id=mask, **how).view(rows, length)

        return run

    return at.version(FILE), [
        Case("random, T = 1, float32", loop("random", torch.float32), "fixed-size", laws.at_random, tail=TAIL),
        Case(
            "low_confidence, T = 1, float32",
            loop("low_confidence", torch.float32),
            "llada(temperature=1)",
            laws.evenly(),
            meant=KEEPS,
        ),
    ]
