"""Verify and restart (theory.md 10): sequences that a verifier rejects are generated again from the start.

Attempts are independent, and the first valid one is kept: the output distribution is p(. | valid), for 1 / (1 - SER)
attempts on average. After `most` restarts the last attempt stays even if it is invalid. All attempts count in the cost.
A denoiser with a language has the language's support as its verifier; others need verifier=: tokens (B, L) to Bool (B).
Attempt a has random seed + a * 0x9E3779B97F4A7C15.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask import UnmaskError
from unmask.core import arguments
from unmask.core.chance import MAX_SEED, MAX_VISIT
from unmask.samplers import Sampler, Session, fill
from unmask.samplers.contract import check_inner, inner_of

APART = 0x9E3779B97F4A7C15  # the golden ratio in 64 bits: far from the distance of any two seeds that users pick


@dataclass(frozen=True)
class Restart(Sampler):
    """Another sampler, restarted for sequences that the verifier rejects."""

    revises = True
    inner: str | Sampler = "ancestral"
    most: int = 10
    verifier: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        arguments.whole("most", self.most, 0, MAX_VISIT)
        check_inner(self)

    def run(self, session: Session) -> None:
        language, inner = session.denoiser.language, inner_of(self)
        if self.verifier is None and language is None:
            problem = f"{session.name} has no verifier: {session.denoiser.name} has no language"
            raise UnmaskError(f"{problem}. Pass verifier=, a function of tokens (B, L).")
        verify = self.verifier or language.supports
        rows = torch.arange(len(session.given))
        for restarts in range(self.most + 1):
            attempt = session.attempt(rows, (session.rng.seed + restarts * APART) % MAX_SEED)
            fill(inner, attempt)
            session.adopt(rows, attempt)
            lengths = attempt.valid.sum(1)
            refused = torch.zeros_like(rows, dtype=torch.bool)
            for size in lengths.unique().tolist():
                which = (lengths == size).nonzero().squeeze(1)
                refused[which] = ~verify(attempt.tokens[which, :size].contiguous())
            rows = rows[refused]
            if not len(rows):
                return
