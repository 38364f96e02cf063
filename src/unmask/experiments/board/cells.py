"""One sampler at one budget on one language: the sequences of one seed, and of several seeds together.

Row r of a seed has the same language and the same random numbers for every sampler, so samplers are compared row by
row.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor

from unmask import metrics
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError, cut
from unmask.core.estimates import Estimate, exactly, mean, proportion, quantile
from unmask.core.samples import digest
from unmask.denoisers import Denoiser, Ideal
from unmask.experiments.board.families import STEPS, Family
from unmask.languages import Language, load
from unmask.models.trained import Network, read_network
from unmask.models.trained.checkpoints import read_language
from unmask.samplers import SAMPLERS, Sampler, generate
from unmask.samplers.schedules import deltas
from unmask.samplers.teaching import Unbounded, read, teach_sampler

USUAL_STEPS = 64  # if N is not the knob
FIRST_TAUGHT = 2**40  # rows whose randomness only the true distribution uses
FILE = "curve.npz"
PRICE = "divergence"  # the only tensor of a file that is not a metric
MOST = 2**30  # unpacked bytes of a file
BROKEN = (OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Place:
    """One language at one length: the true distribution for comparisons."""

    spec: str
    length: int
    seed: int  # of the samples
    model: str | None = None  # directory of a network in place of the exact denoiser
    causal_model: str | None = None
    digest: str = ""  # of the named files
    device: str = "auto"  # of the model

    @cached_property
    def language(self) -> Language:
        return load(self.spec) if self.model is None else read_language(self.model)[0]

    @cached_property
    def denoiser(self) -> Denoiser:
        return (
            Ideal(self.language)
            if self.model is None
            else network(self.model, self.causal_model, self.digest, self.device)
        )

    @cached_property
    def bits(self) -> float | None:
        """H(q) / L in bits per token; None if sequences vary in length."""
        if self.language.end is not None:
            return None
        return math.log2(metrics.ter_autoregressive(self.language, self.length).value)

    def truth(self, rows: int) -> Tensor:
        """x ~ q, for the bound of TER."""
        return self.language.sample(rows, self.length, seed=self.seed)


cached_place = lru_cache(maxsize=32)(Place)  # samplers use the same place and its cached properties


@lru_cache(maxsize=1)
def network(model: str, causal_model: str | None, digest: str = "", device: str = "auto") -> Network:
    """Read a network once for all cells."""
    return read_network(model, causal_model, device)


@dataclass(frozen=True)
class Sample:
    """The results of the rows (R) of one seed at one budget."""

    digest: str  # of the tokens (R, L)
    values: dict[str, Tensor]  # (R) of each metric, NaN where it is not defined
    model_calls_of: dict[str, float]  # the mean for each denoiser
    forwards: int  # batched calls until the last row is done
    own_bits: float | None  # H(q) / L per token; None if not defined
    bigrams: metrics.Bigrams | None
    divergence: Tensor  # (taught rows): log q(x) - log p(x | randomness); empty if 0 or unbounded
    proper: bool  # p(x | randomness) = p(x) always: the divergence gives TER, not a bound
    unbounded: str  # the reason for a missing bound

    @property
    def wrong(self) -> Tensor:
        """Float (R), 1 where impossible."""
        return self.values["ser"]

    @property
    def model_calls(self) -> Tensor:
        """Float (R)."""
        return self.values["model_calls"]


def measure(place: Place, family: Family, value: Any, rows: int, taught: int) -> Sample:
    """Measure one sampler at one budget with one seed. taught: rows for TER."""
    specification, steps = family.at(value)
    settings: dict[str, Any] = {"sampler": specification, "length": place.length, "seed": place.seed}
    source = place.language if place.model is None else place.denoiser
    generation = generate(source, **settings, steps=steps or USUAL_STEPS, rows=rows)
    sequences = metrics.rows(generation, place.language)
    by_name = {name: metric.values(sequences) for name, metric in metrics.METRICS.items()}
    prices = price(place, specification, steps, taught)
    return Sample(
        digest=digest(generation.tokens),
        values={name: values for name, values in by_name.items() if values is not None},
        model_calls_of={name: float(count.double().mean()) for name, count in generation.model_calls_of.items()},
        forwards=generation.spent.forwards,
        own_bits=place.bits,
        bigrams=metrics.bigrams(generation.tokens, place.language),
        divergence=prices.divergence,
        proper=prices.proper,
        unbounded=prices.unbounded,
    )


class Price(NamedTuple):
    """The fields of a Sample for TER."""

    divergence: Tensor
    proper: bool = False
    unbounded: str = ""


def price(place: Place, specification: str, steps: int | None, rows: int) -> Price:
    """The divergence of each row for TER, or the reason for a missing one."""
    sampler = SAMPLERS.make(specification)
    nothing = torch.zeros(0, dtype=torch.float64)
    if rows == 0:
        return Price(nothing, unbounded="it was not requested")
    if place.bits is None:
        return Price(nothing, unbounded="the language's sequences vary in length")
    if place.model is None and sampler.distribution in (
        "causal",
        "language",
    ):  # proved: its distribution is q
        return Price(nothing, proper=True)
    if sampler.distribution == "causal":  # the distribution of its causal reader
        return Price(of_reader(place.denoiser, place.language, place.truth(rows)), proper=True)
    delta = deltas("linear", steps or USUAL_STEPS)
    rng = Randomness(place.seed, torch.arange(FIRST_TAUGHT, FIRST_TAUGHT + rows))
    try:
        return Price(divergence(sampler, place.denoiser, place.language, place.truth(rows), delta, rng))
    except Unbounded as reason:
        return Price(nothing, unbounded=str(reason))


@dataclass(frozen=True)
class Point:
    """A sampler at one budget: the results of all seeds together."""

    value: Any  # of the knob
    samples: Sequence[Sample]
    length: int

    @cached_property
    def wrong(self) -> Tensor:
        """Float (rows of all seeds), 1 where impossible."""
        return torch.cat([sample.wrong for sample in self.samples])

    def estimate(self, name: str) -> Estimate | None:
        """A metric of the rows of all seeds."""
        return metrics.METRICS[name].reduce(torch.cat([sample.values[name] for sample in self.samples]))

    @cached_property
    def model_calls(self) -> float:
        return float(torch.cat([sample.model_calls for sample in self.samples]).double().mean())

    @cached_property
    def ser(self) -> Estimate:
        return proportion(int(self.wrong.sum()), len(self.wrong))

    @property
    def ser_by_seed(self) -> list[float]:
        return [float(sample.wrong.mean()) for sample in self.samples]

    @cached_property
    def divergence(self) -> Estimate | None:
        """Nats per sequence; None if there is neither TER nor a bound."""
        prices = torch.cat([sample.divergence for sample in self.samples])
        if len(prices):
            return mean(prices) if bool(prices.isfinite().all()) else None
        return None if self.unbounded else exactly(0.0)

    @property
    def unbounded(self) -> str:
        """The reason for a missing divergence."""
        never = any(not bool(sample.divergence.isfinite().all()) for sample in self.samples)
        return "it cannot generate some sequences of the language" if never else self.samples[0].unbounded

    @property
    def proper(self) -> bool:
        """Whether the divergence is exactly that of the sampler's distribution, not a bound."""
        return all(sample.proper for sample in self.samples)

    @property
    def ter_ratio(self) -> Estimate | None:
        """TER or its bound, relative to TER of the language itself."""
        if self.divergence is None:
            return None
        return self.divergence.map(lambda nats: math.exp(nats / self.length))

    @property
    def perplexity_ratio(self) -> Estimate | None:
        """The generative perplexity of valid rows, relative to TER of the language itself."""
        bits = [(s.values["generative_perplexity"], s.own_bits) for s in self.samples if s.own_bits is not None]
        if not bits:
            return None
        excess = torch.cat([(values - own)[~values.isnan()] for values, own in bits])
        return mean(excess).map(lambda value: 2.0**value) if len(excess) > 1 else None

    @property
    def diversity(self) -> Estimate | None:
        """The conditional entropy of bigrams relative to that of the language: below 1 for repetitive samples."""
        bigrams = [sample.bigrams for sample in self.samples]
        ratios = [b.entropy_bits / b.entropy_bits_of_language for b in bigrams if b and b.entropy_bits_of_language > 0]
        if not ratios:
            return None
        return Estimate(sum(ratios) / len(ratios), min(ratios), max(ratios), len(self.wrong), 1.0, "range over seeds")

    @property
    def variation(self) -> tuple[Estimate, float] | None:
        """(total variation of bigrams to q, the same for an equal number of perfect rows): means over seeds."""
        bigrams = [sample.bigrams for sample in self.samples if sample.bigrams]
        if not bigrams:
            return None
        value = sum(b.total_variation.value for b in bigrams) / len(bigrams)
        error = math.sqrt(sum(b.total_variation.standard_error**2 for b in bigrams)) / len(bigrams)
        half = quantile() * error
        floor = sum(b.total_variation_floor for b in bigrams) / len(bigrams)
        return Estimate(value, max(value - half, 0.0), value + half, len(self.wrong), method="jackknife"), floor


def walk(member: Family, most: float, at: Callable[[int], Point | None]) -> list[Point]:
    """The points of a family until a row needs `most` model calls, or until N has no effect.

    at: returns the point at the budget of an index, or None.
    """
    points: list[Point] = []
    for index in range(len(member.values)):
        point = at(index)
        if point is None:
            continue
        if points and does_nothing(point, points[-1]):
            if member.knob == STEPS:
                break
            continue
        points.append(point)
        if point.model_calls >= most - 1e-9:
            break
    return points


def does_nothing(point: Point, earlier: Point) -> bool:
    """Whether another value of the knob changed no token and no model call."""
    pairs = zip(point.samples, earlier.samples, strict=True)
    return all(a.digest == b.digest and torch.equal(a.model_calls, b.model_calls) for a, b in pairs)


def joined(member: Family, length: int, seeds: Sequence[Mapping[int, Sample]]) -> list[Point]:
    """The points at budgets of all seeds, until a row costs as much as AR. seeds: samples by index of the budget."""

    def at(index: int) -> Point | None:
        if not all(index in samples for samples in seeds):
            return None
        return Point(member.values[index], [samples[index] for samples in seeds], length)

    return walk(member, length, at)


def to_bytes(samples: Mapping[int, Sample]) -> bytes:
    """The rows of one seed as an .npz of numpy: arrays such as "3.ser", and all other fields as JSON."""
    arrays: dict[str, Any] = {}
    about = {}
    for index, sample in samples.items():
        fields = asdict(sample)
        tensors = fields.pop("values") | {PRICE: fields.pop(PRICE)}
        arrays |= {f"{index}.{name}": tensor.numpy() for name, tensor in tensors.items()}
        about[index] = fields
    file = io.BytesIO()
    np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)
    return file.getvalue()


def from_file(path: Path, rows: int) -> dict[int, Sample]:
    """The samples of a file by the index of their budget; each must have this number of rows."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > MOST:
                raise ValueError(f"it unpacks to more than {MOST} bytes")
        with np.load(path, allow_pickle=False) as arrays:
            tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files if name != "about"}
            about = json.loads(str(arrays["about"]))
        return {int(index): _sample(f"{index}.", fields, tensors, rows) for index, fields in about.items()}
    except BROKEN as error:
        advice = "choose another store to measure it again"
        raise UnmaskError(f"{path} has no results of a curve: {cut(str(error))}; {advice}") from error


def _sample(of: str, fields: dict[str, Any], tensors: Mapping[str, Tensor], rows: int) -> Sample:
    values = {name.removeprefix(of): tensor for name, tensor in tensors.items() if name.startswith(of)}
    price = values.pop(PRICE)
    if {tensor.shape for tensor in values.values()} != {(rows,)} or price.ndim != 1:
        raise ValueError(f"budget {of} has other rows than {rows}")
    bigrams = msgspec.convert(fields["bigrams"], metrics.Bigrams | None)
    return Sample(**fields | {"values": values, PRICE: price, "bigrams": bigrams})


def of_reader(denoiser: Denoiser, language: Language, truth: Tensor) -> Tensor:
    """(B) log q(x) - log p(x) of a causal reader, for each true row (B, L)."""
    probability = read(denoiser, truth).of(truth.reshape(-1)).view_as(truth)
    return language.log_prob(truth) - probability.log().sum(1)


def divergence(
    sampler: Sampler, denoiser: Denoiser, language: Language, truth: Tensor, delta: Tensor, rng: Randomness
) -> Tensor:
    """(B) log q(x) - log p(x | randomness) in nats of each true row (B, L) ~ q: its mean is at least KL(q || p).

    Raises Unbounded if there is no such bound; infinite where the sampler cannot generate x.
    """
    nats = teach_sampler(denoiser, language.blank(*truth.shape), truth, sampler, delta, rng)
    return language.log_prob(truth) + nats.sum(1)
