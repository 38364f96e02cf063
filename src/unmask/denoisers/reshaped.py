"""Denoisers that modify each marginal of another one: temperature, top-p, top-k, guidance, an error of known size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream, check_seed, uniform
from unmask.core.errors import UnmaskError
from unmask.denoisers.contracts import Causal, Cost, Engine, all_of
from unmask.denoisers.denoiser import Denoiser, checked, followed
from unmask.denoisers.ideal import as_denoiser
from unmask.denoisers.marginals import Marginals, as_marginals, check_sharpening
from unmask.languages import Language

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

KINDS = ("leak", "tilt", "mix")
NEAR = 1e-12  # relative step at which the iteration ends; the remaining error is of the order of its square


class Around(Denoiser, ABC):
    """Another denoiser with changed predictions."""

    def __init__(self, inner: Denoiser) -> None:
        self.inner = checked(inner)
        for name in ("vocabulary", "language", "removes", "grid", "calls", "time_free", "concurrent"):
            setattr(self, name, getattr(self.inner, name))

    def options(self) -> Mapping[str, Any]:
        """The options of the modification, for `source`."""
        return {}

    @property
    def name(self) -> str:
        return f"{type(self).__name__} of {self.inner.name}"

    def source(self) -> dict[str, Any]:
        return super().source() | dict(self.options()) | {"of": self.inner.source()}

    @abstractmethod
    def engine(
        self,
        tokens: Int[Tensor, "B L"],
        given: Int[Tensor, "B L"] | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> Engine: ...

    def rows_at_once(self, length: int) -> int | None:
        return self.inner.rows_at_once(length)


class Reshaped(Around):
    """Another denoiser with `reshape` applied to its marginals at hidden positions."""

    @abstractmethod
    def reshape(self, marginals: Marginals, positions: Int[Tensor, " K"]) -> Marginals | Float[Tensor, "K V"]:
        """Return the modified marginals at positions (K): Marginals, or probabilities (K, V)."""

    def engine(
        self,
        tokens: Int[Tensor, "B L"],
        given: Int[Tensor, "B L"] | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> Engine:
        return ReshapedEngine(self, tokens, given, valid)

    def causal(self, rows: int, length: int, valid: Bool[Tensor, "B L"] | None = None) -> Causal:
        return ReshapedCausal(self, rows, length, valid)


class AroundEngine(Engine):
    """The engine of the inner denoiser, whose answers `at` changes."""

    def __init__(
        self,
        denoiser: Around,
        tokens: Int[Tensor, "B L"],
        given: Int[Tensor, "B L"] | None,
        valid: Bool[Tensor, "B L"] | None,
    ) -> None:
        super().__init__(tokens)
        self.denoiser = denoiser
        self.inner = denoiser.inner.engine(tokens, given, valid)

    def renew(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]) -> None:
        self.inner.renew(rows, positions)

    @property
    def hollow(self) -> bool:
        return self.inner.hollow

    def dead(self) -> Bool[Tensor, " B"] | None:
        return self.inner.dead()

    @property
    def positions(self) -> Int[Tensor, " B"] | None:
        return self.inner.positions

    @property
    def spent(self) -> Cost:
        return self.inner.spent


class ReshapedEngine(AroundEngine):
    denoiser: Reshaped

    def at(
        self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], time: Float[Tensor, " B"] | None
    ) -> Float[Tensor, "K V"] | Marginals:
        return self.denoiser.reshape(as_marginals(self.inner.at(rows, positions, time)), positions)


class ReshapedCausal(Causal):
    def __init__(self, denoiser: Reshaped, rows: int, length: int, valid: Bool[Tensor, "B L"] | None) -> None:
        self.denoiser = denoiser
        self.length = length
        self.inner = denoiser.inner.causal(rows, length, valid)
        self.lengths = torch.full((rows,), -1)

    @property
    def model_calls(self) -> Int[Tensor, " B"]:
        return self.inner.model_calls

    @property
    def positions(self) -> Int[Tensor, " B"]:
        return self.inner.positions

    @property
    def spent(self) -> Cost:
        return self.inner.spent

    def extend(
        self,
        tokens: Int[Tensor, "B K"],
        counts: Int[Tensor, " B"] | None = None,
        selected: Bool[Tensor, "B K"] | None = None,
    ) -> Tensor | Marginals:
        counts = all_of(tokens, counts)
        rows, steps = followed(self.lengths, counts, tokens.shape[1], self.length, selected).nonzero(as_tuple=True)
        positions = self.lengths[rows] + 1 + steps
        self.lengths = self.lengths + counts
        return self.denoiser.reshape(as_marginals(self.inner.extend(tokens, counts, selected)), positions)

    def rewind(self, lengths: Int[Tensor, " B"]) -> None:
        self.inner.rewind(lengths)
        self.lengths = torch.minimum(self.lengths, lengths)


class Sharpened(Reshaped):
    """p^(1/T), restricted to the fewest most likely symbols with mass top_p, and of these to the first top_k.

    T = 0 leaves only the most likely symbol. Samplers score and draw from the same sharpened distribution.
    """

    def __init__(self, inner: Denoiser, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> None:
        check_sharpening(temperature, top_p, top_k)
        super().__init__(inner)
        self.temperature, self.top_p, self.top_k = temperature, top_p, top_k

    def options(self) -> Mapping[str, Any]:
        return {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k}

    def reshape(self, marginals: Marginals, positions: Int[Tensor, " K"]) -> Marginals:
        return marginals.sharpened(self.temperature, self.top_p, self.top_k)


class Nucleus(Reshaped):
    """The most likely symbols with probabilities that sum to at most `most`, at least one (BD3-LM's top-p)."""

    def __init__(self, inner: Denoiser, most: float) -> None:
        super().__init__(inner)
        self.most = most

    def options(self) -> Mapping[str, Any]:
        return {"nucleus": self.most}

    def reshape(self, marginals: Marginals, positions: Int[Tensor, " K"]) -> Marginals:
        return marginals.nucleus(self.most)


class Guided(Around):
    """p(v | x)^(1+w) / p(v | x without the prompt)^w, normalized; w = scale, LLaDA's cfg_scale.

    The prompt is the given part of a canvas. For the prediction without it, the given positions are hidden, so each
    prediction takes two model calls. At w = 0 there is a single call, of the denoiser itself.
    """

    def __init__(self, inner: Denoiser, scale: float) -> None:
        arguments.number("scale", scale, what="; 0 turns guidance off")
        super().__init__(inner)
        self.scale = scale
        self.calls *= 2 if scale else 1

    def options(self) -> Mapping[str, Any]:
        return {"scale": self.scale}

    @property
    def name(self) -> str:
        return f"{self.inner.name}, guided by {self.scale:g}"

    def engine(
        self,
        tokens: Int[Tensor, "B L"],
        given: Int[Tensor, "B L"] | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> Engine:
        if not self.scale:
            return self.inner.engine(tokens, given, valid)
        if given is None:
            given = tokens.clone()
        return GuidedEngine(self, tokens, given, valid)

    def causal(self, rows: int, length: int, valid: Bool[Tensor, "B L"] | None = None) -> Causal:
        raise UnmaskError("a guided denoiser cannot read from left to right. Pass the denoiser without guidance.")


class GuidedEngine(Engine):
    """Two engines: one for the canvas, and one for a copy without the given tokens."""

    def __init__(
        self, denoiser: Guided, tokens: Int[Tensor, "B L"], given: Int[Tensor, "B L"], valid: Bool[Tensor, "B L"] | None
    ) -> None:
        super().__init__(tokens)
        self.scale, self.vocabulary = denoiser.scale, denoiser.vocabulary
        self.prompt = given != denoiser.vocabulary
        if valid is not None:
            self.prompt &= valid
        self.bare = torch.where(self.prompt, denoiser.vocabulary, tokens)
        self.engines = (
            denoiser.inner.engine(tokens, given, valid),
            denoiser.inner.engine(self.bare, torch.full_like(tokens, denoiser.vocabulary), valid),
        )

    def renew(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]) -> None:
        self.bare[rows, positions] = self.tokens[rows, positions]
        for engine in self.engines:
            engine.renew(rows, positions)

    def at(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], time: Float[Tensor, " B"] | None) -> Marginals:
        prompted, bare = self.engines
        with_prompt = as_marginals(prompted.at(rows, positions, time))
        return with_prompt.guided(as_marginals(bare.at(rows, positions, time)), self.scale)

    @property
    def hollow(self) -> bool:
        return all(engine.hollow for engine in self.engines)

    def dead(self) -> Bool[Tensor, " B"] | None:
        return self.engines[0].dead()

    @property
    def positions(self) -> Int[Tensor, " B"] | None:
        prompted, bare = self.engines[0].positions, self.engines[1].positions
        return None if prompted is None or bare is None else prompted + bare

    @property
    def spent(self) -> Cost:
        return self.engines[0].spent + self.engines[1].spent


class Perturbed(Reshaped):
    """p = (1-w) q + w on the least likely token, with w solved so that KL(q || p) is epsilon nats in every context.

    `leak` uses the least likely token of all, so it makes errors that are impossible under q. `tilt` uses the least
    likely possible token, which preserves the support; the divergence is then 0 if only one token is possible. Ties are
    broken by a random ranking of the tokens for each seed and position. Assumption 4.1 holds for epsilon with equality
    (theory.md 4).

    `mix` has another meaning of epsilon: p = (1 - epsilon) q + epsilon / V. Under uniform noise a wrong token at level
    a is repaired only while 1 - a is above epsilon.
    """

    def __init__(self, source: Language | Denoiser, kind: str, epsilon: float, seed: int = 0) -> None:
        arguments.word("kind of perturbation", kind, KINDS)
        if kind == "mix":
            arguments.number("epsilon", epsilon, most=1.0, what=", a weight")
        else:
            arguments.number("epsilon", epsilon, what=" in nats")
        check_seed(seed)
        super().__init__(as_denoiser(source))
        self.kind, self.epsilon, self.seed = kind, epsilon, seed

    def options(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "epsilon": self.epsilon, "seed": self.seed}

    def reshape(self, marginals: Marginals, positions: Int[Tensor, " K"]) -> Float[Tensor, "K V"]:
        exact = marginals.dense()
        if self.kind == "mix":
            return (1 - self.epsilon) * exact + self.epsilon / self.vocabulary
        symbols = torch.arange(self.vocabulary)
        rank = uniform(self.seed, Stream.TIE, symbols, positions.unsqueeze(-1))
        score = torch.round(exact / 1e-9) + rank  # the rank decides between probabilities equal to 1e-9
        if self.kind == "tilt":
            score = torch.where(exact > 0, score, torch.inf)
        chosen = score.argmin(-1, keepdim=True)
        weight = solve_weight(exact.gather(-1, chosen), self.epsilon)
        return ((1 - weight) * exact).scatter_add(-1, chosen, weight)


def solve_weight(probability: Tensor, epsilon: float) -> Tensor:
    """The w for which adding weight w to a token of probability s gives KL = epsilon; 0 if s is 1.

    With y = -log(1-w):  KL(y) = (1-s) y - s log(e^-y + (1-e^-y)/s),  convex and increasing from 0, so Newton's
    iteration decreases to the root from the right. Each s stops at its own root, independently of the others.
    """
    probability = probability.double()
    free = probability < 1
    s = torch.where(free, probability, 0.5)
    entropy = -torch.xlogy(s, s)
    y = (epsilon + entropy) / (1 - s)

    falls = free
    for _ in range(60):
        rest = torch.exp(-y)
        mixed = s * rest - torch.expm1(-y)  # the new probability of the token
        value = (1 - s) * y - torch.xlogy(s, mixed) - entropy
        slope = (1 - s) - s * rest * (1 - s) / mixed
        step = torch.where(slope > 0, (value - epsilon) / slope.clamp(min=1e-300), 0.0)
        below = (y - step).clamp(min=0.0)
        y, falls = torch.where(falls, below, y), falls & (y - below > NEAR * y)
        if not bool(falls.any()):
            break

    return torch.where(free, -torch.expm1(-y), 0.0)
