"""diffusers' EntropyBoundScheduler, in its DiffusionGemmaPipeline."""

from benchmarks.engines import laws
from benchmarks.engines.adapters.diffusers_canvas import piped
from benchmarks.engines.cases import Case
from benchmarks.engines.found import installed

NAME = "diffusers EntropyBound"


def cases(checkouts):
    version = installed("diffusers")
    from diffusers import EntropyBoundScheduler as Bound

    noisy = "random tokens stay in the output"

    def case(setting, sampler, t_max, t_min):
        loop = piped(Bound(t_max=t_max, t_min=t_min), False)
        ends = (laws.diffusion_gemma(t_max, t_min, end) for end in ("argmax", "canvas"))
        return Case(setting, loop, sampler, *ends, noisy, noise=True)

    hot = case("T = 1", "renoise(t_max=1, t_min=1)", 1.0, 1.0)
    return version, [hot, case("T = 0.8 to 0.4 (default)", "renoise", 0.8, 0.4)]
