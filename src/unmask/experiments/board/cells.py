"""What is measured: a sampler at one budget on one language, over the rows of a seed, and of several together.

The language_seed draws the language, where it is random, the seed the luck of all samplers: row r of a seed meets the
same language and the same luck whoever fills it, so that samplers are compared row by row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask import metrics
from unmask.core.chance import Luck
from unmask.core.estimates import Estimate, exactly, mean, proportion, quantile
from unmask.core.samples import digest
from unmask.denoisers import Denoiser
from unmask.experiments.board.families import Family
from unmask.experiments.board.fluency import divergence, of_reader
from unmask.generation import generate
from unmask.generation.teaching import Unbounded
from unmask.ideal import Ideal
from unmask.languages import Language, load
from unmask.languages.presets import varied
from unmask.networks import Network, read_network
from unmask.networks.model.checkpoints import read_language
from unmask.samplers import SAMPLERS
from unmask.schedules import deltas

USUAL_STEPS = 64  # where N is not the knob
FIRST_TAUGHT = 2**40  # rows whose luck only the truth meets


@dataclass(frozen=True)
class Place:
    """One language at one length, drawn with one language_seed: the truth that samplers are held against."""

    name: str
    length: int
    language_seed: int
    seed: int  # of the luck
    model: str | None = None  # the directory of a network, which fills in the place of the exact denoiser
    causal_model: str | None = None
    digest: str = ""  # of the files that these names mean
    device: str = "auto"  # where a model runs

    @cached_property
    def language(self) -> Language:
        return load(varied(self.name, seed=self.language_seed)) if self.model is None else read_language(self.model)[0]

    @cached_property
    def denoiser(self) -> Denoiser:
        return (
            Ideal(self.language)
            if self.model is None
            else network(self.model, self.causal_model, self.digest, self.device)
        )

    @cached_property
    def bits(self) -> float | None:
        """H(q) / L in bits a token; None where sequences vary in length, and no one number of tokens divides."""
        if self.language.end is not None:
            return None
        return math.log2(metrics.ter_autoregressive(self.language, self.length).value)

    def truth(self, rows: int) -> Tensor:
        """x ~ q, for the price of q's own sequences."""
        return self.language.sample(rows, self.length, seed=self.seed)


@lru_cache(maxsize=32)
def kept_place(
    name: str,
    length: int,
    language_seed: int,
    seed: int,
    model: str | None = None,
    causal_model: str | None = None,
    digest: str = "",
    device: str = "auto",
) -> Place:
    """A place, which samplers share: its language, and what is computed of it, are made once in a process."""
    return Place(name, length, language_seed, seed, model, causal_model, digest, device)


@lru_cache(maxsize=1)
def network(model: str, causal_model: str | None, digest: str = "", device: str = "auto") -> Network:
    """Read once for all cells."""
    return read_network(model, causal_model, device)


@dataclass(frozen=True)
class Sample:
    """What one seed's rows (R) came to at one budget."""

    digest: str  # of the tokens (R, L)
    values: dict[str, Tensor]  # (R) of each yardstick, NaN where a row has nothing to say
    evaluations_of: dict[str, float]  # the mean for each denoiser
    forwards: int  # batched calls, until the last row of the block is done
    own_bits: float | None  # H(q) / L, a token; None where that is not defined
    bigrams: metrics.Bigrams | None
    divergence: Tensor  # (taught rows): log q(x) - log p(x | luck); empty where there is no bound, or it is 0
    lawful: bool  # whether p(x | luck) is p(x), whatever the luck: then this is TER, and not its bound
    unbounded: str  # why there is none

    @property
    def wrong(self) -> Tensor:
        """Float (R), 1 where impossible."""
        return self.values["ser"]

    @property
    def evaluations(self) -> Tensor:
        """Float (R)."""
        return self.values["evaluations"]


def measure(place: Place, family: Family, value: Any, rows: int, taught: int) -> Sample:
    """One sampler, one budget, one seed. taught: rows for TER."""
    specification, steps = family.at(value)
    how: dict[str, Any] = {"sampler": specification, "length": place.length, "seed": place.seed}
    made = generate(place.denoiser, **how, steps=steps or USUAL_STEPS, rows=rows)
    seen = metrics.rows(made, place.language)
    found = {name: yardstick.values(seen) for name, yardstick in metrics.YARDSTICKS.items()}
    prices = price(place, specification, steps, taught)
    return Sample(
        digest=digest(made.tokens),
        values={name: values for name, values in found.items() if values is not None},
        evaluations_of={name: float(count.double().mean()) for name, count in made.evaluations_of.items()},
        forwards=made.spent.forwards,
        own_bits=place.bits,
        bigrams=metrics.bigrams(made.tokens, place.language),
        divergence=prices.divergence,
        lawful=prices.lawful,
        unbounded=prices.unbounded,
    )


class Price(NamedTuple):
    """As in Sample."""

    divergence: Tensor
    lawful: bool = False
    unbounded: str = ""


def price(place: Place, specification: str, steps: int | None, rows: int) -> Price:
    """What TER costs: the divergence of each of so many rows, or none and why there is none."""
    sampler = SAMPLERS.make(specification)
    nothing = torch.zeros(0, dtype=torch.float64)
    if rows == 0:
        return Price(nothing, unbounded="it was not asked for")
    if place.bits is None:
        return Price(nothing, unbounded="the language's sequences vary in length")
    if place.model is None and sampler.law in ("causal", "language"):  # by proof its law is q: TER is q's own
        return Price(nothing, lawful=True)
    if sampler.law == "causal":  # that of its reader
        return Price(of_reader(place.denoiser, place.language, place.truth(rows)), lawful=True)
    delta = deltas("linear", steps or USUAL_STEPS)
    luck = Luck(place.seed, torch.arange(FIRST_TAUGHT, FIRST_TAUGHT + rows))
    try:
        return Price(divergence(sampler, place.denoiser, place.language, place.truth(rows), delta, luck))
    except Unbounded as reason:
        return Price(nothing, unbounded=str(reason))


@dataclass(frozen=True)
class Point:
    """A sampler at one budget: the samples of all seeds together."""

    value: Any  # of the knob
    samples: Sequence[Sample]
    length: int

    @cached_property
    def wrong(self) -> Tensor:
        """Float (rows of all seeds), 1 where impossible."""
        return torch.cat([sample.wrong for sample in self.samples])

    def estimate(self, name: str) -> Estimate | None:
        """A yardstick, of the rows of all seeds."""
        return metrics.YARDSTICKS[name].reduce(torch.cat([sample.values[name] for sample in self.samples]))

    @cached_property
    def evaluations(self) -> float:
        return float(torch.cat([sample.evaluations for sample in self.samples]).double().mean())

    @cached_property
    def ser(self) -> Estimate:
        return proportion(int(self.wrong.sum()), len(self.wrong))

    @property
    def ser_by_seed(self) -> list[float]:
        return [float(sample.wrong.mean()) for sample in self.samples]

    @cached_property
    def divergence(self) -> Estimate | None:
        """In nats a sequence; None where there is neither TER nor a bound."""
        prices = torch.cat([sample.divergence for sample in self.samples])
        if len(prices):
            return mean(prices) if bool(prices.isfinite().all()) else None
        return None if self.unbounded else exactly(0.0)

    @property
    def unbounded(self) -> str:
        """Why there is no divergence."""
        never = any(not bool(sample.divergence.isfinite().all()) for sample in self.samples)
        return "it cannot write some of the language's sequences" if never else self.samples[0].unbounded

    @property
    def lawful(self) -> bool:
        """Whether the divergence is that of the sampler's law, and not more."""
        return all(sample.lawful for sample in self.samples)

    @property
    def ter_ratio(self) -> Estimate | None:
        """TER, or its bound, relative to the language's own."""
        if self.divergence is None:
            return None
        return self.divergence.map(lambda nats: math.exp(nats / self.length))

    @property
    def perplexity_ratio(self) -> Estimate | None:
        """The generative perplexity of the valid rows, relative to the language's own TER."""
        bits = [(s.values["generative_perplexity"], s.own_bits) for s in self.samples if s.own_bits is not None]
        if not bits:
            return None
        excess = torch.cat([(values - own)[~values.isnan()] for values, own in bits])
        return mean(excess).map(lambda value: 2.0**value) if len(excess) > 1 else None

    @property
    def diversity(self) -> Estimate | None:
        """The conditional entropy of the samples' bigrams as a share of the language's: below 1 where it repeats."""
        found = [sample.bigrams for sample in self.samples]
        shares = [b.entropy_bits / b.entropy_bits_of_language for b in found if b and b.entropy_bits_of_language > 0]
        if not shares:
            return None
        return Estimate(sum(shares) / len(shares), min(shares), max(shares), len(self.wrong), 1.0, "range over seeds")

    @property
    def variation(self) -> tuple[Estimate, float] | None:
        """(total variation of bigrams to q, that of as many perfect rows), the means over seeds."""
        found = [sample.bigrams for sample in self.samples if sample.bigrams]
        if not found:
            return None
        value = sum(b.total_variation.value for b in found) / len(found)
        error = math.sqrt(sum(b.total_variation.standard_error**2 for b in found)) / len(found)
        half = quantile() * error
        floor = sum(b.total_variation_floor for b in found) / len(found)
        return Estimate(value, max(value - half, 0.0), value + half, len(self.wrong), method="jackknife"), floor
