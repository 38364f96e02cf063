"""SDAR's published generate.py: blocks behind a cache, one sequence at a time."""

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import KEEPS, Case
from benchmarks.engines.found import Checkout
from benchmarks.engines.gated import Gated
from benchmarks.engines.networks import Cached
from unmask.samplers.rules.blocks import Blocks

NAME, FILE, CONFIDENT = "SDAR generate", "generate.py", 0.85


def size(length):
    return min(4, length // 2)


def cases(checkouts):
    at = Checkout(checkouts, "SDAR", "github.com/JetAstra/SDAR")
    generate = at.load(FILE).block_diffusion_generate

    def loop(strategy):
        def run(network, rows, length, steps):
            sizes = {"gen_length": length, "block_length": size(length), "denoising_steps": size(length)}
            how = {"mask_id": network.config.mask_token_id, "remasking_strategy": strategy, "eb_threshold": 0.35}
            prompt = {"input_ids": torch.zeros((1, 0), dtype=torch.long)}
            one = lambda: generate(Cached(network, "store_kv"), prompt, confidence_threshold=CONFIDENT, **how, **sizes)  # noqa: E731
            return torch.cat([one() for _ in range(rows)])

        return run

    rest = {"rows": 50, "record": False, "meant": KEEPS}
    dynamic, static = laws.gated(CONFIDENT, block=size), laws.evenly(block=size, steps=2)
    low, bounded = Blocks(4, Gated(2.0)), "blocks(block_length=4, inner=entropy-bounded)"  # low: one in each step
    return at.version(FILE), [
        Case("dynamic, T = 1 (default)", loop("low_confidence_dynamic"), Blocks(4, Gated(CONFIDENT)), dynamic, **rest),
        Case("static, T = 1", loop("low_confidence_static"), low, static, **rest),
        Case("entropy_bounded, T = 1", loop("entropy_bounded"), bounded, static, **rest),
    ]
