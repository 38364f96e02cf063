"""Temperature, top-p and top-k of a denoiser, for all samplers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from unmask.denoisers.denoiser import Denoiser
from unmask.denoisers.marginals import Marginals, check_sharpening
from unmask.denoisers.reshaped import Reshaped


class Sharpened(Reshaped):
    """p^(1/T), restricted to the fewest most likely symbols with mass top_p, and of these to the first top_k.

    T = 0 leaves only the most likely symbol. Samplers score and draw from the same sharpened distribution.
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
    """The most likely symbols with probabilities that sum to at most `most`, at least one (BD3-LM's top-p)."""

    def __init__(self, inner: Denoiser, most: float) -> None:
        super().__init__(inner)
        self.most = most

    def options(self) -> Mapping[str, Any]:
        return {"nucleus": self.most}

    def reshape(self, marginals: Marginals, positions: Tensor) -> Marginals:
        return marginals.nucleus(self.most)
