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

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.core.arguments import whole
from unmask.core.errors import UnmaskError
from unmask.experiments.jobs.catalogue import JOBS, Arguments, Job, Record, Tally
from unmask.experiments.jobs.sources import USUAL_STEPS, Blocked, Continued, OfLanguage, Sampled, record, tally_of

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate
    from unmask.denoisers import Noise
    from unmask.models.trained import Network, Shape, Trunk
    from unmask.models.trained.recipe import Recipe

FLOP_PER_SECOND = {"cpu": 4e10, "cuda": 5e13}  # of one core, or of a busy GPU
STEP_PASSES = 3.0  # time of a training step in forward passes: one forward, two backward
MOST_BATCH = 2**16  # rows of a timed batch
AR_PASSES = 2.0  # time of AR generation of a sequence in forward passes, with idle units


@dataclass(frozen=True, kw_only=True)
class Learner(Job):
    """preset: a preset of `unmask train`; length, layers, training_steps: instead of the preset's."""

    preset: str = "quick"
    length: Any = None  # a whole number, or None
    layers: int | None = None
    training_steps: int | None = None
    device: str = "auto"
    seed: int = 0

    @property
    def noise(self) -> Noise:
        """The noise that its MDM removes."""
        return "mask"

    @property
    def speed(self) -> float:
        """Approximate FLOPs per second."""
        import torch

        on_cuda = self.device.startswith("cuda") or (self.device == "auto" and torch.cuda.is_available())
        return FLOP_PER_SECOND["cuda" if on_cuda else "cpu"]

    def recipe(self, kind: str) -> Recipe:
        from unmask.models.trained.recipe import recipe

        how = {name: getattr(self, name, None) for name in ("targets", "optimiser", "spread")}
        return recipe(self.preset, kind, self.noise, steps=self.training_steps, seed=self.seed, **how)


@dataclass(frozen=True, kw_only=True)
class Student(OfLanguage, Learner):
    """A network of a language."""

    length: Any = None

    def shape(self, kind: str) -> Shape:
        """The shape; with uniform noise the network has its level as an input."""
        from unmask.models.trained import preset

        more: dict[str, Any] = {} if self.noise == "mask" else {"time_free": False, "noise": self.noise}
        return preset(self.preset, kind, self.q.vocabulary, length=self.length, layers=self.layers, **more)

    def training(self, kind: str) -> Arguments:
        """The cell of a training."""
        own = {one.name: getattr(self, one.name) for one in fields(Student) if one.name != "digest"}
        return {"job": "training" if self.noise == "mask" else "uniform_training", "kind": kind} | own


@JOBS.register("training")
@dataclass(frozen=True, kw_only=True)
class Training(Student):
    """Validation loss of a network, which is trained from the start or resumed.

    targets, optimiser, spread: instead of the preset's.
    """

    lasts = True

    kind: str = "mdm"
    targets: str | None = None
    optimiser: str | None = None
    spread: float | None = None

    def check(self) -> None:
        """Names, lengths and presets, before hours of work."""
        self.recipe(self.kind)
        self.q.check_length(self.shape(self.kind).length)
        if self.q.end is not None:
            expected = "Expected one length for networks. Name another language"
            raise UnmaskError(f"the sequences of {self.language} vary in length. {expected}")

    def cost(self) -> float:
        from unmask.diagnosis.flops import evaluation

        shape, recipe = self.shape(self.kind), self.recipe(self.kind)
        return STEP_PASSES * evaluation(shape, shape.length) * recipe.batch * recipe.steps / self.speed

    def measure(self, *, place: Path) -> list[Record]:
        from unmask.core.estimates import exactly
        from unmask.models.trained import checkpoints
        from unmask.models.trained.conditions import Conditions
        from unmask.models.trained.loop import resume, train

        shape, recipe, conditions = self.shape(self.kind), self.recipe(self.kind), Conditions(self.device)
        if (place / checkpoints.STATE).exists():
            check_same(place, shape, recipe)
            trained = resume(place, conditions=conditions)
        else:
            trained = train(self.q, shape, recipe, place, label=self.language, conditions=conditions)
        estimates = {
            "excess_percent": trained.validation.excess,
            "loss_nats_per_token": trained.validation.loss,
            "entropy_nats_per_token": self.q.entropy(shape.length).map(lambda nats: nats / shape.length),
            "training_steps": exactly(float(trained.steps)),
        }
        return [record(name, estimate, None) for name, estimate in estimates.items()]


@JOBS.register("uniform_training")
@dataclass(frozen=True, kw_only=True)
class UniformTraining(Training):
    """The same for a network of uniform noise, with its level as an input."""

    @property
    def noise(self) -> Noise:
        return "uniform"


def check_same(place: Path, shape: Shape, recipe: Recipe) -> None:
    """Refuse a training of another version of the code, where the preset had other values."""
    from unmask.models.trained import Shape, stored
    from unmask.models.trained.recipe import Recipe

    begun = stored.facts(place)
    if (Shape.from_dict(begun.shape), Recipe.from_dict(begun.recipe)) != (shape, recipe):
        reason = "which started when its preset had other values"
        raise UnmaskError(
            f"{place} holds a training of {begun.step} steps, {reason}. Remove that directory and try again"
        )


@lru_cache(maxsize=32)
def kinds_of(sampler: str) -> tuple[str, ...]:
    """The kinds of networks that a sampler calls."""
    from unmask.samplers import SAMPLERS

    reads = SAMPLERS.make(sampler).reads
    return tuple(kind for kind, view in (("mdm", "canvas"), ("ar", "causal")) if view in reads)


@dataclass(frozen=True, kw_only=True)
class Taught(Student, Continued, Sampled):
    """Rows of trained networks: a sampler of an MDM, `autoregressive`, or `speculative`, which needs both networks."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return kinds_of(self.sampler)

    @property
    def noise(self) -> Noise:
        """The noise that the sampler removes, and so its network."""
        from unmask.samplers import SAMPLERS

        return SAMPLERS.make(self.sampler).removes

    def needs(self) -> Sequence[Arguments]:
        return [self.training(kind) for kind in self.kinds]

    def check(self) -> None:
        """Check the sampling; the trainings are checked as cells."""
        from dataclasses import replace

        from unmask.samplers.schedules import deltas

        deltas(self.schedule, self.steps)
        replace(self, length=self.shape(self.kinds[0]).length).check_rows()

    def cost(self) -> float:
        from unmask.diagnosis.flops import evaluation

        shape = self.shape(self.kinds[0])
        passes = AR_PASSES if self.kinds == ("ar",) else min(self.steps, shape.length)
        return passes * evaluation(shape, shape.length) * self.rows / self.speed

    def network(self, needed: tuple[Path, ...]) -> Network:
        from unmask.models.trained import Network

        trunks = {kind: trained_trunk(place, self.device) for kind, place in zip(self.kinds, needed, strict=True)}
        return Network(trunks.get("mdm"), trunks.get("ar"))


@JOBS.register("learned")
@dataclass(frozen=True, kw_only=True)
class Learned(Taught, Blocked):
    """SER, generative perplexity and model calls of rows from trained networks.

    sampler: a sampler of an MDM, `autoregressive`, or `speculative`, which needs both networks.
    """

    def measure(self, *, needed: tuple[Path, ...]) -> Tally:
        network = self.network(needed)
        given, prompt = self.prompts(self.q, network.length)
        return tally_of(self.generate(network, network.length, given=given), self.q, prompt)


@lru_cache(maxsize=4)  # once per process, not for each block
def trained_trunk(directory: Path, device: str) -> Trunk:
    from unmask.models.trained import load

    try:
        return load(directory, device)
    except UnmaskError as error:
        advice = "Put its directory back, or train it again in another store"
        raise UnmaskError(f"a trained network cannot be read: {error}. {advice}") from error


@JOBS.register("clock")
@dataclass(frozen=True, kw_only=True)
class Clock(Student):
    """Milliseconds of a batch, as in `unmask model time`: one model call of an MDM, or one token of an AR model.

    kind: mdm or ar. Weights are untrained; the time does not depend on them.
    """

    kind: str = "mdm"
    batch: int = 16

    def check(self) -> None:
        self.shape(self.kind)
        whole("batch", self.batch, 1, MOST_BATCH)

    def measure(self) -> list[Record]:
        return [record("milliseconds", milliseconds(self.shape(self.kind), self.kind, self.batch, self.device), None)]


def milliseconds(shape: Shape, kind: str, batch: int, device: str, steps: int = USUAL_STEPS) -> Estimate:
    """A median with quartiles, on one thread of a CPU. steps: number of steps N of the timed model calls."""
    from unmask.core.threads import torch_threads
    from unmask.diagnosis import clock

    network = clock.untrained(shape, shape.length, device)
    with torch_threads(1):
        if kind == "mdm":
            return clock.of_model_calls(network, shape.length, batch, steps)
        return clock.of_tokens(network, shape.length, batch)
