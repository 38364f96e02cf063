"""LLaDA2's reference generate, of inclusionAI's dFactory: blocks, a threshold, one sequence at a time."""

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import KEEPS, Case
from benchmarks.engines.found import Checkout
from benchmarks.engines.gated import Gated
from unmask.samplers.rules.blocks import Blocks

NAME, FILE = "LLaDA2 reference", "models/llada2_moe/modeling_llada2_moe.py"


def size(length):
    return 32 if length >= 32 else length // 2


def cases(checkouts):
    at = Checkout(checkouts, "dFactory", "github.com/inclusionAI/dFactory")
    model = at.load(FILE, {"transformers": {}, "veomni": {}, "liger_kernel": {}}).LLaDA2MoeModelLM

    def loop(temperature):
        def run(network, rows, length, steps):
            self = object.__new__(model)
            self.device, self.forward = "cpu", lambda ids, **_: network(ids)
            how = {"block_length": size(length), "steps": size(length), "gen_length": length, "eos_id": -1}
            how |= {"mask_id": network.config.mask_token_id, "temperature": temperature}
            return torch.cat([self.generate(torch.zeros((1, 0), dtype=torch.long), **how) for _ in range(rows)])

        return run

    drawn, greedy = laws.gated(0.95, block=size), laws.gated(0.95, greedy=True, block=size)
    rest, cold = {"rows": 50, "record": False}, Blocks(8, "threshold(threshold=0.95, temperature=0)")
    return at.version(FILE), [
        Case("T = 1", loop(1.0), Blocks(8, Gated()), drawn, meant=KEEPS, **rest),
        Case("T = 0 (default)", loop(0.0), cold, greedy, drawn, "draws as at temperature 1", **rest),
    ]
