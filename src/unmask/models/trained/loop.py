"""Training: a loop that can be interrupted and resumed at any moment, on the CPU with bit-identical results.

A step is a function of the state before it, the recipe and its number. Examples and masks are numbered, so there is no
random state to save. Losses and gradients are checked before each save, so a checkpoint never has diverged weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.arguments import fits
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.core.files import origin
from unmask.core.threads import torch_threads
from unmask.languages import Language
from unmask.languages import load as language_of
from unmask.models.text import Text
from unmask.models.trained import checkpoints, stored
from unmask.models.trained.conditions import USUAL, Conditions, Trained
from unmask.models.trained.data import Examples, Windows, ahead
from unmask.models.trained.distributed import World, world
from unmask.models.trained.learner import Learner
from unmask.models.trained.noising import Noisy, clean_distributions, draw_noise, noisy_nats
from unmask.models.trained.objectives import (
    Masks,
    causal_nats,
    draw_masks,
    hidden_distributions,
    masked_nats,
    next_distributions,
    spread_out,
)
from unmask.models.trained.recipe import Recipe
from unmask.models.trained.shape import Shape
from unmask.models.trained.validation import HeldOut, Judge, Validation
from unmask.samplers.schedules import Fit, deltas

LOOK = {"cpu": 1, "cuda": 10}  # steps between checks of the loss: each check waits for the device
REPORTS = 10  # validations during a training
HELD_OUT = 2048  # sequences of a validation
SAVE_SHARE = 20.0  # least time to the next checkpoint, in units of the time that the last one took
DIVERGED = 2.0  # times the loss of the uniform distribution over symbols
SMOOTH = 0.1  # weight of the newest loss in the printed average
Source = Language | Text


class Part(NamedTuple):
    """Rows computed at once."""

    tokens: Tensor  # (B, L)
    size: int  # tokens that count: the sum of |x|
    masks: Masks | Noisy | None  # None for an AR model
    most: int  # largest number of hidden positions in a row
    distributions: Tensor | None  # (B, most, V), for an AR model (B, L, V); None if the tokens are the targets


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

    label: name of the language or text in training.json.
    """
    arguments.of_kind("shape", shape, Shape, "a Shape, as networks.preset('quick', 'mdm', V)")
    arguments.of_kind("recipe", recipe, Recipe, "a Recipe, as networks.training.recipe.recipe('quick', 'mdm')")
    directory = arguments.path("directory", directory)
    fits(recipe.batch, f"sequences of {shape.length} tokens", 16 * shape.length)
    learned: Source = source if isinstance(source, Text) else language_of(source)
    checkpoints.check_fits(shape, "this shape", learned.vocabulary)
    with world(conditions.device) as here, stored.alone(Path(directory)) if here.first else nullcontext():
        if here.first:
            stored.check_unused(Path(directory))
        here.wait()
        named = label or _label(source, learned)
        return Training(learned, named, shape, recipe, Path(directory), here, conditions).go()


def _label(source: Source | str | Path, learned: Source) -> str:
    """The spec of the language, the name of the text, or the kind of language."""
    if isinstance(source, str | Path):
        return str(source)
    return learned.label if isinstance(learned, Text) else learned.kind


def resume(directory: str | Path, *, conditions: Conditions = USUAL) -> Trained:
    """Resume the training in a directory from its checkpoint, with the same recipe."""
    with world(conditions.device) as here:
        stored.facts(directory)
        path = Path(directory)
        with stored.alone(path) if here.first else nullcontext():
            here.wait()
            state = stored.read(path)
            training = Training(state.source, state.label, state.shape, state.recipe, path, here, conditions)
            training.restore(state)
            return training.go()


class Training:
    """A network in training."""

    def __init__(
        self,
        source: Source,
        label: str,
        shape: Shape,
        recipe: Recipe,
        directory: Path,
        here: World,
        conditions: Conditions,
    ) -> None:
        self.source, self.label, self.shape, self.recipe = source, label, shape, recipe
        self.directory, self.here, self.conditions = directory, here, conditions
        if recipe.targets == "posterior" and isinstance(source, Text):
            raise UnmaskError("targets is posterior, which a text does not have. Use targets tokens")
        left = ", so that tokens remain to learn"
        arguments.whole("prompt_length", recipe.prompt_length, 0, shape.length - 1, left)
        if recipe.prompt_length and isinstance(source, Text):
            raise UnmaskError("prompt_length is set; only languages have prompts. Leave it out for a text")
        if shape.noise == "uniform" and (recipe.spread or recipe.sampling_steps is not None):
            problem = "spread is set" if recipe.spread else "sampling_steps is set"
            raise UnmaskError(f"{problem}, which needs masks; the noise is uniform. Leave it out, or use noise mask")
        self.mine = here.part(recipe.batch)
        self.parts = conditions.parts(self.mine.stop - self.mine.start, shape.length, here.device)
        at_once = math.ceil((self.mine.stop - self.mine.start) / self.parts)
        room, needed = checkpoints.free_on(here.device), conditions.needed(shape, at_once, here.device)
        way = "the batch size, or pass a larger --accumulate" if at_once > 1 else "the number of layers or the length"
        fits(at_once, f"sequences of {shape.length} tokens and this network", needed // at_once, way, room)
        self.threads = conditions.threads_of(shape, here.device)
        self.half = conditions.half_of(here.device)
        self.delta = None
        if recipe.sampling_steps is not None:
            fit = Fit(source, shape.length) if isinstance(source, Language) else None
            self.delta = deltas(recipe.schedule, recipe.sampling_steps, fit)
        self.examples = _examples(source, shape.length, recipe)
        self.judge = _judge(source, self.examples.held_out(HELD_OUT), recipe, shape)
        self.learner = Learner(shape, recipe, here.device)
        self.network = here.share(self.learner.trunk)
        self.journal: list[dict[str, Any]] = []  # the entries of stored.Entry, by step
        self.step = self.saved = 0
        self.loss = self.worst = math.log(shape.vocabulary) * self.judge.padding
        self.unseen: list[Tensor] = []  # (2) each: loss and gradient norm of the steps since the last check
        self.earlier = 0.0  # seconds of the runs before this one
        self.began = self.saved_at = time.monotonic()
        self.saving = 0.0  # seconds that the last checkpoint took

    def restore(self, state: stored.State) -> None:
        self.learner.restore(state.tensors, state.step)
        self.step = self.saved = state.step
        self.earlier, self.loss = state.seconds, state.loss
        self.journal = state.journal

    def go(self) -> Trained:
        """Train to the end."""
        label = f"training {self.shape.title}"
        track = progress.track(label, self.recipe.steps) if self.here.first else nullcontext(_silent)
        try:
            with torch_threads(self.threads), track as advance:
                advance(self.step)
                self._run(advance)
                return self._result()
        except KeyboardInterrupt:
            if self.here.first:
                checkpoint = f"the checkpoint of step {self.saved} is in {self.directory}"
                progress.note(
                    f"interrupted at step {self.step}; {checkpoint}. Continue with --resume --out {self.directory}"
                )
            raise
        except torch.OutOfMemoryError as error:
            rows = (self.mine.stop - self.mine.start) // self.parts
            remedy = f"Pass --accumulate {2 * self.parts}, which computes half of them at once with the same result"
            raise UnmaskError(f"out of memory with {rows} sequences at once. {remedy}") from error

    def _result(self) -> Trained:
        seconds, validation = self.seconds, self.judge(self.learner.average)
        return Trained(
            self.directory,
            self.step,
            seconds,
            self.loss,
            validation,
            self.parameters,
            self.step * self.recipe.batch * self.shape.length / seconds,
            self.shape,
            **self._computed,
            bits=self._bits(validation),
        )

    def _bits(self, validation: Validation) -> dict[str, float]:
        return self.source.bits(validation.loss.value) if isinstance(self.source, Text) else {}

    @property
    def _computed(self) -> dict[str, Any]:
        precision = "bfloat16" if self.half else "float32"
        here = {"device": str(self.here.device), "processes": self.here.size}
        return here | {"threads": self.threads, "precision": precision}

    @property
    def seconds(self) -> float:
        """Time of this run and the runs before it."""
        return self.earlier + time.monotonic() - self.began

    @property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in self.learner.weights.values())

    def _run(self, advance: Callable[[int], None]) -> None:
        steps, look = self.recipe.steps, LOOK[self.here.device.type]
        reports = {round(number * steps / REPORTS) for number in range(1, REPORTS + 1)}
        if self.step in (0, steps):  # at step 0, to see whether files can be written; after the last step, because
            self._save()  # a kill may have left the state without the network
        for _ in self.learn(steps):
            if self.step % look == 0 or self.step in reports:
                self._look()
                progress.rename(f"training {self.shape.title}, loss {self.loss:.4f}")
                if self.here.first and self.step in reports:
                    self._report()
                if self.here.first and (self.step == steps or self._is_due()):
                    self._save()
            advance(1)

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
        if self.conditions.say is not None:
            self.conditions.say(f"step {self.step}, {self.seconds:.0f} s: {line}")

    def learn(self, end: int) -> Iterator[None]:
        """Learn from the batches before number `end`, one at a time."""
        for batch in ahead(self._batch, self.step, end):
            self._learn(batch)
            self.step += 1
            yield

    def _batch(self, step: int) -> list[Part]:
        """Rows of this process in a step, a function of the step only."""
        first, rows = step * self.recipe.batch + self.mine.start, self.mine.stop - self.mine.start
        tokens = self.examples.rows(first, rows)
        sizes = self.source.sizes(tokens)
        rng = Randomness(self.recipe.seed, torch.arange(first, first + rows))
        masks: Masks | Noisy | None = None
        prompt = self.recipe.prompt_length
        if self.shape.noise == "uniform":
            masks = draw_noise(rng, self.recipe.batch, tokens, self.shape.vocabulary, prompt)
        elif not self.shape.causal:
            masks = draw_masks(rng, self.recipe.batch, self.shape.length, self.delta, prompt)
            if spread := self.recipe.spread_at(step):
                masks = spread_out(masks, rng, spread, self.recipe.run, prompt)
        parts = []
        for which in torch.arange(rows).chunk(self.parts):
            own = None if masks is None else masks.select(which)
            most = int(own.counts.max()) if isinstance(own, Masks) else self.shape.length
            parts.append(
                Part(tokens[which], int(sizes[which].sum()), own, most, self._distributions(tokens[which], own, most))
            )
        return parts

    def _distributions(self, tokens: Tensor, masks: Masks | Noisy | None, most: int) -> Tensor | None:
        if self.recipe.targets == "tokens":
            return None
        assert isinstance(self.source, Language)
        if masks is None:
            return next_distributions(self.source, tokens)
        if isinstance(masks, Noisy):
            return clean_distributions(self.source, masks)
        return hidden_distributions(self.source, tokens, masks, most)

    def _learn(self, batch: list[Part]) -> None:
        """Apply one step: the gradient of the nats of the whole batch, per token."""
        tokens = float(self.recipe.batch * self.shape.length)
        if self.source.end is not None:
            tokens = float(self.here.sum(torch.tensor(sum(part.size for part in batch), device=self.here.device)))
        loss = torch.zeros((), device=self.here.device)
        for number, part in enumerate(batch, 1):
            with self.here.alone(self.network, number < len(batch)):
                with torch.autocast(self.here.device.type, torch.bfloat16, enabled=self.half):
                    nats = self._nats(part).sum()
                (nats * (self.here.size / tokens)).backward()  # DDP averages over the processes
            loss += nats.detach() / tokens
        self.unseen.append(torch.stack([loss, self.learner.update(self.step)]))

    def _nats(self, part: Part) -> Tensor:
        device = self.here.device
        tokens = part.tokens.to(device, non_blocking=True)
        distributions = None if part.distributions is None else part.distributions.to(device, non_blocking=True)
        if part.masks is None:
            return causal_nats(self.network, self.shape.vocabulary, tokens, distributions, self.recipe.prompt_length)
        masks, timed = part.masks.to(device), not self.shape.time_free
        if isinstance(masks, Noisy):
            return noisy_nats(self.network, tokens, masks, timed, distributions)
        how = (part.most, timed, distributions, self.recipe.prompt_length)
        return masked_nats(self.network, self.shape.vocabulary, tokens, masks, *how)

    def _look(self) -> None:
        """Raise an error if the losses or gradients of the last steps have diverged."""
        seen = self.here.sum(torch.stack(self.unseen)).cpu()
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

    def _is_due(self) -> bool:
        wait = self.conditions.save_seconds
        return time.monotonic() - self.saved_at >= (max(wait, SAVE_SHARE * self.saving) if wait else 0.0)

    def _save(self) -> None:
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
        entropy = {} if self.judge.entropy is None else {"entropy": self.judge.entropy}
        account = {"origin": origin(**plain, **self._computed, parts=self.parts)} | entropy | now
        checkpoints.save(self.learner.average, self.directory, account)
        stored.write_losses(self.directory, self.journal)
        self.saved, self.saved_at = self.step, time.monotonic()
        self.saving = self.saved_at - began


def _examples(source: Source, length: int, recipe: Recipe) -> Examples | Windows:
    if isinstance(source, Text):
        return Windows(source, length, recipe.seed, recipe.samples)
    return Examples(source, length, recipe.seed, recipe.samples)


def _judge(source: Source, tokens: Tensor, recipe: Recipe, shape: Shape) -> HeldOut:
    symbols = shape.vocabulary if shape.noise == "uniform" else None
    how = (recipe.seed, shape.causal, recipe.prompt_length, symbols)
    return HeldOut(tokens, *how) if isinstance(source, Text) else Judge(source, tokens, *how)


def _silent(steps: int) -> None:
    pass
