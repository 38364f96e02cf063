"""Dream's diffusion_generate under the names that its users know (Dream 7B, arXiv 2508.15487; code: HKUNLP/Dream).

    alg             what stays of a round                     tokens are scored by
    origin          each place by itself                      -
    maskgit_plus    low-confidence(noise=alg_temp)            the probability of what was drawn
    topk_margin     margin(noise=alg_temp)                    p_(1) - p_(2)
    entropy         entropy(noise=alg_temp)                   sum p log p
    greddy          low-confidence(temperature=temperature)   the probability at T = 1 of what was drawn at T

greddy is SMDM's, whose eps is 1e-5: its counts are Dream's, but of all rows of a batch together; here each row has its
own. The others are Dream's:
`steps` is steps, max_new_tokens the hidden places of the canvas; temperature > 0, top_p and top_k are those of
`generate`, which the scores see, as in Dream. Dream's temperature = 0, its default, is temperature=0 here: greedy
tokens, scored at T = 1 (with alg=origin it is generate's).

The schedule is Dream's, whichever `generate` names: t_0 = 1 > t_1 > .. > t_N = eps evenly, in float32, and of M places
that a row has hidden round k reveals

    floor(M (1 - t_k / t_(k-1)))        (origin: each with this probability)        and the last one all that are left

so that with N = M the first round reveals nothing and the last one two; with M = 2 N the last one three, with 4 N five.
A round in which nothing changes costs Dream a call, and here nothing: its context is the one before. Equal scores are
left to torch.topk, as there (`ties`). Scores are float32; Dream's are those of the dtype of its logits, which is
dtype="bfloat16" here, but that it rounds each term of its entropy, and adds 1e-10 to every p of it. Rows of a batch
trade counts in Dream, which takes the mean of M; here each has its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Luck
from unmask.core.errors import UnmaskError
from unmask.samplers import checks
from unmask.samplers.ancestral import Ancestral
from unmask.samplers.confidence import Entropy, Margin
from unmask.samplers.contract import SAMPLERS, Choice, Law, Sampler
from unmask.samplers.low_confidence import LowConfidence
from unmask.samplers.ranking import ROUND_TIES
from unmask.samplers.view import View

SCORED = {"greddy": LowConfidence, "maskgit_plus": LowConfidence, "topk_margin": Margin, "entropy": Entropy}


def shares(steps: int, eps: float) -> Tensor:
    """(N) float32: 1 - t_k / t_(k-1), and 1 in the last round."""
    times = torch.linspace(1, eps, steps + 1)
    found = 1 - times[1:] / times[:-1]
    found[-1] = 1
    return found


@dataclass(frozen=True)
class Origin(Ancestral):
    """Each place is revealed with Dream's probability of the round."""

    draws_rounds = False  # not from the schedule of the session
    eps: float = 1e-3

    def order(self, delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
        each = shares(len(delta), self.eps).double()
        return super().order(each * torch.cat([each.new_ones(1), (1 - each).cumprod(0)[:-1]]), hidden, luck)


@dataclass(frozen=True)
class Dreamed(Sampler):
    """A rule that takes as many places as it is given, given Dream's counts."""

    pace = "rounds"
    inner: str | Sampler = "entropy"
    eps: float = 1e-3

    def __post_init__(self) -> None:
        checks.inner(self)

    @property
    def law(self) -> Law | None:
        return checks.made(self.inner).law

    def choose(self, view: View) -> Choice:
        share = torch.ones(len(view.round))
        for steps in view.rounds.unique().tolist():
            mine = view.rounds == steps
            share[mine] = shares(steps, self.eps)[(view.round[mine] - 1).clamp(max=steps - 1)]
        return checks.made(self.inner).choose(replace(view, count=(view.hidden.sum(1) * share).long()))


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
    arguments.number("eps", eps, 0, 1, above=True, what=": the time of the last round")
    if alg != "greddy" and temperature not in (0, 1):
        raise UnmaskError(f"temperature of dream is {temperature}; expected 0 or 1, any other goes to generate")
    if alg == "origin":
        if (temperature, alg_temp, dtype) != (1, 0, "float32"):
            raise UnmaskError(
                "alg=origin scores nothing: leave alg_temp and dtype out, and give generate the temperature"
            )
        arguments.word("way to break ties", ties, ROUND_TIES)
        return Origin(eps)
    return Dreamed(SCORED[alg](temperature=temperature, noise=alg_temp, ties=ties, dtype=dtype), eps)
