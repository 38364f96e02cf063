"""The job `curve`: one sampler at all its budgets, on one language at one length, with one seed.

Its records are those of `of_point` for each budget, with `knob` and `budget`. A failed budget is a record `failure`
without a value; its `note` is the reason, and other budgets go on. Its file has the rows, which `joined` reads from
several seeds. Row r of a seed has the same language and the same random numbers for every sampler, so samplers are
compared row by row.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unmask import metrics
from unmask.core import entries, progress
from unmask.core.chance import Randomness
from unmask.core.errors import Missing, UnmaskError, cut
from unmask.core.estimates import Estimate, exactly, proportion
from unmask.core.files import finite
from unmask.core.means import mean
from unmask.core.samples import digest as digest_of
from unmask.denoisers import Denoiser, Ideal
from unmask.experiments.board.families import STEPS, Family, code_of, family
from unmask.experiments.cell import Place, Record, job
from unmask.experiments.jobs.sources import USUAL_STEPS, ground_truth, unchanged
from unmask.languages import Language
from unmask.models.trained import Network, read_network
from unmask.models.trained.checkpoints import read_language
from unmask.samplers import SAMPLERS, Sampler, generate
from unmask.samplers.schedules import deltas
from unmask.samplers.teaching import Unbounded, read, teach_sampler

FAILURE = "failure"
BEYOND_AR = 2  # times: a curve ends where all seeds together cost as much as AR; other seeds may be cheaper
FIRST_TAUGHT = 2**40  # rows whose randomness only the true distribution uses
FILE = "curve.npz"
MOST = 2**30  # unpacked bytes of a file
BROKEN = (OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)
SEPARATE = ("ser", "generative_perplexity", "model_calls")  # reported by seed, as a ratio, with every number
UNKNOWN = {"value": None, "low": None, "high": None, "n": 0, "level": None, "method": ""}
NONE = torch.zeros(0, dtype=torch.float64)


@dataclass(frozen=True)
class Ground:
    """A language at one length, or the networks of directories in place of its exact denoiser."""

    language: str = ""
    model: str = ""
    causal_model: str = ""
    digest: str = ""
    length: int = 128
    device: str = "auto"
    seed: int = 0

    @property
    def q(self) -> Language:
        return _learned(self.model, self.digest) if self.model else ground_truth(self.language, self.digest)

    @property
    def network(self) -> Network:
        return _network(self.model, self.causal_model, self.digest, self.device)

    @property
    def denoiser(self) -> Denoiser:
        return self.network if self.model else Ideal(self.q)

    def check(self) -> None:
        if self.length < 2:
            raise UnmaskError(f"length is {self.length}; expected at least 2 tokens")
        if self.language and self.model:
            raise UnmaskError("a model is measured on its training language; leave the language out")
        if self.causal_model and not self.model:
            raise UnmaskError("a causal model needs a model; give both")
        if not self.language and not self.model:
            raise UnmaskError("there is neither a language nor a model; put one under grid, zip or fixed")
        self.q.check_length(self.length)
        if self.model and self.length > (most := self.network.length):
            raise UnmaskError(f"{self.model} is a network for at most {most} tokens, not for {self.length}")


@lru_cache(maxsize=1)  # once for all cells
def _network(model: str, causal_model: str, digest: str, device: str) -> Network:
    return read_network(model, causal_model or None, device)


@lru_cache(maxsize=4)
def _learned(model: str, digest: str) -> Language:
    return read_language(model)[0]


@lru_cache(maxsize=32)
def _bits(ground: Ground) -> float | None:
    """H(q) / L in bits per token; None if sequences vary in length."""
    q = ground.q
    return math.log2(metrics.ter_autoregressive(q, ground.length).value) if q.end is None else None


_check_ground = lru_cache(maxsize=1024)(Ground.check)  # each combination of many cells once


def _check(ground: Ground, sampler: str, quick: bool, ter_rows: int) -> None:
    if ter_rows < 0:
        raise UnmaskError(f"ter_rows is {ter_rows}; expected the number of sequences for TER, or 0")
    _check_ground(ground)
    family(sampler, ground.length, quick)


def _about(ground: Ground) -> Record:
    return {"language_digest": ground.q.source()["digest"]}


@job(check=_check, about=_about)
def curve(
    ground: Ground,
    sampler: str,
    place: Place,
    code: str = "",
    quick: bool = False,
    rows: int = 400,
    ter_rows: int = 200,
) -> list[Record]:
    """A sampler's points by budget: ser, ter, diversity and more.

    code: a digest of the source code of another package's sampler, so that changes are measured again.
    quick: fewer budgets. rows: of each budget. ter_rows: true sequences for the bound of TER.
    """
    unchanged(ground.digest, ground.language, ground.model, ground.causal_model)
    if code and code != code_of(sampler):
        raise UnmaskError(f"the code of {sampler} has changed since the sweep was planned; run it again")

    length = ground.length
    member = family(sampler, length, quick)
    samples: dict[int, Sample] = {}
    failures: list[Record] = []

    def at(index: int) -> Point | None:
        try:
            samples[index] = measure(ground, *member.at(member.values[index]), rows, ter_rows)
        except Missing:  # it does not apply to this language: no failure
            return None
        except Exception as error:  # of any kind: a sampler of another package must not stop the others
            reason = str(error) if isinstance(error, UnmaskError) else f"{type(error).__name__}: {error}"
            failures.append({"budget": member.values[index]} | record(FAILURE, None, reason))
            return None
        finally:
            advance(1)
        return Point(member.values[index], [samples[index]], length)

    with progress.track("curve", len(member.values)) as advance:
        points = walk(member, BEYOND_AR * length, at)

    # other seeds are joined row by row, so the rows are kept
    place.write(FILE, to_bytes(samples))
    about: Record = {"knob": member.knob, "model_calls": None}
    every = chain(*map(of_point, points), failures)
    return [about | entries.without(one, {"by_seed"}) for one in every]  # there is one seed


@dataclass(frozen=True)
class Sample:
    """The results of the rows (R) of one seed at one budget."""

    digest: str  # of the tokens (R, L)
    values: dict[str, Tensor]  # (R) of each metric, NaN where it is not defined
    calls_of: dict[str, float]  # mean model calls of each denoiser
    own_bits: float | None  # H(q) / L per token; None if not defined
    diversity: float | None  # entropy of bigrams relative to the language's; None without a distribution of pairs
    divergence: Tensor  # (taught rows): log q(x) - log p(x | randomness); empty if 0 or unbounded
    proper: bool = False  # p(x | randomness) = p(x) always: the divergence gives TER, not a bound
    unbounded: str = ""  # the reason for a missing bound


def measure(ground: Ground, sampler: str, steps: int | None, rows: int, taught: int) -> Sample:
    """One sampler at one budget with one seed. taught: rows for TER."""
    q = ground.q
    source = ground.denoiser if ground.model else q
    generation = generate(
        source,
        sampler=sampler,
        steps=steps or USUAL_STEPS,
        length=ground.length,
        rows=rows,
        seed=ground.seed,
    )

    scores = metrics.rows(generation, q)
    diversity = None
    pairs = metrics.bigrams(generation.tokens, q)
    if pairs is not None and pairs.entropy_bits_of_language > 0:
        diversity = pairs.entropy_bits / pairs.entropy_bits_of_language

    return Sample(
        digest_of(generation.tokens),
        entries.given({name: metric.values(scores) for name, metric in metrics.METRICS.items()}),
        {name: float(count.double().mean()) for name, count in generation.model_calls_of.items()},
        _bits(ground),
        diversity,
        **price(ground, sampler, steps, taught)._asdict(),
    )


class Price(NamedTuple):
    """The fields of a Sample for TER."""

    divergence: Tensor = NONE
    proper: bool = False
    unbounded: str = ""


def price(ground: Ground, specification: str, steps: int | None, rows: int) -> Price:
    """The divergence of each row x ~ q for TER, or the reason for a missing one. Its mean is at least KL(q || p)."""
    q = ground.q
    sampler = SAMPLERS.make(specification)
    if rows == 0:
        return Price(unbounded="it was not requested")
    if _bits(ground) is None:
        return Price(unbounded="the language's sequences vary in length")
    if not ground.model and sampler.distribution in ("causal", "language"):  # proved: its distribution is q
        return Price(proper=True)

    # otherwise the sampler is taught true sequences, and what it pays is measured
    denoiser = ground.denoiser
    truth = q.sample(rows, ground.length, seed=ground.seed)
    if sampler.distribution == "causal":  # the distribution of its causal reader
        chances = read(denoiser, truth).of(truth.reshape(-1)).view_as(truth)
        return Price(q.log_prob(truth) - chances.log().sum(1), proper=True)

    delta = deltas("linear", steps or USUAL_STEPS)
    rng = Randomness(ground.seed, torch.arange(FIRST_TAUGHT, FIRST_TAUGHT + rows))
    try:
        return Price(divergence(sampler, denoiser, q, truth, delta, rng))
    except Unbounded as reason:
        return Price(unbounded=str(reason))


def divergence(
    sampler: Sampler, denoiser: Denoiser, language: Language, truth: Tensor, delta: Tensor, rng: Randomness
) -> Tensor:
    """(B) log q(x) - log p(x | randomness) in nats of each true row (B, L); infinite where x cannot be generated."""
    nats = teach_sampler(denoiser, language.blank(*truth.shape), truth, sampler, delta, rng)
    return language.log_prob(truth) + nats.sum(1)


@dataclass(frozen=True)
class Point:
    """A sampler at one budget: the results of all seeds together."""

    value: Any  # of the knob
    samples: Sequence[Sample]
    length: int

    def rows_of(self, name: str) -> Tensor:
        """(rows of all seeds) of a metric."""
        return torch.cat([sample.values[name] for sample in self.samples])

    @cached_property
    def wrong(self) -> Tensor:
        """Float (rows of all seeds), 1 where impossible."""
        return self.rows_of("ser")

    @cached_property
    def model_calls(self) -> float:
        return float(self.rows_of("model_calls").double().mean())

    @cached_property
    def ser(self) -> Estimate:
        return proportion(int(self.wrong.sum()), len(self.wrong))

    @cached_property
    def divergence(self) -> Estimate | None:
        """Nats per sequence; None if there is neither TER nor a bound."""
        if not bool(self.prices.isfinite().all()):
            return None
        if len(self.prices):
            return mean(self.prices)
        return None if self.unbounded else exactly(0.0)

    @property
    def prices(self) -> Tensor:
        """(taught rows of all seeds)."""
        return torch.cat(entries.column(self.samples, "divergence"))

    @property
    def unbounded(self) -> str:
        """The reason for a missing divergence."""
        if bool(self.prices.isfinite().all()):
            return self.samples[0].unbounded
        return "it cannot generate some sequences of the language"

    @property
    def perplexity_ratio(self) -> Estimate | None:
        """The generative perplexity of valid rows, relative to TER of the language itself."""
        own = [s.values["generative_perplexity"] - s.own_bits for s in self.samples if s.own_bits is not None]
        bits = torch.cat([NONE, *own])
        valid = bits[~bits.isnan()]
        return mean(valid).map(lambda value: 2.0**value) if len(valid) > 1 else None

    @property
    def diversity(self) -> Estimate | None:
        """The conditional entropy of bigrams relative to that of the language: below 1 for repetitive samples."""
        ratios: list[float] = entries.present(entries.column(self.samples, "diversity"))
        if not ratios:
            return None
        return Estimate(sum(ratios) / len(ratios), min(ratios), max(ratios), len(self.wrong), 1.0, "range over seeds")


def of_point(point: Point) -> list[Record]:
    """The results of a sampler at one budget."""
    rows = [record("ser", point.ser, by_seed=means_of(point.wrong, sizes_of(point.samples)))]
    for name in entries.without(point.samples[0].values, SEPARATE):
        rows.append(record(name, metrics.METRICS[name].reduce(point.rows_of(name)), note="no row has a value"))

    name = "ter_ratio" if all(entries.column(point.samples, "proper")) else "ter_upper_ratio"
    nats = point.divergence
    ratio = None if nats is None else nats.map(lambda nats: math.exp(nats / point.length))
    rows += [
        record(name, ratio, note=point.unbounded),
        record("generative_perplexity_ratio", point.perplexity_ratio, note="fewer than two valid rows"),
        record("diversity", point.diversity, note="no distribution of pairs"),
    ]

    for name in point.samples[0].calls_of:
        value = sum(sample.calls_of[name] for sample in point.samples) / len(point.samples)
        rows.append(record(f"model calls of {name}", None, value=value))
    return [{"budget": point.value, "model_calls": point.model_calls} | one for one in rows]


def sizes_of(samples: Sequence[Sample]) -> list[int]:
    """The rows of each seed."""
    return [len(sample.values["ser"]) for sample in samples]


def means_of(values: Tensor, sizes: Sequence[int]) -> list[float]:
    """The mean of each part of the values, as of each seed."""
    return list(map(float, map(torch.mean, values.split(list(sizes)))))


def record(measure: str, estimate: Estimate | None, note: str = "", **more: Any) -> Record:
    """A number with its interval, or None and the reason. JSON has no infinity: None is an open end."""
    about = UNKNOWN | {"note": note} if estimate is None else finite(vars(estimate)) | {"note": ""}
    return {"measure": measure} | about | more


def walk(member: Family, most: float, at: Callable[[int], Point | None]) -> list[Point]:
    """The points of a family until a row needs `most` model calls, or until N has no effect.

    at: returns the point at the budget of an index, or None.
    """
    points: list[Point] = []
    for index in range(len(member.values)):
        point = at(index)
        if point is None:  # it does not apply, or has failed
            continue
        if points and _same(point, points[-1]):
            if member.knob == STEPS:
                break
            continue

        points.append(point)
        if member.rises and point.model_calls >= most - 1e-9:
            break
    return points


def _same(point: Point, earlier: Point) -> bool:
    """Whether another value of the knob changed no token and no model call."""
    same = entries.column(point.samples, "digest") == entries.column(earlier.samples, "digest")
    return same and torch.equal(point.rows_of("model_calls"), earlier.rows_of("model_calls"))


def joined(member: Family, length: int, seeds: Sequence[Mapping[int, Sample]]) -> list[Point]:
    """The points at budgets of all seeds, until a row costs as much as AR. seeds: samples by index of the budget."""

    def at(index: int) -> Point | None:
        own = [samples[index] for samples in seeds if index in samples]
        return Point(member.values[index], own, length) if len(own) == len(seeds) else None

    return walk(member, length, at)


def to_bytes(samples: Mapping[int, Sample]) -> bytes:
    """The rows of one seed as an .npz of numpy: arrays such as "3.ser", and all other fields as JSON."""
    arrays: dict[str, Any] = {}
    about = {}
    for index, sample in samples.items():
        for name, tensor in (sample.values | {"divergence": sample.divergence}).items():
            arrays[f"{index}.{name}"] = tensor.numpy()
        about[index] = entries.without(vars(sample), ("values", "divergence"))
    file = io.BytesIO()
    np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)
    return file.getvalue()


def from_file(path: Path, rows: int) -> dict[int, Sample]:
    """The samples of a file by the index of their budget; each must have this number of rows."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entries.column(archive.infolist(), "file_size")) > MOST:
                raise ValueError(f"it unpacks to more than {MOST} bytes")
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            values: dict[str, dict[str, Tensor]] = {index: {} for index in about}
            for name in arrays.files:
                index, dot, metric = name.partition(".")
                if dot:
                    values[index][metric] = torch.from_numpy(arrays[name])

        samples = {}
        for index, fields in about.items():
            divergence = values[index].pop("divergence")
            if set(entries.column(values[index].values(), "shape")) != {(rows,)} or divergence.ndim != 1:
                raise ValueError(f"budget {index} has other rows than {rows}")
            samples[int(index)] = Sample(**fields | {"values": values[index], "divergence": divergence})
        return samples
    except BROKEN as error:
        raise UnmaskError(
            f"{path} has no results of a curve: {cut(str(error))}", "choose another store to measure it again"
        ) from error
