"""The exact gradient of the expected reward of a sampler, for any network with logits, on a tiny language.

    g = grad sum_x p(x) r(x),    p(x) of every text by enumeration (enumeration.py), differentiated through the network

p is a function of the table of log-probabilities in all contexts, so g has two parts. The first is the gradient in the
table, the second the network's own: a product of a vector with its Jacobian, some contexts at a time.

A rule that compares scores makes p jump where two of them cross. The gradient is that between the jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, shown
from unmask.diagnosis.contexts import Contexts
from unmask.diagnosis.enumeration import enumerated
from unmask.models.trained import Network, Shape
from unmask.samplers.contract import Sampler, as_sampler
from unmask.samplers.schedules import ScheduleLike, deltas

AT_ONCE = 2**13  # contexts of a forward pass
Reward = Callable[[Tensor], Tensor]  # texts (N, L) -> (N)


class Policy:
    """A network's log-probabilities (R, L, V) in contexts (R, L), and its weights as one vector."""

    def __init__(self, model: Any, vocabulary: int | None = None) -> None:
        if isinstance(model, Network):
            model = getattr(model.mdm, "trunk", None)
        if not isinstance(model, torch.nn.Module):
            raise UnmaskError(f"the model is {shown(model)}; expected a torch module from contexts to logits. Wrap it")
        self.model = model

        shape = getattr(model, "shape", None)
        if isinstance(shape, Shape) and (shape.causal or shape.noise != "mask" or not shape.time_free):
            raise UnmaskError(f"the model is an {shape.title} with a time, or causal; expected an MDM of masks without")
        own = getattr(entries.chosen(shape, model), "vocabulary", None)
        self.vocabulary = arguments.whole("vocabulary", entries.chosen(vocabulary, own))

        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        if not self.weights:
            raise UnmaskError("the model has no weights with a gradient; expected requires_grad on some. Set it")

    def __call__(self, contexts: Tensor) -> Tensor:
        logits = self.model(contexts.to(self.weights[0].device))
        expected = (*contexts.shape, self.vocabulary)
        if not isinstance(logits, Tensor) or logits.shape != expected:
            returned = tuple(logits.shape) if isinstance(logits, Tensor) else shown(logits)
            raise UnmaskError(f"the model returns {returned}; expected logits {expected}. Leave the mask's logit out")
        return logits.cpu().double().log_softmax(-1)

    def contexts(self, length: int) -> Contexts:
        """All contexts; their log-probabilities are a leaf of the graph."""
        shape = getattr(self.model, "shape", None)
        if isinstance(shape, Shape) and length > shape.length:
            raise UnmaskError(f"length is {length}; expected at most {shape.length}, the network's. Use a shorter one")
        start = torch.full((length,), self.vocabulary)
        with torch.no_grad():
            contexts = Contexts(lambda z: torch.cat(list(map(self, z.split(AT_ONCE)))), self.vocabulary, start)
        if bool(contexts.log.isnan().any()):
            raise UnmaskError("the model returns logits that are not numbers; expected none. Check its weights")
        contexts.log.requires_grad_()
        return contexts

    def pulled(self, contexts: Contexts, directions: Sequence[Tensor]) -> Tensor:
        """(D, weights): directions (C, L, V) in the table, as gradients in the weights."""
        size = sum(map(Tensor.numel, self.weights))
        total = torch.zeros((len(directions), size), dtype=torch.float64)
        table = torch.stack(list(directions), 1)  # (C, D, L, V)
        for tokens, part in zip(contexts.tokens.split(AT_ONCE), table.split(AT_ONCE), strict=True):
            log = self(tokens)
            for number, direction in enumerate(part.unbind(1)):
                parts = torch.autograd.grad(log, self.weights, direction, retain_graph=True, materialize_grads=True)
                total[number] = total[number] + flat(parts)
        return total

    @torch.no_grad()
    def move(self, by: Tensor) -> None:
        """Add a vector to the weights."""
        for weight, part in zip(self.weights, by.split(list(map(Tensor.numel, self.weights))), strict=True):
            weight.add_(part.view_as(weight).to(weight))


def flat(parts: Sequence[Tensor]) -> Tensor:
    """Gradients as one vector."""
    return torch.cat([part.double().flatten() for part in parts])


class Gradient(NamedTuple):
    """The expected reward, and its gradient in all weights of the model in their order."""

    reward: float
    vector: Tensor  # (weights) float64


class Task(NamedTuple):
    """A sampler of a number of steps, and the reward of every text."""

    sampler: Sampler
    delta: Tensor
    rewards: Tensor  # (V^L)

    def distribution(self, contexts: Contexts, of_paths: bool = False) -> Tensor:
        """(V^L): the probability of each text, with its gradient."""
        return enumerated(contexts, self.sampler, self.delta, of_paths)

    def expected(self, contexts: Contexts) -> Tensor:
        """E r(x), with its gradient in the table."""
        return self.distribution(contexts) @ self.rewards


def task_of(contexts: Contexts, sampler: str | Sampler, steps: int, reward: Reward, schedule: ScheduleLike) -> Task:
    rewards = torch.as_tensor(reward(contexts.texts)).detach().double()
    expected = (len(contexts.texts),)
    if rewards.shape != expected or not bool(rewards.isfinite().all()):
        raise UnmaskError(
            f"the reward of {expected[0]} texts has shape {tuple(rewards.shape)}",
            f"expected {expected}, finite numbers. Return one for each text",
        )
    return Task(as_sampler(sampler), deltas(schedule, steps), rewards)


def gradient(
    model: Any,
    sampler: str | Sampler,
    steps: int,
    reward: Reward,
    length: int,
    *,
    schedule: ScheduleLike = "linear",
    vocabulary: int | None = None,
) -> Gradient:
    """The exact gradient of the expected reward of a sampler's texts.

    model: a torch module from contexts (R, L), V where hidden, to logits (R, L, V); or a trained Network.
    sampler, steps, schedule: as in `generate`; samplers that choose by drawn tokens or hide them again, too.
    reward: a function of all texts (V^L, L), which returns one number for each.
    vocabulary: V. (default: the module's own `vocabulary`)
    """
    policy = Policy(model, vocabulary)
    contexts = policy.contexts(arguments.length(length))
    task = task_of(contexts, sampler, steps, reward, schedule)

    value = task.expected(contexts)
    (direction,) = torch.autograd.grad(value, contexts.log)
    return Gradient(float(value.detach()), policy.pulled(contexts, [direction])[0])
