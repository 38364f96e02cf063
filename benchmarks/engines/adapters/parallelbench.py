"""ParallelBench's ReMDM for LLaDA: the least probable tokens are hidden again, for one step and one token."""

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import GREEDY, KEEPS, Case
from benchmarks.engines.found import Checkout

NAME, FILE = "ParallelBench ReMDM", "model/remasking/llada/remdm.py"


def cases(checkouts):
    at = Checkout(checkouts, "ParallelBench", "github.com/furiosa-ai/ParallelBench")
    sample = at.load(FILE).llada_remdm_sample

    def loop(temperature, blocks=1):
        def run(network, rows, length, steps):
            how = {"steps": steps, "gen_length": length, "block_length": length // blocks, "tokenizer": "unused"}
            how |= {"remdm_steps": 1, "remdm_number": 1, "mask_id": network.config.mask_token_id}
            prompt = torch.zeros((1, 0), dtype=torch.long)
            return torch.cat([sample(network, prompt, temperature=temperature, **how)[0] for _ in range(rows)])

        return run

    rest = {"rows": 50, "audited": False}
    return at.version(FILE), [
        Case("one block, T = 1", loop(1.0), "-", laws.hidden_again(False), meant=KEEPS, **rest),
        Case("one block, T = 0 (default T)", loop(0.0), "-", laws.hidden_again(True), meant=GREEDY, **rest),
        Case("two blocks, T = 1", loop(1.0, 2), "-", laws.hidden_again(False), **rest),
    ]
