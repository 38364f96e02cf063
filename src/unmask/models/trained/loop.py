"""Training: a loop that can be interrupted and resumed at any moment, on the CPU with bit-identical results.

A step is a function of the state before it, the recipe and its number. Examples and masks are numbered, so there is no
random state to save. Losses and gradients are checked before each save, so a checkpoint never has diverged weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.core import arguments, entries, progress
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.core.files import origin
from unmask.core.memory import fits
from unmask.core.tables import as_table
from unmask.core.threads import torch_threads
from unmask.languages import Language
from unmask.languages import load as language_of
from unmask.models.text import Text
from unmask.models.trained import checkpoints, parallel
from unmask.models.trained.objectives import Masks, Noisy, Objective, spread_out
from unmask.models.trained.recipe import Learner, Recipe
from unmask.models.trained.shape import Shape
from unmask.models.trained.validation import Examples, HeldOut, Judge, Validation, ahead

PART_TOKENS = {"cpu": 2**11, "cuda": 2**17}  # computed at once: fits a cache, or a GPU's memory
ACTIVATIONS = {False: 87, True: 48}  # bytes for a backward pass, by token, layer and hidden unit; True: in bfloat16
STATE = 20  # bytes of a parameter: weight, gradient, two moments, average
NARROW = 256  # hidden size; below it, torch's threads spend more time waiting than computing
PRECISIONS = ("auto", "float32", "bfloat16")
LOOK = {"cpu": 1, "cuda": 10}  # steps between checks of the loss: each check waits for the device
REPORTS = 10  # validations during a training
HELD_OUT = 2048  # sequences of a validation
SAVE_SECONDS = 10.0  # between checkpoints
SAVE_SHARE = 20.0  # least time to the next checkpoint, in units of the time that the last one took
DIVERGED = 2.0  # times the loss of the uniform distribution over symbols
SMOOTH = 0.1  # weight of the newest loss in the printed average
Source = Language | Text


@dataclass(frozen=True)
class Conditions:
    """Device, precision, threads and progress of a training, which change the weights only by rounding."""

    device: str = "auto"
    precision: str = "auto"  # auto: bfloat16 on CUDA
    accumulate: int | None = None  # parts of a batch, one after another; None: of PART_TOKENS each
    threads: int | None = None  # of torch on the CPU; None: one for a narrow network, else torch's number
    say: Callable[[str], None] | None = None  # called with one line per validation
    save_seconds: float = SAVE_SECONDS  # between checkpoints; 0: one at every check of the loss


USUAL = Conditions()


@dataclass(frozen=True)
class Trained:
    """Losses, cost and conditions of a trained network."""

    directory: Path
    steps: int
    seconds: float
    loss: float  # nats per token, on the examples of the last steps
    validation: Validation
    parameters: int
    tokens_per_second: float
    shape: Shape
    device: str
    threads: int
    precision: str
    bits: Mapping[str, float]  # validation loss of a text in bits per character and per byte; empty for a language

    __repr__ = as_table

    def to_dict(self) -> dict[str, Any]:
        own = ("steps", "seconds", "parameters", "tokens_per_second", "device", "threads", "precision")
        about: dict[str, Any] = {"directory": str(self.directory)} | entries.picked(vars(self), own)
        about["loss_nats_per_token"] = self.loss
        about["validation_nats_per_token"] = self.validation.loss.to_dict()
        if self.validation.excess_percent is not None:
            about["entropy_nats_per_token"] = self.validation.entropy
            about["excess_percent"] = self.validation.excess_percent.to_dict()
        return about | entries.renamed("validation_{}", self.bits)


def train(
    source: Source | str | Path,
    shape: Shape,
    recipe: Recipe,
    directory: str | Path,
    *,
    label: str | None = None,
    conditions: Conditions = USUAL,
) -> Trained:
    """Train a network on a language or a text, and write it and its checkpoints to a directory.

    label: name of the language or text in training.json. (default: its specification, name or kind)
    """
    arguments.of_kind("shape", shape, Shape, "a Shape, as networks.preset('quick', 'mdm', V)")
    arguments.of_kind("recipe", recipe, Recipe, "a Recipe, as networks.training.recipe.recipe('quick', 'mdm')")
    path = arguments.path("directory", directory)

    fits(recipe.batch, f"sequences of {shape.length} tokens", 16 * shape.length)
    learned: Source = source if isinstance(source, Text) else language_of(source)
    checkpoints.check_fits(shape, "this shape", learned.vocabulary)
    usual = learned.label if isinstance(learned, Text) else learned.kind
    named = label or (str(source) if isinstance(source, str | Path) else usual)

    with parallel.joined(path, conditions.device, checkpoints.check_unused):
        return Training(learned, named, shape, recipe, path, conditions).go()


def resume(directory: str | Path, *, conditions: Conditions = USUAL) -> Trained:
    """Resume the training in a directory from its checkpoint, with the same recipe."""
    path = Path(directory)
    with parallel.joined(path, conditions.device, checkpoints.facts):
        source, facts, tensors = checkpoints.read_state(path)
        training = Training(source, facts.label, facts.shape, facts.recipe, path, conditions)
        training.restore(facts, tensors)
        return training.go()


def needed(shape: Shape, rows: int, half: bool) -> int:
    """Bytes of a training that computes this number of rows at once: of its parameters, and of activations."""
    return STATE * shape.parameters + rows * shape.length * ACTIVATIONS[half] * shape.layers * shape.hidden


class Part(NamedTuple):
    """Rows computed at once."""

    tokens: Tensor  # (B, L)
    size: int  # tokens that count: the sum of |x|
    hidden: Masks | Noisy | None  # None for an AR model
    distributions: Tensor | None  # of the targets; None if the tokens are the targets


class Batches:
    """The batch of each step, in parts: a function of the number of the step."""

    def __init__(self, source: Source, shape: Shape, recipe: Recipe, parts: int) -> None:
        if isinstance(source, Text) and recipe.targets == "posterior":
            raise UnmaskError("targets is posterior, which a text does not have. Use targets tokens")
        left = ", so that tokens remain to learn"
        arguments.whole("prompt_length", recipe.prompt_length, 0, shape.length - 1, left)
        if isinstance(source, Text) and recipe.prompt_length:
            raise UnmaskError("prompt_length is set; only languages have prompts. Leave it out for a text")
        if shape.noise == "uniform" and recipe.spread:
            raise UnmaskError("spread is set, which needs masks; the noise is uniform. Leave it out, or use noise mask")
        self.source, self.recipe, self.parts = source, recipe, parts
        self.objective = Objective(shape, recipe.prompt_length)
        self.examples = Examples(source, shape.length, recipe.seed, recipe.samples)

    def __call__(self, step: int) -> list[Part]:
        recipe = self.recipe
        rows = recipe.batch
        first = step * rows
        tokens = self.examples.rows(first, rows)
        sizes = self.source.sizes(tokens)

        rng = Randomness(recipe.seed, torch.arange(first, first + rows))
        hidden = self.objective.draw(rng, rows, tokens)
        if isinstance(hidden, Masks) and (spread := recipe.spread_at(step)):
            hidden = spread_out(hidden, rng, spread, recipe.run, recipe.prompt_length)

        parts = []
        for which in parallel.own(torch.arange(rows)).chunk(self.parts):
            own = None if hidden is None else hidden.select(which)
            distributions = None
            if recipe.targets == "posterior":
                assert isinstance(self.source, Language)
                distributions = self.objective.distributions(self.source, tokens[which], own)
            parts.append(Part(tokens[which], int(sizes[which].sum()), own, distributions))
        return parts


class Training:
    """A network in training: its steps, the checks of its loss, its checkpoints."""

    def __init__(
        self, source: Source, label: str, shape: Shape, recipe: Recipe, directory: Path, conditions: Conditions
    ) -> None:
        self.source, self.label = source, label
        self.shape, self.recipe = shape, recipe
        self.directory, self.conditions = directory, conditions
        self.device = parallel.device_of(checkpoints.choose_device(conditions.device))
        kind = self.device.type
        precision = arguments.word("precision", conditions.precision, PRECISIONS)
        self.half = precision == "bfloat16" or (precision == "auto" and kind == "cuda")

        self.threads = 1 if kind == "cpu" and shape.hidden < NARROW else torch.get_num_threads()
        if conditions.threads is not None:
            self.threads = arguments.whole("threads", conditions.threads, 1, arguments.MOST_THREADS)

        rows = parallel.share(recipe.batch)
        usual = min(rows, math.ceil(rows * shape.length / PART_TOKENS[kind]))
        parts = entries.chosen(conditions.accumulate, usual)
        self.parts = arguments.whole("accumulate", parts, 1, rows, ", the sequences of a batch")

        # what does not fit is refused here, not hours later
        at_once = math.ceil(rows / self.parts)
        way = "the batch size, or pass a larger --accumulate" if at_once > 1 else "the number of layers or the length"
        room = checkpoints.free_on(self.device)
        unit = f"sequences of {shape.length} tokens and this network"
        fits(at_once, unit, needed(shape, at_once, self.half) // at_once, way, room)
        self.batches = Batches(source, shape, recipe, self.parts)

        objective = self.batches.objective
        held_out = self.batches.examples.held_out(HELD_OUT)
        if isinstance(source, Text):
            self.judge = HeldOut(held_out, recipe.seed, objective)
        else:
            self.judge = Judge(source, held_out, recipe.seed, objective)

        self.learner = Learner(shape, recipe, self.device)
        self.network = parallel.wrapped(self.learner.trunk)

        self.journal: list[dict[str, Any]] = []  # of checkpoints.Facts
        self.step = self.saved = 0
        self.loss = self.worst = math.log(shape.vocabulary) * self.judge.padding
        self.unseen: list[Tensor] = []  # (2) each: loss and gradient norm of the steps since the last check

        self.earlier = 0.0  # seconds of the runs before this one
        self.began = self.saved_at = time.monotonic()
        self.saving = 0.0  # seconds that the last checkpoint took

    def restore(self, facts: checkpoints.Facts, tensors: dict[str, Tensor]) -> None:
        self.learner.restore(tensors, facts.step)
        self.step = self.saved = facts.step
        self.earlier, self.loss = facts.seconds, facts.loss
        self.journal = list(facts.journal)

    def go(self) -> Trained:
        """Train to the end."""
        try:
            track = progress.track(f"training {self.shape.title}", self.recipe.steps)
            with torch_threads(self.threads), track as advance:
                advance(self.step)
                self._run(advance)
                seconds = self.seconds
                validation = self.judge(self.learner.average)
        except KeyboardInterrupt:
            checkpoint = f"the checkpoint of step {self.saved} is in {self.directory}"
            remedy = f"Continue with --resume --out {self.directory}"
            progress.note(f"interrupted at step {self.step}; {checkpoint}. {remedy}")
            raise
        except torch.OutOfMemoryError as error:
            remedy = f"Pass --accumulate {2 * self.parts}, which computes half of them at once with the same result"
            rows = parallel.share(self.recipe.batch) // self.parts
            raise UnmaskError(f"out of memory with {rows} sequences at once. {remedy}") from error

        return Trained(
            directory=self.directory,
            steps=self.step,
            seconds=seconds,
            loss=self.loss,
            validation=validation,
            parameters=sum(map(Tensor.numel, self.learner.weights.values())),
            tokens_per_second=self.step * self.recipe.batch * self.shape.length / seconds,
            shape=self.shape,
            bits=self._bits(validation),
            **self._computed,
        )

    def _bits(self, validation: Validation) -> dict[str, float]:
        return self.source.bits(validation.loss.value) if isinstance(self.source, Text) else {}

    @property
    def _computed(self) -> dict[str, Any]:
        precision = "bfloat16" if self.half else "float32"
        return {"device": str(self.device), "threads": self.threads, "precision": precision}

    @property
    def seconds(self) -> float:
        """Time of this run and the runs before it."""
        return self.earlier + time.monotonic() - self.began

    def _run(self, advance: Callable[[int], None]) -> None:
        steps = self.recipe.steps
        look = LOOK[self.device.type]
        reports = {round(number * steps / REPORTS) for number in range(1, REPORTS + 1)}
        if self.step in (0, steps):  # at step 0, to see whether files can be written; after the last step, because
            self._save()  # a kill may have left the state without the network

        for _ in self.learn(steps):
            if self.step % look == 0 or self.step in reports:
                self._look()
                progress.rename(f"training {self.shape.title}, loss {self.loss:.4f}")
                if self.step in reports:
                    self._report()

                wait = self.conditions.save_seconds
                waited = time.monotonic() - self.saved_at
                if self.step == steps or not wait or waited >= max(wait, SAVE_SHARE * self.saving):
                    self._save()
            advance(1)

    def learn(self, end: int) -> Iterator[None]:
        """Learn from the batches before number `end`, one at a time."""
        for batch in ahead(self.batches, self.step, end):
            self._learn(batch)
            self.step += 1
            yield

    def _learn(self, batch: list[Part]) -> None:
        """Apply one step: the gradient of the nats of the whole batch, per token."""
        tokens = float(self.recipe.batch * self.shape.length)
        if self.source.end is not None:
            own = torch.tensor(sum(entries.column(batch, "size")), device=self.device)
            tokens = float(parallel.total(own))

        # parts of a batch add their gradients, so its size does not depend on memory
        loss = torch.zeros((), device=self.device)
        for part in batch:
            with parallel.apart(self.network, last=part is batch[-1]):
                with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
                    nats = self._nats(part).sum()
                (nats * (parallel.size() / tokens)).backward()  # their mean over processes is the gradient
            loss += nats.detach() / tokens
        self.unseen.append(torch.stack([loss, self.learner.update(self.step)]))

    def _nats(self, part: Part) -> Tensor:
        return self.batches.objective.nats(self.network, self.device, part.tokens, part.hidden, part.distributions)

    def _look(self) -> None:
        """Raise an error if the losses or gradients of the last steps have diverged."""
        seen = torch.stack(self.unseen)
        seen[:, 0] = parallel.total(seen[:, 0].contiguous())
        seen = seen.cpu()
        weight = max(SMOOTH, len(self.unseen) / self.step)
        self.unseen.clear()
        loss = (1 - weight) * self.loss + weight * float(seen[:, 0].mean())
        if not bool(seen.isfinite().all()) or loss > DIVERGED * self.worst:
            raise self._diverged("loss", float(seen[-1, 0]))
        self.loss = loss

    def _diverged(self, name: str, nats: float) -> UnmaskError:
        problem = f"training has diverged: at step {self.step} the {name} is {nats:.4g} nats per token"
        checkpoint = f"{self.directory} holds the checkpoint of step {self.saved}"
        remedy = f"Train another network with a rate below {self.recipe.rate:g}, or with less weight decay"
        return UnmaskError(f"{problem}; {checkpoint}. {remedy}")

    def _report(self) -> None:
        """Add the losses of this step to the journal, and print them."""
        validation = self.judge(self.learner.average)
        if not math.isfinite(validation.loss.value):
            raise self._diverged("validation loss", validation.loss.value)

        losses = {"loss": self.loss, "validation": validation.loss.value}
        line = f"loss {self.loss:.4f}, validation {validation.loss.value:.4f} nats per token"
        if validation.excess_percent is not None:
            losses["excess_percent"] = validation.excess_percent.value
            line += f", {validation.excess_percent.value:.2f}% above the entropy"
        for name, value in self._bits(validation).items():
            losses[name] = value
            line += f", {value:.4f} {name.replace('_', ' ')}"

        rate = self.recipe.rate_at(self.step - 1)
        self.journal.append({"step": self.step, "seconds": self.seconds, "rate": rate} | losses)

        if self.conditions.say is not None and parallel.rank() == 0:
            self.conditions.say(f"step {self.step}, {self.seconds:.0f} s: {line}")

    def _save(self) -> None:
        if parallel.rank():
            return

        began = time.monotonic()
        learned: dict[str, Any] = {"label": self.label}
        if isinstance(self.source, Text):
            learned |= {"text": self.source.facts()}
            self.source.tokenizer.save(self.directory)  # first, since a resumed training needs it
        else:
            learned |= {"language": self.source.to_dict()}

        plain = {"shape": self.shape.to_dict(), "recipe": self.recipe.to_dict()} | learned
        now = {"step": self.step, "seconds": self.seconds, "loss": self.loss, "journal": self.journal}
        checkpoints.save_state(self.directory, self.learner.tensors(), plain | now)

        source = origin(**plain, **self._computed, parts=self.parts, processes=parallel.size())
        account = entries.given({"origin": source, "entropy": self.judge.entropy}) | now
        checkpoints.save(self.learner.average, self.directory, account)
        checkpoints.write_losses(self.directory, self.journal)

        self.saved, self.saved_at = self.step, time.monotonic()
        self.saving = self.saved_at - began
