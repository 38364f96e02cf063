"""The ideal denoiser of a language under uniform noise, the noise of DiffusionGemma, Duo, UDLM and SEDD-uniform.

At level a, from 0 (noise) to 1 (clean), each token is kept with probability a and otherwise uniform on V symbols:
E_a(v, y) = a [v = y] + (1 - a) / V. Two posteriors of a token x_i given noisy tokens y, each computed from the other:

    leave-one-out   r_i(v) = q(x_i = v | y without y_i)              full   q_i(v) = r_i(v) E_a(v, y_i) / norm

Given tokens have level 1, and hidden positions level 0. The time of a prediction is its level a.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Literal

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.threads import over_blocks
from unmask.denoisers.contracts import Causal, Engine, of_rows
from unmask.denoisers.denoiser import ByLength, Denoiser
from unmask.denoisers.ideal import Ideal
from unmask.denoisers.noise import Noise, emitted
from unmask.languages import Interval, Language
from unmask.languages.kernels.passes import Passes, machine_rows
from unmask.languages.machine import ROWS, MachineLanguage

Level = Literal["given", "prior"]
LEVELS = ("given", "prior")
WIDEST = 6  # positions of an interval whose machine is small enough
PRIOR = tuple((k + 0.5) / 16 for k in range(16))  # equally likely levels


class UniformIdeal(Denoiser):
    """q(x_i | y without y_i) of a language under uniform noise; `full` returns the view q(x_i | y).

    level: how it knows the level of the noise:
        given   the time of each prediction (default)
        prior   one of PRIOR, each weighted by its evidence q_a(y)
    """

    concurrent = True
    ideal = True
    removes: Noise = "uniform"
    language: Language

    def __init__(self, language: Language, level: Level = "given") -> None:
        arguments.word("level", level, LEVELS)

        if isinstance(language, MachineLanguage):
            self.passes = language.passes
        elif isinstance(language, Interval) and language.width <= WIDEST:
            self.passes = Passes(language.as_machine())
        else:
            raise UnmaskError(
                f"posteriors of {language.kind} under uniform noise are not known",
                f"expected a machine, or intervals of at most {WIDEST} positions",
                "Pass noise='mask'.",
            )

        self.language, self.level = language, level
        self.vocabulary = language.vocabulary
        self.time_free = level != "given"
        self.hollow = True

    @property
    def name(self) -> str:
        return f"the ideal denoiser of {self.language.kind} under uniform noise"

    def source(self) -> dict[str, Any]:
        about = {"denoiser": "uniform ideal", "level": self.level, "language": self.language.source()}
        if not self.hollow:
            about["view"] = "full"
        return about

    def full(self) -> UniformIdeal:
        """The view that predicts q(x_i | y), like a network trained to predict x from y."""
        view = copy(self)
        view.hollow = False
        return view

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        if valid is not None:
            return ByLength(self, tokens, given, valid)
        self.language.check_length(tokens.shape[1])
        if given is None:
            given = tokens
        return UniformEngine(self, tokens, given != self.vocabulary)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        raise UnmaskError(f"{self.name} cannot read from left to right; expected a masked one. Pass the language.")

    def rows_at_once(self, length: int) -> int:
        return Ideal(self.language).rows_at_once(length)

    def posterior(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        time: Tensor | None = None,
        known: Tensor | None = None,
    ) -> Tensor:
        """(B, K, V) at positions (K) or (B, K) of noisy tokens (B, L), V where hidden; time (B): the level a.

        known, Bool (B, L): tokens without noise. (default: none)
        """
        tokens = self.language.check_tokens(tokens, hidden=True)
        if known is None:
            known = torch.zeros(tokens.shape, dtype=torch.bool)
        out = self.predict(tokens, known, self.levels(time, len(tokens)))
        if positions is None:
            return out
        return out.gather(1, positions.expand(len(tokens), -1).unsqueeze(2).expand(-1, -1, self.vocabulary))

    def levels(self, time: Tensor | float | None, rows: int) -> Tensor | None:
        """(B): the checked levels of a time; None if the denoiser weights all levels."""
        if time is not None and self.time_free:
            raise UnmaskError(f"time is set, and level is {self.level!r}", "expected no time", "Leave the time out.")
        if time is None and not self.time_free:
            raise UnmaskError(
                f"time is missing, and level is {self.level!r}",
                "expected a level a",
                "Pass time=.., or use level='prior'.",
            )
        if time is None:
            return None

        level = torch.as_tensor(time, dtype=torch.float64).expand(rows).contiguous()
        if not bool(((level >= 0) & (level <= 1)).all()):
            wrong = float(level[~((level >= 0) & (level <= 1))][0])
            raise UnmaskError(f"time is {wrong:g}; expected a level a from 0 (noise) to 1 (clean). Pass time=0.5.")
        return level

    def predict(self, tokens: Tensor, known: Tensor, level: Tensor | None) -> Tensor:
        """(B, L, V): the posteriors of this view at a level (B); None: weighted over PRIOR."""
        out = torch.empty((*tokens.shape, self.vocabulary), dtype=torch.float64)

        def answer(rows: slice) -> None:
            part = tokens[rows].contiguous(), known[rows].contiguous()
            if level is None:
                out[rows] = self._weighted(*part)
                return
            self._alone(*part, level[rows], out[rows])
            if not self.hollow:
                out[rows] = seen(out[rows], *part, level[rows])[0]

        for _ in over_blocks(answer, len(tokens), ROWS):
            pass
        return out

    def _alone(self, tokens: Tensor, known: Tensor, level: Tensor, out: Tensor, mass: Tensor | None = None) -> None:
        """Set out (B, L, V) = r, and mass (B) = log q_a(y)."""
        evidence = None if mass is None else mass.numpy()
        machine_rows(self.passes, tokens.numpy(), known.numpy(), level.numpy(), out.numpy(), evidence)

    def _weighted(self, tokens: Tensor, known: Tensor) -> Tensor:
        """(B, L, V): posteriors weighted by the evidence of each level: q_a(y without y_i), or q_a(y)."""
        views: list[Tensor] = []
        masses: list[Tensor] = []
        for a in PRIOR:
            out = torch.empty((*tokens.shape, self.vocabulary), dtype=torch.float64)
            level = torch.full((len(tokens),), a, dtype=torch.float64)
            mass = torch.empty(len(tokens), dtype=torch.float64)
            self._alone(tokens, known, level, out, mass)

            full, own = seen(out, tokens, known, level)
            views.append(out if self.hollow else full)
            masses.append(mass.unsqueeze(1) - (own.log() if self.hollow else 0.0))

        weights = torch.stack(masses).softmax(0)
        return (weights.unsqueeze(-1) * torch.stack(views)).sum(0)


def seen(alone: Tensor, tokens: Tensor, known: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """(q(x_i | y), (B, L, V); q(y_i | y without y_i), (B, L), 1 where hidden) from r (B, L, V)."""
    vocabulary = alone.shape[2]
    shown = tokens < vocabulary
    at = torch.where(known, 1.0, level.unsqueeze(1))
    own = tokens.clamp(max=vocabulary - 1)
    full = emitted(alone.view(-1, vocabulary), own.view(-1), at.reshape(-1)).view_as(alone)
    mass = full.sum(2)

    certain = torch.nn.functional.one_hot(own, vocabulary).double()
    full = torch.where((at < 1).unsqueeze(2), full / mass.unsqueeze(2), certain)
    return torch.where(shown.unsqueeze(2), full, alone), torch.where(shown, mass, 1.0)


class UniformEngine(Engine):
    """Computes all messages of a row in each step, since every token may have changed."""

    def __init__(self, denoiser: UniformIdeal, tokens: Tensor, known: Tensor) -> None:
        super().__init__(tokens)
        self.denoiser, self.known = denoiser, known

    @property
    def hollow(self) -> bool:
        return self.denoiser.hollow

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        self.spend_on(rows)
        which, index = rows.unique_consecutive(return_inverse=True)
        level = self.denoiser.levels(of_rows(time, which), len(which))
        return self.denoiser.predict(self.tokens[which], self.known[which], level)[index, positions]
