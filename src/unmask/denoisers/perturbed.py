"""An ideal denoiser with a learning error of known size: KL(q || p_theta) = epsilon in every context."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.chance import Stream, uniform
from unmask.denoisers.contracts import Causal, Denoiser, Engine
from unmask.denoisers.exact import Exact
from unmask.errors import UnmaskError, unknown
from unmask.languages import Language

KINDS = ("leak", "tilt")


class Perturbed:
    """p = (1-w) q + w on the least likely token, with w solved so that KL(q || p) is epsilon nats in every context.

    `leak` takes the least likely token of all, and so makes errors that q never makes; `tilt` takes the least likely
    one that is possible, so that the support stays: the divergence is then 0 where only one token is possible. Ties
    are broken by a ranking of the tokens that is keyed by seed and position. It is the epsilon of Assumption 4.1
    (theory.md 4), with equality.
    """

    def __init__(self, source: Language | Denoiser, kind: str, epsilon: float, seed: int = 0) -> None:
        if kind not in KINDS:
            raise unknown("kind of perturbation", kind, KINDS)
        if not 0 <= epsilon < float("inf"):
            raise UnmaskError(f"epsilon is {epsilon}; expected 0 or a positive number of nats")
        self.inner: Denoiser = Exact(source) if isinstance(source, Language) else source
        self.kind, self.epsilon, self.seed = kind, epsilon, seed
        self.vocabulary = self.inner.vocabulary
        self.time_free = self.inner.time_free

    def engine(self, tokens: Tensor) -> Engine:
        return PerturbedEngine(self, tokens)

    def causal(self, rows: int, length: int) -> Causal:
        return PerturbedCausal(self, rows, length)

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        places = torch.arange(tokens.shape[1]) if positions is None else positions
        exact = self.inner.posterior(tokens, positions, time)
        return torch.where(
            (tokens.gather(1, places.expand(len(tokens), -1)) == self.vocabulary).unsqueeze(-1),
            self.perturb(exact, places.expand(len(tokens), -1)),
            exact,
        )

    def row_bytes(self, length: int) -> int:
        return self.inner.row_bytes(length)

    def perturb(self, exact: Tensor, positions: Tensor) -> Tensor:
        """The perturbed form of marginals (..., V) at positions (...)."""
        symbols = torch.arange(self.vocabulary)
        rank = uniform(self.seed, Stream.TIE, symbols, positions.unsqueeze(-1))
        score = torch.round(exact / 1e-9) + rank  # equal to 1e-9: the keyed rank decides
        if self.kind == "tilt":
            score = torch.where(exact > 0, score, torch.inf)
        chosen = score.argmin(-1, keepdim=True)
        share = exact.gather(-1, chosen)
        weight = solve_weight(share, self.epsilon)
        return ((1 - weight) * exact).scatter_add(-1, chosen, weight)


def solve_weight(share: Tensor, epsilon: float) -> Tensor:
    """The w for which mixing w of a token that has probability `share` costs KL = epsilon; 0 where share is 1.

    With y = -log(1-w):  KL(y) = (1-share) y - share log(e^-y + (1-e^-y)/share),  convex and increasing from 0, so
    Newton's iteration falls to the root from the right.
    """
    share = share.double()
    free = share < 1
    s = torch.where(free, share, 0.5)
    entropy = -torch.xlogy(s, s)
    y = (epsilon + entropy) / (1 - s)
    for _ in range(60):
        kept = torch.exp(-y)
        mixed = s * kept - torch.expm1(-y)  # the new probability of the token
        value = (1 - s) * y - torch.xlogy(s, mixed) - entropy
        slope = (1 - s) - s * kept * (1 - s) / mixed
        y = torch.where(slope > 0, y - (value - epsilon) / slope.clamp(min=1e-300), y).clamp(min=0.0)
    return torch.where(free, -torch.expm1(-y), 0.0)


class PerturbedEngine:
    def __init__(self, denoiser: Perturbed, tokens: Tensor) -> None:
        self.denoiser = denoiser
        self.tokens = tokens
        self.inner = denoiser.inner.engine(tokens)

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self.inner.renew(rows, positions)

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        return self.denoiser.perturb(self.inner.at(rows, positions, time), positions)

    def over(self, window: slice, time: Tensor | None) -> Tensor:
        exact = self.inner.over(window, time)
        positions = torch.arange(self.tokens.shape[1])[window].expand(exact.shape[:2])
        hidden = (self.tokens[:, window] == self.denoiser.vocabulary).unsqueeze(-1)
        return torch.where(hidden, self.denoiser.perturb(exact, positions), exact)

    def dead(self) -> Tensor | None:
        return self.inner.dead()


class PerturbedCausal:
    def __init__(self, denoiser: Perturbed, rows: int, length: int) -> None:
        self.denoiser = denoiser
        self.inner = denoiser.inner.causal(rows, length)
        self.lengths = torch.full((rows,), -1)

    @property
    def evaluations(self) -> Tensor:
        return self.inner.evaluations

    @property
    def forwards(self) -> int:
        return self.inner.forwards

    def extend(self, tokens: Tensor, counts: Tensor | None = None) -> Tensor:
        counts = torch.full((len(tokens),), tokens.shape[1]) if counts is None else counts
        exact = self.inner.extend(tokens, counts)
        positions = self.lengths.unsqueeze(1) + 1 + torch.arange(tokens.shape[1])
        self.lengths = self.lengths + counts
        asked = (exact.sum(-1, keepdim=True)) > 0
        return torch.where(asked, self.denoiser.perturb(exact, positions), exact)

    def rewind(self, lengths: Tensor) -> None:
        self.inner.rewind(lengths)
        self.lengths = torch.minimum(self.lengths, lengths)
