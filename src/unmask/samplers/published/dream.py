"""Dream's diffusion_generate under the names that its users know (Dream 7B, arXiv 2508.15487).

    alg             here                                      tokens are scored by
    origin          ancestral                                 -
    maskgit_plus    low-confidence(noise=alg_temp)            the probability of what was drawn
    topk_margin     margin(noise=alg_temp)                    p_(1) - p_(2)
    entropy         entropy(noise=alg_temp)                   sum p log p

`steps` is steps, max_new_tokens the hidden places of the canvas; temperature > 0, top_p and top_k are those of
`generate`, which the scores see, as in Dream. Dream's temperature = 0, its default, is temperature=0 here: greedy
tokens, scored at T = 1 (with alg=origin it is generate's). Dream rounds the tokens of a round down and leaves the rest
to the last one; here they follow the schedule. Its eps, 1e-3 of the schedule left for the last round, is not there.
"""

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.samplers.ancestral import Ancestral
from unmask.samplers.confidence import Entropy, Margin
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.samplers.low_confidence import LowConfidence

SCORED = {"maskgit_plus": LowConfidence, "topk_margin": Margin, "entropy": Entropy}


@SAMPLERS.register("dream")
def dream(alg: str = "origin", alg_temp: float = 0.0, temperature: float = 1.0) -> Sampler:
    """Dream's diffusion_generate: origin, maskgit_plus, topk_margin or entropy."""
    arguments.word("alg", alg, ["origin", *SCORED])
    if temperature not in (0, 1):
        raise UnmaskError(f"temperature of dream is {temperature}; expected 0 or 1, any other goes to generate")
    if alg == "origin":
        if (temperature, alg_temp) != (1, 0):
            raise UnmaskError("alg=origin scores nothing: it has no alg_temp, and its temperature is that of generate")
        return Ancestral()
    return SCORED[alg](temperature=temperature, noise=alg_temp)
