"""ter_upper of a sampler from its own decisions: the language's sequences are put through it, and their price is read.

The price of a path bounds -log p(x) from above in the mean over the luck, for the samplers that generation/teaching.py
says; of the others it says nothing.
"""

from __future__ import annotations

from torch import Tensor

from unmask.core.chance import Luck
from unmask.denoisers import Denoiser
from unmask.generation.teaching import read, teach_sampler
from unmask.languages import Language
from unmask.samplers import Sampler


def of_reader(denoiser: Denoiser, language: Language, truth: Tensor) -> Tensor:
    """(B) log q(x) - log p(x) of a causal reader, for each row of the truth (B, L)."""
    chance = read(denoiser, truth).of(truth.reshape(-1)).view_as(truth)
    return language.log_prob(truth) - chance.log().sum(1)


def divergence(
    sampler: Sampler, denoiser: Denoiser, language: Language, truth: Tensor, delta: Tensor, luck: Luck
) -> Tensor:
    """(B) log q(x) - log p(x | luck) in nats of each row of the truth (B, L) ~ q: its mean is at least KL(q || p).

    Raises Unbounded where there is no such bound; infinite where the sampler cannot write x.
    """
    nats = teach_sampler(denoiser, language.blank(*truth.shape), truth, sampler, delta, luck)
    return language.log_prob(truth) + nats.sum(1)
