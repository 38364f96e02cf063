"""Whether rare tokens are written: a test of loops on `long-tail`, where 504 symbols share a probability of .04.

A language of eight symbols has no token that coarse noise loses. In a race argmax_v p_v / E_v, let the noise E never be
below e. Then a token of probability p is written about exp(-e / p) times as often as it should be. With uniforms in
bfloat16 e is 2^-8, so a token of probability 8e-5 is never written. The test counts rows with a rare token, against
rows of the sampler itself: Fisher's exact test, for any sampler, as rows are independent.

A sum in bfloat16 keeps their number, and writes few of them again and again. All rare symbols are alike, so n of them
have about n (n - 1) / 2 / 504 pairs of equal ones, a Poisson number; filters that order tokens prefer some.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import torch
from scipy import stats
from torch import Tensor

from unmask.diagnosis.audit.changes import SORTING
from unmask.diagnosis.audit.specimens import Meant
from unmask.diagnosis.audit.statistics import shares
from unmask.diagnosis.audit.suspects import REFERENCE
from unmask.samplers import generate

LONG_TAIL, COMMON = "long-tail", 8  # the language, and its symbols that are not rare
TIMES = 4  # rows of the reference, relative to the samples


class Rare(NamedTuple):
    p_value: float
    written: int  # rare tokens of the samples
    expected: float
    alike: bool  # whether the number is right, and the tokens are too often the same

    @property
    def fault(self) -> str:
        if self.alike:
            return "rare tokens (the same ones again)"
        return (
            "no known fault explains too many rare tokens" if self.written > self.expected else "rare tokens (too few)"
        )

    @property
    def size(self) -> str:
        return f"{self.written} rare tokens are written, of {self.expected:.3g} expected, each of probability 8e-5"


def rare_tokens(tokens: Tensor, meant: Meant) -> Rare:
    """Compare the rare tokens of samples (B, L) on `long-tail` with those of the sampler."""
    rows, length = tokens.shape
    reference = generate(
        meant.denoiser,
        sampler=meant.sampler,
        schedule=meant.schedule,
        steps=len(meant.delta),
        length=length,
        rows=TIMES * rows,
        seed=REFERENCE + zlib.crc32(tokens.numpy().tobytes()),  # as in an audit
    )
    mine, theirs = tokens >= COMMON, reference.tokens >= COMMON
    p_value = shares(int(mine.any(1).sum()), rows, int(theirs.any(1).sum()), len(theirs))
    again = 1.0 if SORTING & meant.filters.keys() else pairs(tokens[mine] - COMMON, meant.exact.vocabulary - COMMON)
    both = min(1.0, 2 * p_value, 10 * again)  # the tail of a number of pairs is a little heavier than Poisson's
    return Rare(both, int(mine.sum()), float(theirs.sum()) / TIMES, again < p_value)


def pairs(symbols: Tensor, number: int) -> float:
    """p-value of the pairs of equal symbols among n, of a number of equally likely ones."""
    counts = torch.bincount(symbols, minlength=number).double()
    n = len(symbols)
    return float(stats.poisson.sf(float((counts * (counts - 1)).sum()) / 2 - 1, n * (n - 1) / 2 / number))
