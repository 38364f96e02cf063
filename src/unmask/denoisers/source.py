"""A language as a denoiser: its ideal denoiser for one kind of noise."""

from __future__ import annotations

from pathlib import Path

from unmask.denoisers.denoiser import Denoiser, checked
from unmask.denoisers.ideal import Ideal
from unmask.denoisers.noise import Noise
from unmask.denoisers.uniform import UniformIdeal
from unmask.languages import Language, LanguageLike, load


def as_denoiser(source: LanguageLike | Denoiser, noise: Noise = "mask") -> Denoiser:
    """The denoiser itself, or the ideal denoiser of a language or its spec for this noise."""
    if not isinstance(source, Language | str | Path):
        return checked(source)
    return UniformIdeal(load(source)) if noise == "uniform" else Ideal(load(source))
