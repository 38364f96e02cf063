"""Verify and restart (theory.md 10): sequences that a verifier rejects are generated again from the start.

Attempts are independent, and the first valid one is kept: the output distribution is p(. | valid), for 1 / (1 - SER)
attempts on average. After `most` restarts the last attempt stays even if it is invalid (with `strict` this is an
error). All attempts count in the cost. An exact denoiser, also perturbed or sharpened, uses its language's support as
the verifier; others need verifier=: tokens (B, L) to Bool (B). Attempt a has random seed + a * 0x9E3779B97F4A7C15.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import MAX_SEED, MAX_VISIT
from unmask.core.errors import UnmaskError
from unmask.denoisers.canvas import by_length
from unmask.samplers.contract import SAMPLERS, Reads, Sampler, check_inner, inner_of
from unmask.samplers.loops import fill
from unmask.samplers.session import Session

APART = 0x9E3779B97F4A7C15  # the golden ratio in 64 bits: far from the distance of any two seeds that users pick


@SAMPLERS.register("verify-and-restart")
@dataclass(frozen=True)
class VerifyAndRestart(Sampler):
    """Another sampler, restarted for sequences that the language rejects."""

    inner: str | Sampler = "ancestral"
    most: int = 10
    strict: bool = False
    verifier: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        arguments.whole("most", self.most, 0, MAX_VISIT)
        if self.verifier is not None and not callable(self.verifier):
            arguments.refuse("verifier", self.verifier, "a function of tokens (B, L), or None")
        check_inner(self)

    @property
    def reads(self) -> frozenset[Reads]:
        return inner_of(self).reads

    @property
    def revises(self) -> bool:
        return True

    def run(self, session: Session) -> None:
        verify = self.verifier or self._support(session)
        rows = torch.arange(len(session.given))
        for restarts in range(self.most + 1):
            attempt = session.attempt(rows, (session.rng.seed + restarts * APART) % MAX_SEED)
            fill(inner_of(self), attempt)
            session.adopt(rows, attempt)
            refused = torch.zeros_like(rows, dtype=torch.bool)
            for size, which in by_length(attempt.valid.sum(1)):
                refused[which] = ~verify(attempt.tokens[which, :size])
            rows = rows[refused]
            if not len(rows):
                return
        if self.strict:
            row = int(session.rng.row_ids[rows[0]])
            problem = f"{session.name} rejected row {row} in all {self.most + 1} attempts"
            raise UnmaskError(f"{problem}; expected a valid one. Raise most, or the number of steps.")

    def _support(self, session: Session) -> Callable[[Tensor], Tensor]:
        language = session.denoiser.language
        if language is None:
            problem = f"{session.name} has no verifier: {session.denoiser.name} has no language"
            raise UnmaskError(f"{problem}. Pass verifier=, a function of tokens (B, L).")
        return language.supports
