"""Dream's diffusion_generate with its own option names (Dream 7B, arXiv 2508.15487; code: HKUNLP/Dream).

    alg             same as                                   score of a token
    origin          each position independently               -
    maskgit_plus    low-confidence(noise=alg_temp)            the probability of the drawn token
    topk_margin     margin(noise=alg_temp)                    p_(1) - p_(2)
    entropy         entropy(noise=alg_temp)                   sum p log p
    greddy          low-confidence(temperature=temperature)   the probability at T = 1 of the token drawn at T

greddy is SMDM's, whose eps is 1e-5: it has Dream's counts, but for all rows of a batch together; here each row has its
own. The others are Dream's: `steps` is steps, max_new_tokens the number of hidden positions. temperature > 0, top_p and
top_k are those of `generate` and change the scores, as in Dream. Dream's default temperature = 0 is temperature=0 here:
greedy tokens, scored at T = 1 (with alg=origin use generate's temperature).

The schedule is always Dream's: t_0 = 1 > t_1 > .. > t_N = eps in equal steps, in float32. With M hidden positions left
in a row, step k reveals

    floor(M (1 - t_k / t_(k-1)))        (origin: each with this probability)        and the last step all the rest

so with N = M the first step reveals none and the last one two; with M = 2 N the last one three, with 4 N five. A step
without changes costs Dream a model call; here it is free. Equal scores go by torch.topk, as in Dream (`ties`). Scores
are float32. Dream's scores have the dtype of its logits, here dtype="bfloat16", but Dream also reduces the precision of
each term of the entropy and adds 1e-10 to each p. Dream averages M over the rows of a batch; here each row has its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.samplers.contract import SAMPLERS, Choice, Distribution, Sampler, check_inner, inner_of
from unmask.samplers.ranking import ROUND_TIES
from unmask.samplers.rules.confidence import Entropy, Margin
from unmask.samplers.rules.fixed_orders import Ancestral
from unmask.samplers.rules.low_confidence import LowConfidence
from unmask.samplers.view import View

SCORED = {"greddy": LowConfidence, "maskgit_plus": LowConfidence, "topk_margin": Margin, "entropy": Entropy}


def fractions(steps: int, eps: float) -> Tensor:
    """(N) float32: 1 - t_k / t_(k-1), and 1 in the last step."""
    times = torch.linspace(1, eps, steps + 1)
    return torch.cat([1 - times[1:-1] / times[:-2], torch.ones(1)])


@dataclass(frozen=True)
class Origin(Ancestral):
    """Each position is revealed with Dream's probability of the step."""

    draws_steps = False  # Dream's schedule, not the session's
    eps: float = 1e-3

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        each = fractions(len(delta), self.eps).double()
        return super().order(each * torch.cat([each.new_ones(1), (1 - each).cumprod(0)[:-1]]), hidden, rng)


@dataclass(frozen=True)
class Dreamed(Sampler):
    """Another sampler with Dream's counts in place of the schedule's."""

    pace = "steps"
    inner: str | Sampler = "entropy"
    eps: float = 1e-3

    def __post_init__(self) -> None:
        check_inner(self)

    @property
    def distribution(self) -> Distribution | None:
        return inner_of(self).distribution

    @property
    def chooses_before_drawing(self) -> bool:
        return inner_of(self).chooses_before_drawing

    def choose(self, view: View) -> Choice:
        fraction = torch.ones(len(view.step))
        for steps in view.steps.unique().tolist():
            same = view.steps == steps
            fraction[same] = fractions(steps, self.eps)[(view.step[same] - 1).clamp(max=steps - 1)]
        return inner_of(self).choose(replace(view, count=(view.hidden.sum(1) * fraction).long()))


@SAMPLERS.register("dream")
def dream(
    alg: str = "origin",
    alg_temp: float = 0.0,
    temperature: float = 1.0,
    eps: float = 1e-3,
    ties: str = "topk",
    dtype: str = "float32",
) -> Sampler:
    """Dream's diffusion_generate: origin, maskgit_plus, topk_margin or entropy, with its counts; SMDM's greddy."""
    arguments.word("alg", alg, ["origin", *SCORED])
    arguments.number("eps", eps, 0, 1, above=True, what=": the time of the last step")
    if alg != "greddy" and temperature not in (0, 1):
        raise UnmaskError(
            f"temperature of dream is {temperature}", "expected 0 or 1", "Pass other temperatures to generate."
        )

    if alg == "origin":
        if (temperature, alg_temp, dtype) != (1, 0, "float32"):
            raise UnmaskError(
                "alg=origin has no scores; expected no alg_temp, dtype or temperature. Pass temperature to generate."
            )
        arguments.word("way to break ties", ties, ROUND_TIES)
        return Origin(eps)

    return Dreamed(SCORED[alg](temperature=temperature, noise=alg_temp, ties=ties, dtype=dtype), eps)
