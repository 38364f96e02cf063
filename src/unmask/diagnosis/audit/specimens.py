"""The known faults, each as a sampler with exactly this fault on the exact denoiser.

A fault is a change of the session before it is filled: of its schedule, its denoiser or its randomness (changes.py).
The race of tokens and mask has its own loop (`OneShot`). For samplers with blocks the fault is in the inner sampler.
The record of the oracle names two more: a choice over a batch, and positions that are hidden again (observed.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from unmask.core import entries
from unmask.denoisers import Denoiser
from unmask.diagnosis.audit import changes
from unmask.diagnosis.audit.changes import NEUTRAL, SPOILED, Altered, Change, OneShot, RaceRandomness, filtered
from unmask.samplers import Sampler, Session, fill
from unmask.samplers.contract import inner_of
from unmask.samplers.rules.autoregressive import Autoregressive
from unmask.samplers.rules.blocks import Blocks
from unmask.samplers.rules.dream import Dreamed
from unmask.samplers.rules.uniform import UniformAncestral
from unmask.samplers.schedules import ScheduleLike

LATE = "filter after the reveal"
CUTS = ("top_p", "top_k", "min_p")  # filters that leave only some tokens
REPEATS = "repetition_penalty"  # the filter that reads the other tokens of a row
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
    "filters left out": "filters of the loop have no effect",
    "order of filters": "the filters are applied in another order",
    LATE: "a filter comes after the choice of positions, or is of tokens and mask together",
    "repetition penalty": "a token is repeated too rarely, or too often",
    "wrong acceptance ratio": "drafts y are kept with another probability than min(1, p(y) / d(y))",
    "missing residual": "a rejected draft is replaced from the target p, not from (p - d)+: likely drafts count twice",
    "draft without verification": "tokens have the distribution of the draft",
    "plug-in": "full posteriors, in place of leave-one-out ones, count each noisy token twice",
    "early levels": "the denoiser is called with the level after each step, not before it",
    "remasking": "revealed tokens are hidden again or replaced",
    "other positions": "the positions of a step are chosen by another rule",
    "other logits": "tokens are drawn from the logits of another position, row or step",
    "second draw": "a token is drawn again after the first draw has chosen its position",
    "another filter": "a filter that was not named, or another rule of the same one; coarse noise does the same",
    "rare tokens": "probabilities or noise are too coarse, or a filter leaves rare tokens out",
    "excluded tokens": "tokens are written that the model gives probability 0",
}
BY_TIES = {
    "chance": "equal scores in random order",
    "position": "equal scores in order of positions",
    "topk": "equal scores in the order of torch.topk",
}
ONE_RACE: tuple[tuple[str, OneShot, str], ...] = (
    ("precision", OneShot(bits=changes.BFLOAT16), "noise in bfloat16"),
    ("precision", OneShot(bits=changes.FLOAT32), "noise in float32"),
    ("reused noise", OneShot(shared="positions"), "at every position"),
    ("reused noise", OneShot(shared="steps"), "in every step"),
)
HARMLESS = ("ties",)
EXCLUDING = (  # faults that write tokens which the model, or its filter, excludes
    "probabilities as logits",
    "other logits",
    "filters left out",
    "order of filters",
    "another filter",
    LATE,
)
PENALTY = 1.2


@dataclass(frozen=True)
class Specimen:
    """A sampler with one fault; `value` is the size of a graded fault, `detail` names the kind of another."""

    fault: str
    sampler: Sampler
    detail: str = ""  # of a graded fault, its value
    value: float | None = None
    steps: int | None = None  # if different from the requested number

    @property
    def name(self) -> str:
        return named(self.fault, self.detail)


def named(fault: str | None, detail: object) -> str:
    """A fault with its detail, if it has one."""
    return f"{fault} ({detail})" if detail else str(fault)


@dataclass(frozen=True)
class Meant:
    """The loop as it should be."""

    sampler: Sampler
    schedule: ScheduleLike
    delta: Tensor  # (N): of the schedule
    exact: Denoiser  # without filters
    filters: Mapping[str, Any] = field(default_factory=dict)  # in their order
    draft: float | None = None  # weight of the error of the draft

    @property
    def denoiser(self) -> Denoiser:
        return Altered(self.exact, partial(filtered, self.filters)) if self.filters else self.exact

    def with_filters(self, filters: Mapping[str, Any], change: Change | None = None) -> Sampler:
        """The sampler with other filters, of changed probabilities."""
        return Changed(self.sampler, denoiser=Altered(Altered(self.exact, change), partial(filtered, filters)))


@dataclass(frozen=True)
class Changed(Sampler):
    """A sampler whose session is changed before it is filled."""

    inner: Sampler
    delta: Tensor | None = None  # another schedule
    denoiser: Denoiser | None = None  # another one
    change: Change | None = None  # of the probabilities
    timed: bool = False  # whether the change depends on the time
    race: Mapping[str, Any] | None = None  # options of RaceRandomness: tokens are drawn by a race

    def __post_init__(self) -> None:
        object.__setattr__(self, "removes", self.inner.removes)

    def run(self, session: Session) -> None:
        session.delta = entries.chosen(self.delta, session.delta)
        session.denoiser = entries.chosen(self.denoiser, session.denoiser)
        if self.change is not None:
            session.denoiser = Altered(session.denoiser, self.change, self.timed)
        if self.race is not None:
            session.denoiser = Altered(session.denoiser)  # its engine draws every token separately
            session.rng = RaceRandomness(session.rng.seed, session.rng.row_ids, **self.race)
        fill(self.inner, session)


def specimens(meant: Meant) -> Iterator[Specimen]:
    """Every ungraded fault that this loop can have."""
    sampler, steps, decides = meant.sampler, len(meant.delta), deciding(meant.sampler)
    if meant.filters:
        yield from _filter_faults(meant)
    if meant.draft is not None:
        for fault in SPOILED:
            unfiltered = Altered(meant.exact, partial(changes.spoiled, fault, meant.draft, meant.filters))
            yield Specimen(fault[0], Changed(sampler, denoiser=unfiltered), fault[1])

    if isinstance(sampler, UniformAncestral):
        yield Specimen("plug-in", changes.PlugIn(sampler.grid))
        yield Specimen("early levels", changes.EarlyLevels(sampler.grid))
    if sampler.removes == "uniform" or not decides.implements("run") or isinstance(decides, Autoregressive):
        yield Specimen(
            "precision",
            Changed(sampler, change=partial(changes.rounded, torch.bfloat16)),
            "logits in bfloat16",
        )

    if decides.implements("run") and not isinstance(decides, Autoregressive):
        return

    if steps > 1 and keeps_schedule(sampler):
        yield Specimen("wrong reveal rate", Changed(sampler, delta=_by_delta(meant.delta)))
        yield Specimen(
            "greedy last step",
            Changed(sampler, change=partial(changes.greedy_last, steps), timed=True),
            "argmax",
        )

    yield Specimen("precision", Changed(sampler, race={"bits": changes.BFLOAT16}), "noise in bfloat16")
    yield Specimen("reused noise", Changed(sampler, race={"shared": "positions"}), "at every position")

    if REPEATS not in meant.filters:
        yield Specimen(
            "repetition penalty",
            meant.with_filters({REPEATS: PENALTY, **meant.filters}),
            f"{PENALTY}, of every token of the row",
        )

    few = not meant.filters.keys().isdisjoint(CUTS)
    drawn = Changed(sampler, race={"reshape": changes.few_as_logits if few else changes.as_logits})
    yield Specimen("probabilities as logits", Changed(drawn, change=changes.possible))
    if decides.implements("choose"):
        yield Specimen(
            "probabilities as logits",
            Changed(sampler, change=lambda p, _: changes.as_logits(p)),
            "in the scores too",
        )

    if sampler.draws_steps:
        for name, one, detail in ONE_RACE:
            yield Specimen(name, one, f"{detail}, mask and tokens in one race")
    elif sampler.implements("choose"):
        yield Specimen("reused noise", Changed(sampler, race={"shared": "steps"}), "in every step")

    own = getattr(decides, "ties", None)
    if own in BY_TIES and keeps_schedule(decides):
        for ties, detail in BY_TIES.items():
            if ties != own:
                yield Specimen("ties", _inside(sampler, ties=ties), detail)


def _filter_faults(meant: Meant) -> Iterator[Specimen]:
    """Filters that are left out, in another order, of other numbers, or after the choice of positions."""
    sampler, filters, names = meant.sampler, meant.filters, list(meant.filters)
    if len(names) > 1:
        yield Specimen("filters left out", meant.with_filters({}), "all")
    for name in names:
        yield Specimen("filters left out", meant.with_filters(entries.without(filters, {name})), name)

    order = names[::-1]
    if "temperature" in names:  # it moves to the other end
        first = names[0] == "temperature"
        order = sorted(names, key=lambda name: (name == "temperature") == first)
    if order != names and not {"temperature", "top_k"}.issuperset(names):
        yield Specimen("order of filters", meant.with_filters(entries.picked(filters, order)), ", ".join(order))

    if deciding(sampler).implements("run"):
        return

    yield Specimen(
        "probabilities as logits",
        meant.with_filters(filters, lambda p, _: changes.as_logits(p)),
        "before the filters",
    )
    if sampler.draws_steps and not filters.keys().isdisjoint(CUTS):
        before = partial(filtered, entries.without(filters, CUTS))
        cuts = entries.without(filters, NEUTRAL.keys() - {*CUTS})
        one = Changed(OneShot(filters=cuts), denoiser=Altered(meant.exact, before))
        yield Specimen(LATE, one, "tokens and mask in one race")
    elif deciding(sampler).implements("choose"):
        before, after = partial(filtered, entries.picked(filters, {REPEATS})), entries.without(filters, {REPEATS})
        drawn = Changed(sampler, race={"reshape": lambda p: filtered(after, p).dense()})
        one = Changed(drawn, denoiser=Altered(meant.exact, before))
        yield Specimen(LATE, one, "positions are chosen without it")


def tempered(meant: Meant, temperature: float) -> Specimen:
    """Another sampling temperature; scores still use the temperature 1 of the model, as in LLaDA.

    If the temperature is a filter of the loop, it changes the scores too."""
    own = hasattr(deciding(meant.sampler), "temperature")
    if meant.filters and ("temperature" in meant.filters or not own):
        changed = meant.with_filters({"temperature": 1.0} | dict(meant.filters) | {"temperature": temperature})
    elif own:
        changed = _inside(meant.sampler, temperature=temperature)
    else:
        changed = Changed(meant.sampler, change=partial(filtered, {"temperature": temperature}))
    return Specimen("temperature", changed, f"{temperature:.3g}", temperature)


def stepped(sampler: Sampler, steps: float) -> Specimen:
    """Another number of steps."""
    number = max(1, round(min(steps, 1e6)))
    return Specimen("miscounted steps", sampler, f"{number:.3g}", number, number)


def deciding(sampler: Sampler) -> Sampler:
    """The sampler that chooses positions: the inner one of blocks and of Dream."""
    return deciding(inner_of(sampler)) if isinstance(sampler, Blocks | Dreamed) else sampler


def _inside(sampler: Sampler, **options: Any) -> Sampler:
    """The sampler with options of its innermost sampler changed."""
    return replaced_inside(sampler, cast(Sampler, replace(cast(Any, deciding(sampler)), **options)))


def replaced_inside(sampler: Sampler, rule: Sampler) -> Sampler:
    """The sampler with another innermost one."""
    if isinstance(sampler, Blocks | Dreamed):
        return replace(sampler, inner=replaced_inside(inner_of(sampler), rule))
    return rule


def keeps_schedule(sampler: Sampler) -> bool:
    """Whether the sampler uses the number of steps."""
    return sampler.removes == "uniform" or (not sampler.implements("run") and sampler.pace != "free")


def evaluates_everywhere(sampler: Sampler) -> bool:
    """Whether it evaluates all positions in every step, so that its cost grows with the number of steps."""
    while isinstance(sampler, Changed):
        sampler = sampler.inner
    inner = deciding(sampler)
    return inner.implements("choose") or isinstance(inner, OneShot)


def _by_delta(delta: Tensor) -> Tensor:
    """Probability delta_k in each step, the rest in the last: fractions delta_k prod_{j<k} (1 - delta_j)."""
    survived = torch.cat([delta.new_ones(1), (1 - delta).cumprod(0)[:-1]])
    return torch.cat([(delta * survived)[:-1], survived[-1:]])
