"""The known faults, each as a sampler with exactly this fault on the exact denoiser.

A fault is a change of the session before it is filled: of its schedule, its denoiser or its randomness. Two faults have
their own loop: the race of tokens and mask (`OneShot`), and the choice over a batch (`Confident`). For samplers with
blocks the fault is in the inner sampler.

Published loops draw by a race, with coarse or repeated uniform random numbers: argmax_v w_v / E_v with E = -log u draws
v in proportion to w_v (theory.md 10). With u on a grid of 2^-bits, E has no value between 0 and 2^-bits, so symbols
that need such a value are drawn too rarely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from unmask.core.chance import Drawable, Randomness, Stream, uniform
from unmask.denoisers import Denoiser, Engine, Marginals, Reshaped, Sharpened, Table, as_marginals
from unmask.denoisers.contracts import emitted, reverse
from unmask.denoisers.reshaped import ReshapedEngine
from unmask.samplers import Sampler, Session, fill
from unmask.samplers.contract import inner_of
from unmask.samplers.rules.blocks import Blocks
from unmask.samplers.rules.confidence import LowConfidence
from unmask.samplers.rules.published import Dreamed
from unmask.samplers.rules.uniform import UniformAncestral
from unmask.samplers.schedules import Schedule, sizes

LATE = "filter after the reveal"
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
    "probabilities as logits": "tokens are drawn from softmax(p), not from p: almost uniformly",
    "filters left out": "temperature, top-p and top-k have no effect",
    LATE: "top-p or top-k comes after the choice of positions, or is of tokens and mask together",
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
FINE = 52  # bits of the uniforms of `chance`
BFLOAT16, FLOAT32 = 8, 24  # bits of torch.rand in these types
BATCH = 64  # rows of a batch in the specimen
TINY = 1e-12  # a probability that is nearly zero
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


def specimens(sampler: Sampler, steps: int, filters: Sharpened | None = None) -> Iterator[Specimen]:
    """Every ungraded fault that this sampler can have; filters: the denoiser of the sampler, if it is filtered."""
    if filters is not None:
        yield Specimen("filters left out", Changed(sampler, _refiltered(temperature=1.0, top_p=1.0, top_k=None)))
    if isinstance(sampler, UniformAncestral):
        yield Specimen("plug-in", PlugIn(sampler.grid))
        yield Specimen("early levels", EarlyLevels(sampler.grid))
        yield Specimen("precision", Changed(sampler, _altered(bfloat16)), "logits in bfloat16")
    if deciding(sampler).implements("run"):
        return
    if steps > 1 and keeps_schedule(sampler):
        yield Specimen("wrong reveal rate", Changed(sampler, _by_delta))
        yield Specimen("greedy last step", Changed(sampler, _altered(greedy_last(steps), timed=True)), "argmax")
    yield Specimen("precision", Changed(sampler, _altered(bfloat16)), "logits in bfloat16")
    yield Specimen("precision", Changed(sampler, _race(bits=BFLOAT16)), "noise in bfloat16")
    yield Specimen("reused noise", Changed(sampler, _race(shared="positions")), "at every position")
    yield Specimen(
        "repetition penalty", Changed(sampler, _altered(penalised)), f"the left neighbour's token times {PENALTY}"
    )
    few = filters is not None and (filters.top_p < 1 or filters.top_k is not None)
    drawn = Changed(sampler, _race(reshape=_few_as_logits if few else _as_logits))
    yield Specimen("probabilities as logits", Changed(drawn, _altered(_possible)))
    if deciding(sampler).implements("choose"):
        changed = Changed(sampler, _altered(lambda marginals, _: _as_logits(marginals)))
        yield Specimen("probabilities as logits", changed, "in the scores too")
    if filters is not None:
        yield Specimen("probabilities as logits", Changed(sampler, _logits_first), "before the filters")
        rule = filters.temperature, filters.top_p, filters.top_k
        if few and sampler.draws_steps:
            one = Changed(OneShot(filters=rule[1:]), _refiltered(top_p=1.0, top_k=None))
            yield Specimen(LATE, one, "tokens and mask in one race")
        elif deciding(sampler).implements("choose"):
            late = Changed(sampler, _race(reshape=lambda marginals: marginals.sharpened(*rule).dense()))
            none = Changed(late, _refiltered(temperature=1.0, top_p=1.0, top_k=None))
            yield Specimen(LATE, none, "positions are chosen without it")
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
                yield Specimen("ties", _inside(sampler, ties=ties), detail)


def tempered(sampler: Sampler, temperature: float, filters: Sharpened | None = None) -> Specimen:
    """Another sampling temperature; scores still use the temperature 1 of the model, as in LLaDA.

    If the temperature is a filter of the model's marginals, it changes the scores too."""
    own = hasattr(deciding(sampler), "temperature")
    if filters is not None and (filters.temperature != 1 or not own):
        changed: Sampler = Changed(sampler, _refiltered(temperature=temperature))
    elif own:
        changed = _inside(sampler, temperature=temperature)
    else:
        changed = Changed(sampler, _altered(lambda marginals, _: marginals.sharpened(temperature)))
    return Specimen("temperature", changed, value=temperature)


def stepped(sampler: Sampler, steps: float) -> Specimen:
    """Another number of steps."""
    number = max(1, round(min(steps, 1e6)))
    return Specimen("miscounted steps", sampler, value=number, steps=number)


def deciding(sampler: Sampler) -> Sampler:
    """The sampler that chooses positions: the inner one of blocks and of Dream."""
    return deciding(inner_of(sampler)) if isinstance(sampler, Blocks | Dreamed) else sampler


def _inside(sampler: Sampler, **options: Any) -> Sampler:
    """The sampler with options of its innermost sampler changed."""
    if isinstance(sampler, Blocks | Dreamed):
        return replace(sampler, inner=_inside(inner_of(sampler), **options))
    return cast(Sampler, replace(cast(Any, sampler), **options))


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


class Question(NamedTuple):
    """A question to an engine with these tokens."""

    tokens: Tensor  # (B, L)
    rows: Tensor  # (K)
    positions: Tensor  # (K)
    time: Tensor | None  # (B)


Change = Callable[[Marginals, Question | None], Marginals | Tensor]  # of an answer; None: the answer of a causal reader


class Altered(Reshaped):
    """A denoiser whose answers are changed; timed: by the time, too."""

    def __init__(self, inner: Denoiser, change: Change, timed: bool = False) -> None:
        super().__init__(inner)
        self.change, self.time_free = change, self.time_free and not timed

    def reshape(self, marginals: Marginals, positions: Tensor) -> Marginals | Tensor:
        return self.change(marginals, None)

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        return AlteredEngine(self, tokens, given, valid)


class AlteredEngine(ReshapedEngine):
    denoiser: Altered

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor | Marginals:
        marginals = as_marginals(self.inner.at(rows, positions, time))
        return self.denoiser.change(marginals, Question(self.tokens, rows, positions, time))


def _altered(change: Change, timed: bool = False) -> Callable[[Session], None]:
    def alter(session: Session) -> None:
        session.denoiser = Altered(session.denoiser, change, timed)

    return alter


def _refiltered(**options: Any) -> Callable[[Session], None]:
    """Change the filters of the session's denoiser."""

    def change(session: Session) -> None:
        assert isinstance(session.denoiser, Sharpened)
        session.denoiser = Sharpened(session.denoiser.inner, **dict(session.denoiser.options()) | options)

    return change


def _logits_first(session: Session) -> None:
    """Filters of softmax(p)."""
    filters = session.denoiser
    assert isinstance(filters, Sharpened)
    session.denoiser = Sharpened(Altered(filters.inner, lambda p, _: _as_logits(p)), **filters.options())


def _possible(marginals: Marginals, question: Question | None) -> Tensor:
    """Nearly the same probabilities, without zeros: a token that a fault draws can be written."""
    p = marginals.dense() + TINY
    return p / p.sum(1, keepdim=True)


def _as_logits(marginals: Marginals) -> Tensor:
    return torch.softmax(marginals.dense(), -1)


def _few_as_logits(marginals: Marginals) -> Tensor:
    """The same among the tokens that a filter leaves."""
    p = marginals.dense()
    return torch.softmax(p.masked_fill(p <= 2 * TINY, -torch.inf), -1)


def bfloat16(marginals: Marginals, question: Question | None) -> Tensor:
    return torch.softmax(marginals.dense().log().bfloat16().double(), -1)


def greedy_last(steps: int) -> Change:
    """The most likely token has probability 1 in the last of N steps: its time is 1 / N, of the previous one 2 / N."""

    def change(marginals: Marginals, question: Question | None) -> Tensor:
        assert question is not None
        assert question.time is not None
        last = (question.time[question.rows] < 1.5 / steps).unsqueeze(1)
        return torch.where(last, marginals.sharpened(0).dense(), marginals.dense())

    return change


def penalised(marginals: Marginals, question: Question | None) -> Tensor:
    """A lower probability to repeat the left neighbour."""
    assert question is not None
    p = marginals.dense().double()
    left = question.tokens[question.rows, (question.positions - 1).clamp(min=0)]
    same = (question.positions > 0).unsqueeze(1) & (torch.arange(p.shape[1]) == left.unsqueeze(1))
    p = torch.where(same, PENALTY * p, p)
    return p / p.sum(1, keepdim=True)


def _race(**options: Any) -> Callable[[Session], None]:
    def change(session: Session) -> None:
        session.denoiser = Altered(session.denoiser, lambda p, _: p)  # its engine draws every token separately
        session.rng = RaceRandomness(session.rng.seed, session.rng.row_ids, **options)

    return change


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


def race(weights: Tensor, u: Tensor, bits: int) -> Tensor:
    """(K): winner of each race with weights (K, C) and uniforms (K, C)."""
    if bits < FINE:
        u = torch.floor(u * 2**bits) * 2.0**-bits
    return (weights / -torch.log(u.clamp(min=1e-10))).argmax(-1)


def uniforms(rng: Randomness, rows: Tensor, positions: Tensor, visits: Tensor | int, symbols: int) -> Tensor:
    """(K, symbols), keyed by position, visit and symbol."""
    keys = positions.unsqueeze(1) * symbols + torch.arange(symbols)
    when = visits.unsqueeze(1) if isinstance(visits, Tensor) else visits
    return uniform(rng.seed, Stream.TOKEN, rng.row_ids[rows].unsqueeze(1), keys, when)


@dataclass(frozen=True)
class RaceRandomness(Randomness):
    """Randomness that draws tokens by a race: with coarse uniforms, or shared by all positions or all steps."""

    bits: int = FINE
    shared: str = ""
    drawn: list[int] = field(default_factory=list)  # number of positions of each draw so far
    reshape: Callable[[Marginals], Tensor] | None = None  # changes the probabilities that it draws from

    def tokens(self, marginals: Drawable, rows: Tensor, positions: Tensor, visits: Tensor) -> Tensor:
        assert isinstance(marginals, Marginals)
        when: Tensor | int = visits[rows, positions]
        if self.shared == "positions":
            positions, when = torch.zeros_like(positions), len(self.drawn)
        elif self.shared == "steps":
            when = 0
        u = uniforms(self, rows, positions, when, marginals.vocabulary)
        visits[rows, positions] += 1
        self.drawn.append(len(rows))
        return race(marginals.dense() if self.reshape is None else self.reshape(marginals), u, self.bits)


@dataclass(frozen=True)
class OneShot(Sampler):
    """The step of MDLM: one race of all tokens, with weights rho_k p_v, and the mask, with weight 1 - rho_k.

    filters: top-p and top-k of these weights."""

    bits: int = FINE
    shared: str = ""
    filters: tuple[float, int | None] = (1.0, None)

    def run(self, session: Session) -> None:
        canvas, vocabulary = session.canvas, session.denoiser.vocabulary
        for index, rho in enumerate(Schedule(session.delta).rho.tolist()):
            rows, positions = canvas.hidden.nonzero(as_tuple=True)
            if not len(rows):
                return
            marginals = canvas.at(rows, positions)
            weights = torch.cat([rho * marginals.dense(), torch.full((len(rows), 1), 1 - rho, dtype=torch.float64)], 1)
            weights = Table(weights).sharpened(1.0, *self.filters).dense()
            places = torch.zeros_like(positions) if self.shared == "positions" else positions
            when = 0 if self.shared == "steps" else index
            won = race(weights, uniforms(session.rng, rows, places, when, vocabulary + 1), self.bits)
            shown = won < vocabulary
            if shown.any():
                rows, positions, tokens = rows[shown], positions[shown], won[shown]
                session.write(rows, positions, tokens, marginals[shown].of(tokens), index + 1)
