"""The known faults, each as a sampler with exactly this fault on the exact denoiser.

A fault is a change of the session before it is filled: of its schedule, its denoiser or its randomness. Two faults have
their own loop: the race of tokens and mask (`noise.OneShot`), and the choice over a batch (`Confident`). For samplers
with blocks the fault is in the inner sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from unmask.denoisers import Denoiser, Engine, Marginals, Reshaped, as_marginals
from unmask.denoisers.contracts import emitted, reverse
from unmask.denoisers.reshaped import ReshapedEngine
from unmask.diagnosis.audit.noise import BFLOAT16, FLOAT32, OneShot, RaceRandomness
from unmask.samplers import Sampler, Session, fill
from unmask.samplers.contract import inner_of
from unmask.samplers.rules.blocks import Blocks
from unmask.samplers.rules.confidence import LowConfidence
from unmask.samplers.rules.published import Dreamed
from unmask.samplers.rules.uniform import UniformAncestral
from unmask.samplers.schedules import sizes

FAULTS = {
    "temperature": "the sampling temperature is not 1",
    "miscounted steps": "the number of steps is not N",
    "wrong reveal rate": "a position is revealed with probability delta_k instead of rho_k = delta_k / (1 - p_k)",
    "greedy last step": "the last step takes the argmax instead of a sample",
    "precision": "probabilities or noise are too coarse: rare tokens are drawn too rarely",
    "reused noise": "the same random numbers are used more than once",
    "batch-flattened choice": "the positions of a step are chosen over the whole batch, so rows get unequal numbers",
    "ties": "equal scores are ordered differently; networks rarely have equal scores",
    "uneven steps": "a step does not reveal the number of positions in the schedule",
    "repetition penalty": "a token is repeated too rarely, or too often",
    "plug-in": "full posteriors, in place of leave-one-out ones, count each noisy token twice",
    "early levels": "the denoiser is called with the level after each step, not before it",
    "remasking": "revealed tokens are hidden again or replaced",
}
BY_TIES = {
    "chance": "equal scores in random order",
    "position": "equal scores in order of positions",
    "topk": "equal scores in the order of torch.topk",
}
HARMLESS = ("ties",)
Transform = Callable[[Marginals], Marginals | Tensor]
BATCH = 64  # rows of a batch in the specimen
PENALTY = 0.9  # factor for the token of the left neighbour


@dataclass(frozen=True)
class Specimen:
    """A sampler with one fault; `value` is the size of a graded fault, `detail` names the kind of another."""

    fault: str
    sampler: Sampler
    detail: str = ""
    value: float | None = None
    steps: int | None = None  # if different from the requested number

    @property
    def shown(self) -> str:
        return self.detail if self.value is None else f"{self.value:.3g}"

    @property
    def name(self) -> str:
        return f"{self.fault} ({self.shown})" if self.shown else self.fault


@dataclass(frozen=True)
class Changed(Sampler):
    """A sampler whose session is changed before it is filled."""

    inner: Sampler
    change: Callable[[Session], None]

    def __post_init__(self) -> None:
        object.__setattr__(self, "removes", self.inner.removes)

    def run(self, session: Session) -> None:
        self.change(session)
        fill(self.inner, session)


def specimens(sampler: Sampler, steps: int) -> Iterator[Specimen]:
    """Every ungraded fault that this sampler can have."""
    if isinstance(sampler, UniformAncestral):
        yield Specimen("plug-in", PlugIn(sampler.grid))
        yield Specimen("early levels", EarlyLevels(sampler.grid))
        yield Specimen("precision", Changed(sampler, _transform(bfloat16)), "logits in bfloat16")
    if deciding(sampler).implements("run"):
        return
    if steps > 1 and keeps_schedule(sampler):
        yield Specimen("wrong reveal rate", Changed(sampler, _by_delta))
        yield Specimen("greedy last step", Changed(sampler, _greedy_last(steps)), "argmax")
    yield Specimen("precision", Changed(sampler, _transform(bfloat16)), "logits in bfloat16")
    yield Specimen("precision", Changed(sampler, _race(bits=BFLOAT16)), "noise in bfloat16")
    yield Specimen("reused noise", Changed(sampler, _race(shared="positions")), "at every position")
    yield Specimen("repetition penalty", Changed(sampler, _penalised), f"the left neighbour's token times {PENALTY}")
    if sampler.draws_steps:
        yield Specimen("precision", OneShot(bits=BFLOAT16), "noise in bfloat16, mask and tokens in one race")
        yield Specimen("precision", OneShot(bits=FLOAT32), "noise in float32, mask and tokens in one race")
        yield Specimen("reused noise", OneShot(shared="positions"), "at every position, mask and tokens in one race")
        yield Specimen("reused noise", OneShot(shared="steps"), "in every step, mask and tokens in one race")
    elif sampler.implements("choose"):
        yield Specimen("reused noise", Changed(sampler, _race(shared="steps")), "in every step")
    if isinstance(sampler, LowConfidence):
        yield Specimen("batch-flattened choice", Confident(sampler.temperature, batch=BATCH))
    own = getattr(deciding(sampler), "ties", None)
    if own in BY_TIES and keeps_schedule(deciding(sampler)):
        for ties, detail in BY_TIES.items():
            if ties != own:
                yield Specimen("ties", _inside(sampler, partial(_tied, ties=ties)), detail)


def tempered(sampler: Sampler, temperature: float) -> Specimen:
    """Another sampling temperature; scores still use the temperature 1 of the model, as in LLaDA."""
    if hasattr(deciding(sampler), "temperature"):
        changed = _inside(sampler, lambda inner: replace(cast(Any, inner), temperature=temperature))
    else:
        changed = Changed(sampler, _transform(lambda marginals: marginals.sharpened(temperature)))
    return Specimen("temperature", changed, value=temperature)


def stepped(sampler: Sampler, steps: float) -> Specimen:
    """Another number of steps."""
    number = max(1, round(min(steps, 1e6)))
    return Specimen("miscounted steps", sampler, value=number, steps=number)


def deciding(sampler: Sampler) -> Sampler:
    """The sampler that chooses positions: the inner one of blocks and of Dream."""
    return deciding(inner_of(sampler)) if isinstance(sampler, Blocks | Dreamed) else sampler


def _inside(sampler: Sampler, change: Callable[[Sampler], Sampler]) -> Sampler:
    """The sampler with its innermost sampler changed."""
    if isinstance(sampler, Blocks | Dreamed):
        return replace(sampler, inner=_inside(inner_of(sampler), change))
    return change(sampler)


def _tied(sampler: Sampler, ties: str) -> Sampler:
    """A sampler with another order of equal scores."""
    changed: Sampler = replace(cast(Any, sampler), ties=ties)
    return changed


def keeps_schedule(sampler: Sampler) -> bool:
    """Whether the sampler uses the number of steps."""
    return sampler.removes == "uniform" or (not sampler.implements("run") and sampler.pace != "free")


def evaluates_everywhere(sampler: Sampler) -> bool:
    """Whether it evaluates all positions in every step, so that its cost grows with the number of steps."""
    inner = deciding(sampler.inner if isinstance(sampler, Changed) else sampler)
    return inner.implements("choose") or isinstance(inner, OneShot | Confident)


def _by_delta(session: Session) -> None:
    """Probability delta_k in each step, the rest in the last: fractions delta_k prod_{j<k} (1 - delta_j)."""
    delta = session.delta
    survived = torch.cat([delta.new_ones(1), (1 - delta).cumprod(0)[:-1]])
    session.delta = torch.cat([(delta * survived)[:-1], survived[-1:]])


def _greedy_last(steps: int) -> Callable[[Session], None]:
    def change(session: Session) -> None:
        session.denoiser = GreedyLast(session.denoiser, steps)

    return change


def _transform(transform: Transform) -> Callable[[Session], None]:
    def change(session: Session) -> None:
        session.denoiser = Transformed(session.denoiser, transform)

    return change


def bfloat16(marginals: Marginals) -> Tensor:
    return torch.softmax(marginals.dense().log().bfloat16().double(), -1)


def _race(**options: Any) -> Callable[[Session], None]:
    def change(session: Session) -> None:
        session.denoiser = Transformed(session.denoiser, lambda p: p)  # its engine draws every token separately
        session.rng = RaceRandomness(session.rng.seed, session.rng.row_ids, **options)

    return change


class Transformed(Reshaped):
    """A denoiser with a function applied to each marginal."""

    def __init__(self, inner: Denoiser, transform: Transform) -> None:
        super().__init__(inner)
        self.transform = transform

    def reshape(self, marginals: Marginals, positions: Tensor) -> Marginals | Tensor:
        return self.transform(marginals)


class GreedyLast(Reshaped):
    """A denoiser that gives the most likely token probability 1 in the last of N steps."""

    def __init__(self, inner: Denoiser, steps: int) -> None:
        super().__init__(inner)
        self.time_free = False
        self.last = 1.5 / steps  # the time of the last step is 1 / N, of the previous step 2 / N

    def reshape(self, marginals: Marginals, positions: Tensor) -> Marginals:
        return marginals

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        return GreedyEngine(self, tokens, given, valid)


class GreedyEngine(ReshapedEngine):
    denoiser: GreedyLast

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        assert time is not None
        marginals = as_marginals(super().at(rows, positions, time))
        last = (time[rows] < self.denoiser.last).unsqueeze(1)
        return torch.where(last, marginals.sharpened(0).dense(), marginals.dense())


def _penalised(session: Session) -> None:
    session.denoiser = Penalised(session.denoiser)


class Penalised(Reshaped):
    """A denoiser that lowers the probability of repeating the left neighbour."""

    def reshape(self, marginals: Marginals, positions: Tensor) -> Marginals:
        return marginals

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        return PenalisedEngine(self, tokens, given, valid)


class PenalisedEngine(ReshapedEngine):
    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        marginals = as_marginals(super().at(rows, positions, time)).dense().double()
        left = self.tokens[rows, (positions - 1).clamp(min=0)]
        same = (positions > 0).unsqueeze(1) & (torch.arange(marginals.shape[1]) == left.unsqueeze(1))
        marginals = torch.where(same, PENALTY * marginals, marginals)
        return marginals / marginals.sum(1, keepdim=True)


@dataclass(frozen=True)
class PlugIn(UniformAncestral):
    """The reverse step with q(x_i | y) in place of r."""

    def mu(self, alone: Tensor, tokens: Tensor, before: float, after: float) -> Tensor:
        full = emitted(alone, tokens, before)
        return reverse(full / full.sum(1, keepdim=True), tokens, before, after)


@dataclass(frozen=True)
class EarlyLevels(UniformAncestral):
    """Levels off by one: the reverse step from a_k to a_(k+1) uses r at a_(k+1), or just below 1."""

    def level(self, before: float, after: float) -> float:
        return min(after, (1 + before) / 2)


@dataclass(frozen=True)
class Confident(Sampler):
    """LLaDA's rule with torch.topk over the positions of `batch` rows together."""

    temperature: float
    batch: int

    def run(self, session: Session) -> None:
        canvas, length = session.canvas, session.tokens.shape[1]
        for index, count in enumerate(sizes(session.delta, length).tolist()):
            if count == 0:
                continue
            was = rows, positions = canvas.hidden.nonzero(as_tuple=True)
            marginals = canvas.at(rows, positions)
            drawn, scores = canvas.tokens.clone(), torch.full(canvas.tokens.shape, -torch.inf)
            drawn[rows, positions] = canvas.draw(marginals.sharpened(self.temperature), rows, positions)
            scores[rows, positions] = marginals.of(drawn[rows, positions]).float()
            chosen = torch.zeros_like(canvas.hidden)
            for part, scored in zip(chosen.split(self.batch), scores.split(self.batch), strict=True):
                part.view(-1)[torch.topk(scored.reshape(-1), count * len(part)).indices] = True
            rows, positions = chosen.nonzero(as_tuple=True)
            tokens = drawn[rows, positions]
            session.write(rows, positions, tokens, marginals[chosen[was]].of(tokens), index + 1)
