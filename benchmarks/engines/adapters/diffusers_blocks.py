"""diffusers' BlockRefinementScheduler, in its LLaDA2Pipeline."""

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import GREEDY, KEEPS, Case
from benchmarks.engines.found import installed
from benchmarks.engines.gated import Gated

NAME, THRESHOLD = "diffusers BlockRefinement", 0.7


def cases(checkouts):
    version = installed("diffusers")
    from diffusers import BlockRefinementScheduler, LLaDA2Pipeline

    def loop(temperature):
        def run(network, rows, length, steps):
            pipe = LLaDA2Pipeline(network, BlockRefinementScheduler())
            pipe.set_progress_bar_config(disable=True)
            how = {"gen_length": length, "block_length": length, "num_inference_steps": length, "output_type": "seq"}
            how |= {"mask_token_id": network.config.mask_token_id, "temperature": temperature}
            return pipe(input_ids=torch.zeros((rows, 0), dtype=torch.long), **how).sequences

        return run

    greedy, rule = laws.gated(THRESHOLD, greedy=True), f"threshold(threshold={THRESHOLD}, temperature=0)"
    return version, [
        Case("T = 1", loop(1.0), Gated(THRESHOLD), laws.gated(THRESHOLD), meant=KEEPS),
        Case("T = 0 (default)", loop(0.0), rule, greedy, meant=GREEDY),
    ]
