"""What a family of models computes, behind one question: the states at some columns, and what the head says of them.

R rows, W columns of each, L positions of a row, T keys that may be seen.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from unmask.networks.model.cache import Reach


class Sizes(NamedTuple):
    """Of the keys and values that a body keeps: layers, heads of them, and numbers a head."""

    layers: int
    heads: int
    width: int


class Body(nn.Module):
    """Token ids in, states out; it knows neither samplers nor canvases, and the mask is to it a token as any other."""

    vocabulary: int  # rows of the head
    hidden: int
    context: int  # positions that it was made for
    sizes: Sizes | None  # None: it keeps nothing, and always computes whole rows
    block: int | None = None  # in which it was taught, where config.json says so
    position_free: ClassVar[bool] = True  # whether positions are told by columns alone

    @abstractmethod
    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        """(R, W, hidden) of tokens (R, W), as the head reads them.

        columns: (R, W), where each of them stands in its row; None: 0..W-1. seen: Bool (R or 1, 1, W or 1, T), which
        keys each may attend to; None: all. reach: where keys and values are kept, and those of other columns found.
        """

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """(.., V) of states (.., hidden)."""

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def parameters_used(self) -> int:
        """Of all weights those that one token is multiplied with, the embedding and the head not among them."""
        return sum(
            weight.numel()
            for name, weight in self.named_parameters()
            if not name.startswith(("model.embed", "lm_head"))
        )

    def flops(self, columns: int, keys: int) -> float:
        """Of so many columns in all layers, which attend to so many keys each: a multiplication with its addition
        counts twice."""
        attention = 0.0 if self.sizes is None else 4.0 * self.sizes.layers * columns * keys * self._attended
        return 2.0 * columns * self.parameters_used() + attention

    @property
    def _attended(self) -> int:
        """Numbers of a token's query in one layer."""
        return self.hidden
