"""LMDeploy's unmasking: its rule for a block of tokens that its sampler has drawn (here one multinomial)."""

from enum import Enum
from types import SimpleNamespace

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import KEEPS, Case
from benchmarks.engines.found import Checkout
from benchmarks.engines.gated import Gated

NAME, FILE = "LMDeploy unmasking", "lmdeploy/pytorch/strategies/dllm/unmasking.py"


def cases(checkouts):
    at = Checkout(checkouts, "lmdeploy", "github.com/InternLM/lmdeploy")
    strategies = Enum("UnmaskingStrategy", ["SEQUENTIAL", "LOW_CONFIDENCE_DYNAMIC", "LOW_CONFIDENCE_STATIC"])
    stubs = {"lmdeploy.pytorch": {"consts": at.load("lmdeploy/pytorch/consts.py")}}
    module = at.load(FILE, stubs | {"lmdeploy.pytorch.config": {"UnmaskingStrategy": strategies}})

    def loop(strategy, every=True):
        def run(network, rows, length, steps):
            config = SimpleNamespace(block_length=length, denoising_steps=steps if every else None)
            config.unmasking_strategy = getattr(module.UnmaskingStrategy, strategy)
            config.confidence_threshold = 0.85
            mask = network.config.mask_token_id
            x, state = torch.full((rows * length,), mask), torch.full((rows * length,), module.DLLM_MASKED)
            while bool((state == module.DLLM_MASKED).any()):
                logits = network(x.view(rows, length)).logits.flatten(0, 1)
                drawn = logits.softmax(-1).multinomial(1).view(-1)
                state, tokens = module.UnmaskingProcessor(config)(logits, x, drawn, state.clone())
                x = torch.where(state == module.DLLM_MASKED, mask, tokens)
            return x.view(rows, length)

        return run

    static, dynamic = loop("LOW_CONFIDENCE_STATIC"), loop("LOW_CONFIDENCE_DYNAMIC")
    given = "static, T = 1, denoising_steps given"
    none = "static, T = 1, denoising_steps=None (default)"
    return at.version(FILE), [
        Case("dynamic, T = 1 (default)", dynamic, Gated(0.85), laws.gated(0.85), meant=KEEPS),
        Case(given, static, "low-confidence(ties=topk)", laws.evenly(), meant=KEEPS),
        Case(none, loop("LOW_CONFIDENCE_STATIC", False), "low-confidence", laws.evenly()),
    ]
