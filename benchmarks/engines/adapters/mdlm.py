"""MDLM's diffusion.py: ddpm_cache, noise in float32, and an argmax at the end."""

from types import SimpleNamespace

from benchmarks.engines import laws
from benchmarks.engines.cases import Case
from benchmarks.engines.found import Checkout

NAME, FILE = "MDLM ddpm_cache", "diffusion.py"
STUBS = {name: {} for name in ("hydra", "lightning", "torchmetrics", "transformers", "dataloader", "models", "utils")}
STUBS |= {"tqdm": {"tqdm": lambda steps: steps}}


def sampled(at, **options):
    """Their _sample around a network, without their __init__, which loads weights and metrics."""
    module, noise = at.load(FILE, STUBS, beside="."), at.load("noise_schedule.py")

    def run(network, rows, length, steps):
        self = object.__new__(module.Diffusion)
        self.config = SimpleNamespace(
            loader=SimpleNamespace(eval_batch_size=rows),
            model=SimpleNamespace(length=length),
            noise=SimpleNamespace(type="loglinear"),
            sampling=SimpleNamespace(steps=steps, noise_removal=True, **options),
        )
        self.backbone, self.noise = lambda x, _: network(x).logits, noise.LogLinearNoise()
        self.device, self.sampler, self.parameterization = "cpu", "ddpm_cache", "subs"
        self.mask_index, self.neg_infinity, self.time_conditioning = network.config.mask_token_id, -1e6, False
        return self._sample()

    return run


def cases(checkouts):
    at = Checkout(checkouts, "mdlm", "github.com/kuleshov-group/mdlm")
    return at.version(FILE), [Case("T = 1 (default)", sampled(at), "ancestral", laws.ancestral)]
