"""A denoiser at another temperature, cut to its most likely symbols: what every loop offers, for all samplers alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from unmask.denoisers.denoiser import Denoiser
from unmask.denoisers.marginals import Marginals, check_sharpening
from unmask.denoisers.reshaped import Reshaped


class Sharpened(Reshaped):
    """p^(1/T), of which the fewest likeliest symbols that hold top_p are kept, and of these the first top_k.

    T = 0 leaves the most likely symbol alone. Samplers see what is left as the denoiser's own: what they score and what
    they draw from is the same.
    """

    def __init__(self, inner: Denoiser, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> None:
        check_sharpening(temperature, top_p, top_k)
        super().__init__(inner)
        self.temperature, self.top_p, self.top_k = temperature, top_p, top_k

    def options(self) -> Mapping[str, Any]:
        return {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k}

    def reshape(self, marginals: Marginals, positions: Tensor) -> Marginals:
        return marginals.sharpened(self.temperature, self.top_p, self.top_k)


class Nucleus(Reshaped):
    """The likeliest symbols whose probabilities sum to at most `most`, and the first in any case (BD3-LM's top-p)."""

    def __init__(self, inner: Denoiser, most: float) -> None:
        super().__init__(inner)
        self.most = most

    def options(self) -> Mapping[str, Any]:
        return {"nucleus": self.most}

    def reshape(self, marginals: Marginals, positions: Tensor) -> Marginals:
        return marginals.nucleus(self.most)
