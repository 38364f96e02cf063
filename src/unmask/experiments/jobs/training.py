"""The jobs of trained networks: a training is a separate cell, which samples of networks need.

    training   an MDM or an AR model of a preset learns a language: excess_percent and loss_nats_per_token of held-out
               sequences, entropy_nats_per_token of the language, training_steps
    uniform_training   the same for a network of uniform noise
    learned    samples of the trained networks by any sampler, with the measures of `samples`; the noise of the sampler
               decides which network
    learned_gap   the measures of `gap` for these networks
    clock      milliseconds per model call of such an MDM, or per token of such an AR model

A training resumes after an interruption and stays valid when the code changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from unmask.core.arguments import whole
from unmask.core.entries import without
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, exactly
from unmask.core.threads import torch_threads
from unmask.denoisers import Noise
from unmask.experiments.cell import Place, Record, Tally, job
from unmask.experiments.jobs.samples import Calls, check_calls, gap_records
from unmask.experiments.jobs.sources import (
    USUAL_STEPS,
    Amount,
    Sampling,
    about,
    generated,
    ground_truth,
    record,
    records_of,
    records_of_samples,
    tally_of,
)
from unmask.languages import Language
from unmask.models.trained import Network, Shape, Trunk, checkpoints, load, preset
from unmask.models.trained.loop import Conditions, Trained, resume, train
from unmask.models.trained.recipe import Recipe, recipe
from unmask.planning import clock as clocks
from unmask.samplers import SAMPLERS
from unmask.samplers.schedules import deltas

MOST_BATCH = 2**16  # rows of a timed batch
KINDS = {"canvas": "mdm", "causal": "ar"}  # of a network that a sampler reads as this


@dataclass(frozen=True)
class Student:
    """A network of a language. preset: of `unmask train`; length, layers, training_steps: instead of the preset's."""

    language: str
    digest: str = ""
    length: int | None = None
    preset: str = "quick"
    layers: int | None = None
    training_steps: int | None = None
    device: str = "auto"
    seed: int = 0

    @property
    def q(self) -> Language:
        return ground_truth(self.language, self.digest)

    def shape(self, kind: str, noise: Noise = "mask") -> Shape:
        """The shape; with uniform noise the network has its level as an input."""
        more: dict[str, Any] = {} if noise == "mask" else {"time_free": False, "noise": noise}
        return preset(self.preset, kind, self.q.vocabulary, length=self.length, layers=self.layers, **more)


@dataclass(frozen=True)
class Teaching:
    """targets, optimiser, spread: instead of the preset's."""

    kind: str = "mdm"
    targets: str | None = None
    optimiser: str | None = None
    spread: float | None = None

    def recipe(self, student: Student, noise: Noise) -> Recipe:
        return recipe(
            student.preset,
            self.kind,
            noise,
            steps=student.training_steps,
            seed=student.seed,
            **without(vars(self), {"kind"}),
        )

    def check(self, student: Student, noise: Noise) -> None:
        """Names, lengths and presets, before hours of work."""
        self.recipe(student, noise)
        student.q.check_length(student.shape(self.kind, noise).length)
        if student.q.end is not None:
            raise UnmaskError(
                f"the sequences of {student.language} vary in length. Expected one length for networks",
                "Name another language",
            )

    def records(self, student: Student, place: Path, noise: Noise) -> list[Record]:
        shape = student.shape(self.kind, noise)
        how = self.recipe(student, noise)
        trained = train_at(place, student.q, shape, how, student.device, label=student.language)
        numbers = {
            "excess_percent": trained.validation.excess_percent,
            "loss_nats_per_token": trained.validation.loss,
            "entropy_nats_per_token": student.q.entropy(shape.length).map(lambda nats: nats / shape.length),
            "training_steps": exactly(float(trained.steps)),
        }
        return records_of(numbers, None)


def _check_training(student: Student, teaching: Teaching) -> None:
    teaching.check(student, "mask")


def _check_uniform(student: Student, teaching: Teaching) -> None:
    teaching.check(student, "uniform")


@job(check=_check_training, about=about, lasts=True)
def training(student: Student, teaching: Teaching, place: Place) -> list[Record]:
    """Validation loss of a network, which is trained from the start or resumed."""
    return teaching.records(student, place.own, "mask")


@job(check=_check_uniform, about=about, lasts=True)
def uniform_training(student: Student, teaching: Teaching, place: Place) -> list[Record]:
    """The same for a network of uniform noise, with its level as an input."""
    return teaching.records(student, place.own, "uniform")


def train_at(place: Path, source: Any, shape: Shape, how: Recipe, device: str, **about: Any) -> Trained:
    """Train from the start, or go on; refuse a training of another version of the code with other values."""
    if not (place / checkpoints.STATE).exists():
        return train(source, shape, how, place, conditions=Conditions(device), **about)
    begun = checkpoints.facts(place)
    if (begun.shape, begun.recipe) != (shape, how):
        raise UnmaskError(
            f"{place} holds a training of {begun.step} steps, which started when its preset had other values",
            "Remove that directory and try again",
        )
    return resume(place, conditions=Conditions(device))


@lru_cache(maxsize=32)
def kinds_of(sampler: str) -> tuple[str, ...]:
    """The kinds of networks that a sampler calls."""
    reads = SAMPLERS.make(sampler).reads
    return tuple(kind for view, kind in KINDS.items() if view in reads)


def needs_training(student: Student, sampler: str) -> list[dict[str, Any]]:
    """The trainings of the networks that a sampler calls; it decides their noise."""
    name = "training" if SAMPLERS.make(sampler).removes == "mask" else "uniform_training"
    own = {"job": name} | without(vars(student), {"digest"})
    return [own | {"kind": kind} for kind in kinds_of(sampler)]


def trained_network(sampler: str, place: Place, device: str) -> Network:
    """The trained networks that a sampler calls."""
    trunks = [trained_trunk(path, device) for path in place.needed]
    own = dict(zip(kinds_of(sampler), trunks, strict=True))
    return Network(own.get("mdm"), own.get("ar"))


@lru_cache(maxsize=4)  # once per process, not for each block
def trained_trunk(directory: Path, device: str) -> Trunk:
    try:
        return load(directory, device)
    except UnmaskError as error:
        raise UnmaskError(
            f"a trained network cannot be read: {error}", "Put its directory back, or train it again in another store"
        ) from error


def _check_learned(student: Student, sampling: Sampling, amount: Amount, calls: Calls = "one") -> None:
    """Check the sampling; the trainings are checked as cells."""
    deltas(sampling.schedule, sampling.steps)
    amount.check(student.shape(kinds_of(sampling.sampler)[0]).length)
    check_calls(calls)


@job(records=records_of_samples, needs=needs_training, check=_check_learned, about=about)
def learned(student: Student, sampling: Sampling, amount: Amount, place: Place, first_row: int = 0) -> Tally:
    """SER, generative perplexity and model calls of rows from trained networks."""
    network = trained_network(sampling.sampler, place, student.device)
    given, prompt = amount.prompts(student.q, network.length, first_row)
    generation = generated(network, network.length, sampling, amount, first_row=first_row, given=given)
    return tally_of(generation, student.q, prompt)


@job(needs=needs_training, check=_check_learned, about=about)
def learned_gap(
    student: Student, sampling: Sampling, amount: Amount, place: Place, calls: Calls = "one"
) -> list[Record]:
    """Nats and tokens that trained networks lose by sampling several tokens in one step."""
    network = trained_network(sampling.sampler, place, student.device)
    return gap_records(student.q, network, network.length, sampling, amount, calls)


def _check_clock(student: Student, kind: str, batch: int) -> None:
    student.shape(kind)
    whole("batch", batch, 1, MOST_BATCH)


@job(check=_check_clock, about=about)
def clock(student: Student, kind: str = "mdm", batch: int = 16) -> list[Record]:
    """Milliseconds of a batch, as in `unmask model time`: one model call of an MDM, or one token of an AR model."""
    return [record("milliseconds", milliseconds(student.shape(kind), kind, batch, student.device), None)]


def milliseconds(shape: Shape, kind: str, batch: int, device: str, steps: int = USUAL_STEPS) -> Estimate:
    """A median with quartiles, on one thread of a CPU. steps: number of steps N of the timed model calls."""
    network = clocks.untrained(shape, shape.length, device)
    with torch_threads(1):
        if kind == "mdm":
            return clocks.of_model_calls(network, shape.length, batch, steps)
        return clocks.of_tokens(network, shape.length, batch)
