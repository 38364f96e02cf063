"""The known faults, each as a sampler that has exactly this fault on the exact denoiser.

A fault is a change of the session before it is filled: of its shares of the rounds, of its denoiser, or of its luck.
Two need a loop of their own: the race of tokens and mask (`noise.OneShot`), and the choice over a batch (`Confident`).
In blocks a fault is that of what fills them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from unmask.denoisers import Denoiser, Engine, Marginals, Reshaped, as_marginals
from unmask.denoisers.reshaped import ReshapedEngine
from unmask.diagnosis.audit.noise import BFLOAT16, FLOAT32, OneShot, RaceLuck
from unmask.samplers import Sampler, Session, checks, fill
from unmask.samplers.blocks import Blocks
from unmask.samplers.low_confidence import LowConfidence
from unmask.samplers.published.dream import Dreamed
from unmask.schedules import sizes

FAULTS = {
    "temperature": "tokens are drawn at a temperature that is not 1",
    "miscounted steps": "the number of rounds is not N",
    "wrong reveal rate": "a hidden place is revealed with probability delta_k instead of rho_k = delta_k / (1 - p_k)",
    "greedy last step": "what is left in the last round is filled by argmax, not drawn",
    "precision": "probabilities or noise are too coarse: rare tokens are drawn too rarely",
    "reused noise": "the same random numbers are used more than once",
    "batch-flattened choice": "the places of a round are chosen over the whole batch, so that rows trade places",
    "ties": "equal scores are ordered in another way; a network has hardly any",
    "uneven rounds": "a round does not reveal as many places as the schedule gives to it",
    "repetition penalty": "a token is drawn too rarely beside itself, or too often",
    "remasking": "what was revealed is hidden again or replaced",
}
BY_TIES = {
    "chance": "equal scores by chance",
    "position": "equal scores by lowest position",
    "topk": "equal scores as torch.topk has them",
}
HARMLESS = ("ties",)
Bend = Callable[[Marginals], Marginals | Tensor]
BATCH = 64  # rows that trade places in the specimen
PENALTY = 0.9  # on the token of the left neighbour


@dataclass(frozen=True)
class Specimen:
    """A sampler with one fault; `value` where the fault comes in degrees, `detail` where it comes in kinds."""

    fault: str
    sampler: Sampler
    detail: str = ""
    value: float | None = None
    rounds: int | None = None  # where they are not those that were asked for

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

    def run(self, session: Session) -> None:
        self.change(session)
        fill(self.inner, session)


def specimens(sampler: Sampler, rounds: int) -> Iterator[Specimen]:
    """Every known fault that this sampler can have and that has no degrees."""
    if rounds > 1 and keeps_schedule(sampler):
        yield Specimen("wrong reveal rate", Changed(sampler, _by_delta))
        yield Specimen("greedy last step", Changed(sampler, _greedy_last(rounds)), "argmax")
    yield Specimen("precision", Changed(sampler, _bend(bfloat16)), "logits in bfloat16")
    yield Specimen("precision", Changed(sampler, _race(bits=BFLOAT16)), "noise in bfloat16")
    yield Specimen("reused noise", Changed(sampler, _race(shared="positions")), "at every position")
    yield Specimen("repetition penalty", Changed(sampler, _penalised), f"the left neighbour's token times {PENALTY}")
    if sampler.draws_rounds:
        yield Specimen("precision", OneShot(bits=BFLOAT16), "noise in bfloat16, mask and tokens in one race")
        yield Specimen("precision", OneShot(bits=FLOAT32), "noise in float32, mask and tokens in one race")
        yield Specimen("reused noise", OneShot(shared="positions"), "at every position, mask and tokens in one race")
        yield Specimen("reused noise", OneShot(shared="rounds"), "in every round, mask and tokens in one race")
    elif sampler.implements("choose"):
        yield Specimen("reused noise", Changed(sampler, _race(shared="rounds")), "in every round")
    if isinstance(sampler, LowConfidence):
        yield Specimen("batch-flattened choice", Confident(sampler.temperature, batch=BATCH))
    own = getattr(deciding(sampler), "ties", None)
    if own in BY_TIES and keeps_schedule(deciding(sampler)):
        for ties, detail in BY_TIES.items():
            if ties != own:
                yield Specimen("ties", _inside(sampler, partial(_tied, ties=ties)), detail)


def tempered(sampler: Sampler, temperature: float) -> Specimen:
    """Tokens drawn at another temperature; a sampler that has one goes on scoring by the model's own, as LLaDA does."""
    if hasattr(deciding(sampler), "temperature"):
        made = _inside(sampler, lambda inner: replace(cast(Any, inner), temperature=temperature))
    else:
        made = Changed(sampler, _bend(lambda said: said.sharpened(temperature)))
    return Specimen("temperature", made, value=temperature)


def stepped(sampler: Sampler, rounds: float) -> Specimen:
    """Another number of rounds."""
    number = max(1, round(min(rounds, 1e6)))
    return Specimen("miscounted steps", sampler, value=number, rounds=number)


def deciding(sampler: Sampler) -> Sampler:
    """What decides: inside blocks, or with Dream's counts, the sampler that is given them."""
    return deciding(checks.made(sampler.inner)) if isinstance(sampler, Blocks | Dreamed) else sampler


def _inside(sampler: Sampler, change: Callable[[Sampler], Sampler]) -> Sampler:
    """The sampler with what decides changed, in blocks where it has them."""
    if isinstance(sampler, Blocks | Dreamed):
        return replace(sampler, inner=_inside(checks.made(sampler.inner), change))
    return change(sampler)


def _tied(sampler: Sampler, ties: str) -> Sampler:
    """A sampler that scores, with equal scores in another order."""
    changed: Sampler = replace(cast(Any, sampler), ties=ties)
    return changed


def keeps_schedule(sampler: Sampler) -> bool:
    """Whether the number of rounds means anything to it."""
    return not sampler.implements("run") and sampler.pace != "free"


def looks_everywhere(sampler: Sampler) -> bool:
    """Whether it looks at every place in every round, so that its cost grows with their number."""
    inner = deciding(sampler.inner if isinstance(sampler, Changed) else sampler)
    return inner.implements("choose") or isinstance(inner, OneShot | Confident)


def _by_delta(session: Session) -> None:
    """Revealed with probability delta_k each round, the rest in the last: shares delta_k prod_{j<k} (1 - delta_j)."""
    delta = session.delta
    survived = torch.cat([delta.new_ones(1), (1 - delta).cumprod(0)[:-1]])
    session.delta = torch.cat([(delta * survived)[:-1], survived[-1:]])


def _greedy_last(rounds: int) -> Callable[[Session], None]:
    def change(session: Session) -> None:
        session.denoiser = GreedyLast(session.denoiser, rounds)

    return change


def _bend(bend: Bend) -> Callable[[Session], None]:
    def change(session: Session) -> None:
        session.denoiser = Bent(session.denoiser, bend)

    return change


def bfloat16(said: Marginals) -> Tensor:
    return torch.softmax(said.dense().log().bfloat16().double(), -1)


def _race(**options: Any) -> Callable[[Session], None]:
    def change(session: Session) -> None:
        session.denoiser = Bent(session.denoiser, lambda said: said)  # an engine that asks the luck for every token
        session.luck = RaceLuck(session.luck.seed, session.luck.row_ids, **options)

    return change


class Bent(Reshaped):
    """A denoiser whose marginals go through a function, each by itself."""

    def __init__(self, inner: Denoiser, bend: Bend) -> None:
        super().__init__(inner)
        self.bend = bend

    def reshape(self, marginals: Marginals, positions: Tensor) -> Marginals | Tensor:
        return self.bend(marginals)


class GreedyLast(Reshaped):
    """A denoiser that in the last of N rounds puts everything on the most likely token."""

    def __init__(self, inner: Denoiser, rounds: int) -> None:
        super().__init__(inner)
        self.time_free = False
        self.last = 1.5 / rounds  # the time of the last round is 1 / N, that of the one before 2 / N

    def reshape(self, marginals: Marginals, positions: Tensor) -> Marginals:
        return marginals

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        return GreedyEngine(self, tokens, given, valid)


class GreedyEngine(ReshapedEngine):
    denoiser: GreedyLast

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        assert time is not None
        said = as_marginals(super().at(rows, positions, time))
        last = (time[rows] < self.denoiser.last).unsqueeze(1)
        return torch.where(last, said.sharpened(0).dense(), said.dense())


def _penalised(session: Session) -> None:
    session.denoiser = Penalised(session.denoiser)


class Penalised(Reshaped):
    """A denoiser that says too little of a token whose left neighbour is the same."""

    def reshape(self, marginals: Marginals, positions: Tensor) -> Marginals:
        return marginals

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        return PenalisedEngine(self, tokens, given, valid)


class PenalisedEngine(ReshapedEngine):
    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        said = as_marginals(super().at(rows, positions, time)).dense().double()
        left = self.tokens[rows, (positions - 1).clamp(min=0)]
        same = (positions > 0).unsqueeze(1) & (torch.arange(said.shape[1]) == left.unsqueeze(1))
        said = torch.where(same, PENALTY * said, said)
        return said / said.sum(1, keepdim=True)


@dataclass(frozen=True)
class Confident(Sampler):
    """LLaDA's rule with torch.topk over the places of `batch` rows together."""

    temperature: float
    batch: int

    def run(self, session: Session) -> None:
        canvas, length = session.canvas, session.tokens.shape[1]
        for index, count in enumerate(sizes(session.delta, length).tolist()):
            if count == 0:
                continue
            was = rows, positions = canvas.hidden.nonzero(as_tuple=True)
            said = canvas.at(rows, positions)
            drawn, scores = canvas.tokens.clone(), torch.full(canvas.tokens.shape, -torch.inf)
            drawn[rows, positions] = canvas.draw(said.sharpened(self.temperature), rows, positions)
            scores[rows, positions] = said.of(drawn[rows, positions]).float()
            chosen = torch.zeros_like(canvas.hidden)
            for part, scored in zip(chosen.split(self.batch), scores.split(self.batch), strict=True):
                part.view(-1)[torch.topk(scored.reshape(-1), count * len(part)).indices] = True
            rows, positions = chosen.nonzero(as_tuple=True)
            tokens = drawn[rows, positions]
            session.write(rows, positions, tokens, said[chosen[was]].of(tokens), index + 1)
