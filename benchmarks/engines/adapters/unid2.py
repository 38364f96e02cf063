"""UNI-D2's sampler of masked models: ddpm_cache, and a draw for all positions that are left."""

from types import SimpleNamespace

import torch

from benchmarks.engines import laws
from benchmarks.engines.cases import Case
from benchmarks.engines.found import Checkout
from benchmarks.engines.networks import TAIL

NAME, FILE = "UNI-D2 absorbing", "src/discrete_diffusion/sampling/absorbing.py"


def cases(checkouts):
    at = Checkout(checkouts, "UNI-D2", "github.com/nkalyanv99/UNI-D2")
    utils = at.load("src/discrete_diffusion/forward_process/utils.py")
    module = at.load(FILE, {"engine.forward_process.utils": utils, "engine": {}}, within="engine.sampling")

    def loop(network, rows, length, steps):
        mask = network.config.mask_token_id
        sampling = SimpleNamespace(use_float64=True, inject_bos=False, predictor="ddpm_cache", steps=steps)
        model = SimpleNamespace(mask_id=mask, device="cpu", num_tokens=length, time_conditioning=False)
        model.noise, model._sigma_from_alphat = SimpleNamespace(alpha_t=lambda t: 1 - t), lambda alpha: -alpha.log()
        model.prior_sample = lambda rows, length: torch.full((rows, length), mask)
        model.forward = lambda x, _: network(x).logits.log_softmax(-1)
        made = object.__new__(module.AbsorbingSampler)  # its base is a stub
        made.config = SimpleNamespace(sampling=sampling)
        return made.generate(model, num_samples=rows, num_steps=steps, eps=1e-5, inject_bos=False)

    return at.version(FILE), [Case("ddpm_cache, T = 1 (default)", loop, "ancestral", laws.ancestral, tail=TAIL)]
