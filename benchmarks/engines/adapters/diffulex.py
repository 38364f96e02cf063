"""Diffulex's sampler of LLaDA: its draw and its rule, for one block, one sequence at a time."""

from types import SimpleNamespace

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import KEEPS, Case
from benchmarks.engines.found import Checkout
from benchmarks.engines.gated import Gated

NAME, CORE, FILE = "Diffulex LLaDA", "diffulex/sampler/base/core.py", "diffulex/sampler/llada.py"


def cases(checkouts):
    at = Checkout(checkouts, "Diffulex", "github.com/SJTU-DENG-Lab/Diffulex")
    from contextlib import nullcontext

    core = at.load(CORE, {"diffulex": {}, "diffulex.profiling": {"record_function": lambda _: nullcontext()}})
    register = {"AutoSampler": SimpleNamespace(register=lambda _: lambda kind: kind)}
    base = {"DllmSamplerNoShiftBase": core.SamplerBase}
    stubs = {"diffulex": {}, "diffulex.sampler.auto_sampler": register, "diffulex.sampler.base": base}
    kind = at.load(FILE, stubs).LLaDASampler

    def loop(network, rows, length, steps):
        sampler = object.__new__(kind)
        torch.nn.Module.__init__(sampler)
        sampler.tokenizer_vocab_size = None
        mask, thresholds = network.config.mask_token_id, SimpleNamespace(accept_threshold=0.9)
        block = SimpleNamespace(thresholds=thresholds, block_id=0, prev_block=None, should_force_decode_topk=False)
        x = torch.full((rows, length), mask)
        for row in x:
            while bool((row == mask).any()):
                hidden = (row == mask).nonzero().squeeze(1)
                logits = network(row.unsqueeze(0)).logits[0, hidden]
                scores, drawn, first = sampler.sample_tokens(logits, 1.0, forbidden_token_ids=[mask])
                accepted = sampler._compute_accepted_ids(block, scores, first, drawn)
                row[hidden[accepted]] = drawn[accepted]
        return x

    rest = {"rows": 5, "record": False}
    return at.version(FILE), [Case("first block, T = 1", loop, Gated(0.9), laws.gated(0.9), meant=KEEPS, **rest)]
