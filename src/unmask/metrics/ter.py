"""The token error rate by its definition, where it is exact (theory.md (4)).

TER(p) = 2^{E_{x~q}[-log2 p(x) / |x|]};  at a fixed length  log2 TER(p) = (H(q) + KL(q || p)) / L in bits.
"""

from __future__ import annotations

import math

import torch

from unmask.denoisers import Exact
from unmask.errors import UnmaskError
from unmask.estimates import Estimate, exactly
from unmask.languages import Interval, Language
from unmask.metrics.enumeration import MAX_LENGTH, MAX_SEQUENCES, output_law, sequences
from unmask.metrics.interval import exact_ter
from unmask.schedules import Schedule, deltas


def ter_autoregressive(language: Language, length: int) -> Estimate:
    """TER of exact autoregression, which is the language's own: 2^(H(q)/L); exact where the entropy is."""
    _fixed(language)
    return language.entropy(length).map(lambda nats: 2 ** (nats / length / math.log(2)))


def ter(language: Language, length: int, schedule: Schedule = "linear", steps: int | None = None) -> Estimate:
    """TER of ancestral sampling with the ideal denoiser: of the interval language at any length, of others if tiny."""
    _fixed(language)
    language.check_length(length)
    delta = deltas(schedule, steps)
    if isinstance(language, Interval):
        return exactly(exact_ter(language, length, delta))
    if language.vocabulary**length > MAX_SEQUENCES or length > MAX_LENGTH:
        nearest = "ter_upper bounds it at every length, ter_autoregressive is exact for AR"
        raise UnmaskError(f"no exact TER for {language.kind} at length {length}; {nearest}")
    q = language.log_prob(sequences(language.vocabulary, length)).exp()
    p = output_law(Exact(language), length, delta)
    bits = -torch.where(q > 0, q * p.log2(), 0.0).sum() / length
    return exactly(2 ** float(bits))


def _fixed(language: Language) -> None:
    if language.end is not None:
        raise UnmaskError(f"{language.kind} varies in length: E[-log p / |x|] has no closed form; use ter_upper")
