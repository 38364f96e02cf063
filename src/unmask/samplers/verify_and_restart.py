"""Verify and restart (theory.md 10): what a verifier refuses is made once more from the start.

Attempts are independent, and the first that is valid is kept: the output law is p(. | valid), for 1 / (1 - SER)
attempts in the mean. After `most` restarts the last attempt stays, valid or not (`strict`: that is an error). The cost
of all attempts is counted. The verifier of an exact denoiser, perturbed or sharpened too, is its language's support;
any other needs verifier=: tokens (B, L) to Bool (B). Attempt a draws its luck from seed + a * 0x9E3779B97F4A7C15.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import MAX_SEED, MAX_VISIT
from unmask.core.errors import UnmaskError
from unmask.denoisers.canvas import by_length
from unmask.samplers import checks
from unmask.samplers.contract import SAMPLERS, Reads, Sampler
from unmask.samplers.loops import fill
from unmask.samplers.session import Session

APART = 0x9E3779B97F4A7C15  # the golden ratio in 64 bits: no two seeds that a person picks are this far apart


@SAMPLERS.register("verify-and-restart")
@dataclass(frozen=True)
class VerifyAndRestart(Sampler):
    """Another sampler, again from the start where the language refuses what came out."""

    inner: str | Sampler = "ancestral"
    most: int = 10
    strict: bool = False
    verifier: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        arguments.whole("most", self.most, 0, MAX_VISIT)
        if self.verifier is not None and not callable(self.verifier):
            arguments.refuse("verifier", self.verifier, "a function of tokens (B, L), or None")
        checks.inner(self)

    @property
    def reads(self) -> frozenset[Reads]:
        return checks.made(self.inner).reads

    @property
    def revises(self) -> bool:
        return True

    def run(self, session: Session) -> None:
        verify = self.verifier or self._support(session)
        rows = torch.arange(len(session.given))
        for restarts in range(self.most + 1):
            attempt = session.attempt(rows, (session.luck.seed + restarts * APART) % MAX_SEED)
            fill(checks.made(self.inner), attempt)
            session.adopt(rows, attempt)
            refused = torch.zeros_like(rows, dtype=torch.bool)
            for size, which in by_length(attempt.valid.sum(1)):
                refused[which] = ~verify(attempt.tokens[which, :size])
            rows = rows[refused]
            if not len(rows):
                return
        if self.strict:
            row = int(session.luck.row_ids[rows[0]])
            raise UnmaskError(f"{session.name}: row {row} was refused {self.most + 1} times; raise most, or the steps")

    def _support(self, session: Session) -> Callable[[Tensor], Tensor]:
        language = session.denoiser.language
        if language is None:
            what = f"{session.name} cannot tell what is valid: {session.denoiser.name} has no language"
            raise UnmaskError(f"{what}; give verifier=, a function of tokens (B, L)")
        return language.supports
