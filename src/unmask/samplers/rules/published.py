"""Published loops: LLaDA's, Dream's and MDLM's, with their own option names.

LLaDA's generate with its own option names (arXiv 2502.09992).

    generate(model, prompt, steps, gen_length, block_length, temperature, remasking) is

    unmask.generate(model, sampler="llada(block_length=.., temperature=.., remasking=..)", steps=steps,
                    given=prompt and gen_length hidden positions)

`remasking` chooses the tokens that a step keeps: low_confidence keeps those with the highest probability, random any.
torch.topk orders equal scores, as in the original; use ties="chance" or "position" for other orders. Scores are
float32. For a checkpoint in bfloat16 the original scores have the precision of the logits, here dtype="bfloat16"; its
first version made them float64. cfg_scale is generate's `guidance`. `last` has the tokens of confidence_eos_eot_inf,
which are excluded from the other confidences; at T > 0 the original code forgets one of them, this one does not.
The number of steps need not be a multiple of the number of blocks: the first blocks have one more.

Dream's diffusion_generate with its own option names (Dream 7B, arXiv 2508.15487; code: HKUNLP/Dream).

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

MDLM's sampler as published (Sahoo et al., arXiv 2406.07524; code: ddpm_cache), as a reference.

It differs from ancestral sampling, its intended distribution, in four ways:

    one race     argmax_v q_v / (1e-10 - log(u_v + 1e-10)) in float32, q = (move_t - move_s) p for the tokens and move_s
                 for the mask, u from the grid of 2^-24: probabilities below about 6e-8 are drawn too rarely, which
                 concerns more tokens the more steps there are (arXiv 2409.02908)
    eps          move runs from 1 to 1e-5, not to 0
    last argmax  the positions left are filled by argmax, in one more model call for every row ("noise removal")
    batch cache  marginals are reused in the next step unless any row of the batch has changed; otherwise all rows of
                 the batch are computed again, also complete ones

So model calls depend on the rows of a batch: rows with equal numbers after division by `batch`, if they are filled
together. Tokens do not depend on it. batch=1 counts per row. Model calls are those of the published code; our code does
not compute complete rows (`rows_computed`). The race needs the probabilities of all symbols at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness, Stream
from unmask.core.errors import UnmaskError
from unmask.samplers.contract import SAMPLERS, Choice, Distribution, Sampler, check_inner, inner_of
from unmask.samplers.ranking import ROUND_TIES
from unmask.samplers.rules.blocks import Blocks
from unmask.samplers.rules.confidence import Entropy, LowConfidence, Margin
from unmask.samplers.rules.fixed_orders import Ancestral
from unmask.samplers.session import Session
from unmask.samplers.view import View


@dataclass(frozen=True)
class AnyConfidence(LowConfidence):
    """LLaDA's remasking="random": drawn tokens have random scores."""

    @property
    def chooses_before_drawing(self) -> bool:
        return not self.last

    def score(self, view: View, tokens: Tensor) -> Tensor:
        return view.rng(Stream.TIE)


REMASKING: dict[str, type[LowConfidence]] = {"low_confidence": LowConfidence, "random": AnyConfidence}


@SAMPLERS.register("llada")
def llada(
    block_length: int = 32,
    remasking: str = "low_confidence",
    temperature: float = 0.0,
    ties: str = "topk",
    last: tuple[int, ...] = (),
    dtype: str = "float32",
) -> Sampler:
    """LLaDA's generate: blocks of low-confidence remasking, greedy by default."""
    arguments.word("remasking", remasking, REMASKING)
    return Blocks(block_length, REMASKING[remasking](temperature, ties=ties, last=last, dtype=dtype))


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
        problem = f"temperature of dream is {temperature}; expected 0 or 1"
        raise UnmaskError(f"{problem}. Pass other temperatures to generate.")

    if alg == "origin":
        if (temperature, alg_temp, dtype) != (1, 0, "float32"):
            raise UnmaskError(
                "alg=origin has no scores; expected no alg_temp, dtype or temperature. Pass temperature to generate."
            )
        arguments.word("way to break ties", ties, ROUND_TIES)
        return Origin(eps)

    return Dreamed(SCORED[alg](temperature=temperature, noise=alg_temp, ties=ties, dtype=dtype), eps)


EPS = 1e-5
CLAMP = 1e-10
GRID = 2.0**-24


@SAMPLERS.register("as-published-mdlm")
@dataclass(frozen=True)
class AsPublishedMDLM(Sampler):
    """MDLM's own code as a reference: float32 race, final argmax, one cache per batch."""

    batch: Annotated[int, arguments.whole] = 16

    def run(self, session: Session) -> None:
        canvas = session.canvas
        vocabulary = session.denoiser.vocabulary
        _, batch = (session.rng.row_ids // self.batch).unique(return_inverse=True)

        changed = torch.ones(len(batch), dtype=torch.bool)
        move = 1 - (1 - EPS) * torch.nn.functional.pad(session.delta.cumsum(0), (1, 0))
        steps = len(session.delta)

        for k in range(steps + 1):
            canvas.recompute(changed)
            time = None if canvas.time_free else torch.full((len(batch),), 1 - k * (1 - EPS) / steps)
            rows, positions = canvas.hidden.nonzero(as_tuple=True)
            marginals = canvas.at(rows, positions, time)
            p = marginals.dense()

            if k == steps:
                tokens = p.argmax(-1)
            else:
                weights = torch.cat([p * (move[k] - move[k + 1]), move[k + 1].expand(len(p), 1)], -1)
                tokens = race(weights.float(), coarse(session.rng, rows, positions, k, vocabulary + 1))

            new = (tokens < vocabulary).nonzero().squeeze(1)
            rows, positions, tokens = rows[new], positions[new], tokens[new]
            session.write(rows, positions, tokens, marginals[new].of(tokens), k + 1)

            late = k == steps - 1 or not canvas.time_free  # the last model call always counts
            changed = torch.isin(batch, batch[rows]) | late


def race(weights: Tensor, u: Tensor) -> Tensor:
    """The winner (K) of weights (K, C), as published."""
    return (weights / (CLAMP - (u + CLAMP).log())).argmax(-1)


def coarse(rng: Randomness, rows: Tensor, positions: Tensor, turn: int, symbols: int) -> Tensor:
    """(K, symbols) float32 uniforms like torch.rand's, keyed by position, symbol and step."""
    places = positions.unsqueeze(1) * symbols + torch.arange(symbols)
    fine = rng.uniform(Stream.TOKEN, rows.unsqueeze(1), places, turn)
    return (torch.floor(fine / GRID) * GRID).float()
