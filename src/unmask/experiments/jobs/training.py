"""The jobs of trained networks: a training is a separate cell, which samples of networks need.

    training   an MDM or an AR model of a preset learns a language: excess_percent and loss_nats_per_token of held-out
               sequences, entropy_nats_per_token of the language, training_steps
    uniform_training   the same for a network of uniform noise
    learned    samples of the trained networks by any sampler, with the measures of `samples`; the noise of the sampler
               decides which network
    clock      milliseconds per model call of such an MDM, or per token of such an AR model

A training writes the files of `unmask train` to its cell's directory. It resumes after an interruption and stays valid
when the code changes. The seed is that of the examples, the initial weights and the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.core.arguments import whole
from unmask.core.errors import UnmaskError
from unmask.experiments.cell import Place, Record, Tally, job
from unmask.experiments.jobs.sources import (
    USUAL_STEPS,
    Amount,
    Sampling,
    about,
    check_amount,
    generated,
    ground_truth,
    record,
    records_of_samples,
    tally_of,
)

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate
    from unmask.denoisers import Noise
    from unmask.languages import Language
    from unmask.models.trained import Network, Shape, Trunk
    from unmask.models.trained.loop import Trained
    from unmask.models.trained.recipe import Recipe

MOST_BATCH = 2**16  # rows of a timed batch


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
        from unmask.models.trained import preset

        more: dict[str, Any] = {} if noise == "mask" else {"time_free": False, "noise": noise}
        return preset(self.preset, kind, self.q.vocabulary, length=self.length, layers=self.layers, **more)

    def training(self, kind: str, noise: Noise) -> dict[str, Any]:
        """The cell of a training."""
        own = {name: value for name, value in vars(self).items() if name != "digest"}
        return {"job": "training" if noise == "mask" else "uniform_training", "kind": kind} | own


@dataclass(frozen=True)
class Teaching:
    """targets, optimiser, spread: instead of the preset's."""

    kind: str = "mdm"
    targets: str | None = None
    optimiser: str | None = None
    spread: float | None = None

    def recipe(self, student: Student, noise: Noise) -> Recipe:
        from unmask.models.trained.recipe import recipe

        how = {name: value for name, value in vars(self).items() if name != "kind"}
        return recipe(student.preset, self.kind, noise, steps=student.training_steps, seed=student.seed, **how)


def _check_training(student: Student, teaching: Teaching) -> None:
    _check(student, teaching, "mask")


def _check_uniform(student: Student, teaching: Teaching) -> None:
    _check(student, teaching, "uniform")


def _check(student: Student, teaching: Teaching, noise: Noise) -> None:
    """Names, lengths and presets, before hours of work."""
    teaching.recipe(student, noise)
    student.q.check_length(student.shape(teaching.kind, noise).length)
    if student.q.end is not None:
        expected = "Expected one length for networks. Name another language"
        raise UnmaskError(f"the sequences of {student.language} vary in length. {expected}")


@job(check=_check_training, about=about, lasts=True)
def training(student: Student, teaching: Teaching, place: Place) -> list[Record]:
    """Validation loss of a network, which is trained from the start or resumed.

    targets, optimiser, spread: instead of the preset's.
    """
    return _trained(student, teaching, place.own, "mask")


@job(check=_check_uniform, about=about, lasts=True)
def uniform_training(student: Student, teaching: Teaching, place: Place) -> list[Record]:
    """The same for a network of uniform noise, with its level as an input."""
    return _trained(student, teaching, place.own, "uniform")


def _trained(student: Student, teaching: Teaching, place: Path, noise: Noise) -> list[Record]:
    from unmask.core.estimates import exactly

    shape, recipe = student.shape(teaching.kind, noise), teaching.recipe(student, noise)
    trained = train_at(place, student.q, shape, recipe, student.device, label=student.language)
    estimates = {
        "excess_percent": trained.validation.excess,
        "loss_nats_per_token": trained.validation.loss,
        "entropy_nats_per_token": student.q.entropy(shape.length).map(lambda nats: nats / shape.length),
        "training_steps": exactly(float(trained.steps)),
    }
    return [record(name, estimate, None) for name, estimate in estimates.items()]


def train_at(place: Path, source: Any, shape: Shape, recipe: Recipe, device: str, **about: Any) -> Trained:
    """Train from the start, or go on; refuse a training of another version of the code with other values."""
    from unmask.models.trained import checkpoints
    from unmask.models.trained.loop import Conditions, resume, train

    if not (place / checkpoints.STATE).exists():
        return train(source, shape, recipe, place, conditions=Conditions(device), **about)
    begun = checkpoints.facts(place)
    if (begun.shape, begun.recipe) != (shape, recipe):
        reason = "which started when its preset had other values"
        raise UnmaskError(
            f"{place} holds a training of {begun.step} steps, {reason}. Remove that directory and try again"
        )
    return resume(place, conditions=Conditions(device))


@lru_cache(maxsize=32)
def kinds_of(sampler: str) -> tuple[str, ...]:
    """The kinds of networks that a sampler calls."""
    from unmask.samplers import SAMPLERS

    reads = SAMPLERS.make(sampler).reads
    return tuple(kind for kind, view in (("mdm", "canvas"), ("ar", "causal")) if view in reads)


def needs_training(student: Student, sampler: str) -> list[dict[str, Any]]:
    """The trainings of the networks that a sampler calls; it decides their noise."""
    from unmask.samplers import SAMPLERS

    return [student.training(kind, SAMPLERS.make(sampler).removes) for kind in kinds_of(sampler)]


def check_learned(student: Student, sampling: Sampling, amount: Amount) -> None:
    """Check the sampling; the trainings are checked as cells."""
    from unmask.samplers.schedules import deltas

    deltas(sampling.schedule, sampling.steps)
    check_amount(amount, student.shape(kinds_of(sampling.sampler)[0]).length)


def network_of(sampler: str, place: Place, device: str) -> Network:
    """The trained networks that a sampler calls."""
    from unmask.models.trained import Network

    own = {kind: trained_trunk(path, device) for kind, path in zip(kinds_of(sampler), place.needed, strict=True)}
    return Network(own.get("mdm"), own.get("ar"))


@job(records=records_of_samples, needs=needs_training, check=check_learned, about=about)
def learned(student: Student, sampling: Sampling, amount: Amount, place: Place, first_row: int = 0) -> Tally:
    """SER, generative perplexity and model calls of rows from trained networks.

    sampler: a sampler of an MDM, `autoregressive`, or `speculative`, which needs both networks.
    """
    network = network_of(sampling.sampler, place, student.device)
    given, prompt = amount.prompts(student.q, network.length, first_row)
    generation = generated(network, network.length, sampling, amount, first_row=first_row, given=given)
    return tally_of(generation, student.q, prompt)


@lru_cache(maxsize=4)  # once per process, not for each block
def trained_trunk(directory: Path, device: str) -> Trunk:
    from unmask.models.trained import load

    try:
        return load(directory, device)
    except UnmaskError as error:
        advice = "Put its directory back, or train it again in another store"
        raise UnmaskError(f"a trained network cannot be read: {error}. {advice}") from error


def _check_clock(student: Student, kind: str, batch: int) -> None:
    student.shape(kind)
    whole("batch", batch, 1, MOST_BATCH)


@job(check=_check_clock, about=about)
def clock(student: Student, kind: str = "mdm", batch: int = 16) -> list[Record]:
    """Milliseconds of a batch, as in `unmask model time`: one model call of an MDM, or one token of an AR model.

    kind: mdm or ar. Weights are untrained; the time does not depend on them.
    """
    return [record("milliseconds", milliseconds(student.shape(kind), kind, batch, student.device), None)]


def milliseconds(shape: Shape, kind: str, batch: int, device: str, steps: int = USUAL_STEPS) -> Estimate:
    """A median with quartiles, on one thread of a CPU. steps: number of steps N of the timed model calls."""
    from unmask.core.threads import torch_threads
    from unmask.diagnosis import clock

    network = clock.untrained(shape, shape.length, device)
    with torch_threads(1):
        if kind == "mdm":
            return clock.of_model_calls(network, shape.length, batch, steps)
        return clock.of_tokens(network, shape.length, batch)
