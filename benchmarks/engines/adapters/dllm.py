"""dLLM's MDLMSampler."""

from types import SimpleNamespace

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import GREEDY, KEEPS, Case
from benchmarks.engines.found import Checkout

NAME, FILE = "dLLM MDLMSampler", "dllm/core/samplers/mdlm.py"


def cases(checkouts):
    at = Checkout(checkouts, "dllm", "github.com/ZHZisZZ/dllm")
    stubs = {"dllm.core.schedulers": at.load("dllm/core/schedulers/alpha.py")}
    for name in ("base", "utils"):
        stubs[f"dllm.core.samplers.{name}"] = at.load(f"dllm/core/samplers/{name}.py", stubs)
    sampler = at.load(FILE, stubs).MDLMSampler

    def loop(temperature, remasking="low_confidence", stochastic=False):
        def run(network, rows, length, steps):
            tokens = SimpleNamespace(mask_token_id=network.config.mask_token_id, bos_token_id=0, eos_token_id=0)
            how = {"steps": steps, "max_new_tokens": length, "block_size": length, "temperature": temperature}
            how |= {"remasking": remasking, "stochastic_transfer": stochastic}
            return sampler(network, tokens).sample([torch.zeros(0, dtype=torch.long)] * rows, **how)

        return run

    return at.version(FILE), [
        Case("T = 1", loop(1.0), "llada(temperature=1)", laws.evenly(), meant=KEEPS, rows=2000),
        Case("T = 0 (default)", loop(0.0), "llada(temperature=0)", laws.evenly(greedy=True), meant=GREEDY, rows=2000),
        Case("random, stochastic, T = 1", loop(1.0, "random", True), "ancestral", laws.ancestral, rows=2000),
    ]
