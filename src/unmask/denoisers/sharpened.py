"""Temperature, top-p and top-k, as every generate function has them, for every sampler."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.denoisers.contracts import Denoiser
from unmask.denoisers.reshaped import Reshaped
from unmask.errors import UnmaskError
from unmask.languages import Language

RESOLUTION = 1e-9


class Sharpened(Reshaped):
    """p^(1/T), cut to the nucleus, cut to the k most likely tokens, in this order (Dream's), and normalised.

    temperature: 0 keeps the most likely token alone.
    top_p: the fewest tokens, the most likely first, whose mass is at least this much.
    top_k: the number of tokens that are kept at most.

    Where tokens are equally likely (to 1e-9) the lower number comes first, in all three. Samplers see the result in
    the canvas and in the causal reader: what they score and what they draw from is the same.
    """

    def __init__(
        self, source: Language | Denoiser, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None
    ) -> None:
        if not 0 <= temperature < float("inf"):
            raise UnmaskError(f"temperature is {temperature}; expected 0 or a positive number")
        if not 0 < top_p <= 1:
            raise UnmaskError(f"top_p is {top_p}; expected a share of the mass, above 0 and up to 1")
        if top_k is not None and top_k < 1:
            raise UnmaskError(f"top_k is {top_k}; expected at least 1")
        super().__init__(source)
        self.temperature, self.top_p, self.top_k = temperature, top_p, top_k

    def reshape(self, marginals: Tensor, positions: Tensor) -> Tensor:
        kept = heated(marginals, self.temperature)
        if self.top_p < 1:
            by_mass = _descending(kept)
            before = kept.gather(-1, by_mass).cumsum(-1).roll(1, -1)
            before[..., 0] = 0
            kept = kept.masked_fill(_back(by_mass, before >= self.top_p - RESOLUTION), 0)
        if self.top_k is not None and self.top_k < self.vocabulary:
            by_mass = _descending(kept)
            rank = torch.arange(self.vocabulary).expand(kept.shape)
            kept = kept.masked_fill(_back(by_mass, rank >= self.top_k), 0)
        return kept / kept.sum(-1, keepdim=True)


def heated(marginals: Tensor, temperature: float) -> Tensor:
    """p^(1/T), normalised; at T = 0 all on the most likely token, the lowest of those that are equally likely."""
    if temperature == 1:
        return marginals
    if temperature == 0:
        return torch.zeros_like(marginals).scatter_(-1, torch.round(marginals / RESOLUTION).argmax(-1, True), 1.0)
    return torch.softmax(marginals.log() / temperature, -1)


def _descending(marginals: Tensor) -> Tensor:
    """The tokens from the most likely to the least."""
    return torch.round(marginals / RESOLUTION).argsort(dim=-1, descending=True, stable=True)


def _back(order: Tensor, ranked: Tensor) -> Tensor:
    """What is said of each rank, of each token."""
    return torch.empty_like(ranked).scatter_(-1, order, ranked)
