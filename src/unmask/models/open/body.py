"""The interface of a network: hidden states at some columns, and the logits of the head.

R rows, W columns of each, L positions of a row, T keys.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from unmask.models.trained.cache import Reach


class Sizes(NamedTuple):
    """Shape of the KV cache: layers, heads, and width of a head."""

    layers: int
    heads: int
    width: int


class Body(nn.Module):
    """A network from token ids to states. It treats the mask as an ordinary token."""

    vocabulary: int  # rows of the head
    hidden: int
    context: int  # largest number of positions
    sizes: Sizes | None  # None: no KV cache, so it always computes whole rows
    block: int | None = None  # the block length of its training, if config.json has it
    position_free: ClassVar[bool] = True  # whether columns are the only position information

    @abstractmethod
    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        """(R, W, hidden): the last hidden states of tokens (R, W).

        columns: (R, W), the position of each token in its row; None: 0..W-1. seen: Bool (R or 1, 1, W or 1, T), the
        keys that each token attends to; None: all. reach: the KV cache.
        """

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Logits (.., V) of states (.., hidden)."""

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def parameters_used(self) -> int:
        """Number of weights that multiply one token, without the embedding and the head."""
        return sum(
            weight.numel()
            for name, weight in self.named_parameters()
            if not name.startswith(("model.embed", "lm_head"))
        )

    def flops(self, columns: int, keys: int) -> float:
        """FLOPs of all layers for a number of columns, each attending to `keys` keys; a multiply-add counts as two."""
        attention = 0.0 if self.sizes is None else 4.0 * self.sizes.layers * columns * keys * self._attended
        return 2.0 * columns * self.parameters_used() + attention

    @property
    def _attended(self) -> int:
        """Width of a token's query in one layer, over all heads."""
        return self.hidden
