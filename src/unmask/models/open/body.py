"""The interface of a network: from token ids to states, and from states to logits.

R rows, W columns of each, L positions of a row, T keys.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import msgspec
import torch
from torch import Tensor, nn

from unmask.models.trained.memory import Reach

Count = Annotated[int, msgspec.Meta(ge=1, le=2**24)]
Depth = Annotated[int, msgspec.Meta(ge=1, le=2**12)]  # number of layers


class Sizes(NamedTuple):
    """Shape of the KV cache: layers, heads, and width of a head."""

    layers: int
    heads: int
    width: int


def count(module: nn.Module, outside: Iterable[Tensor] = ()) -> int:
    """Number of weights of a module, without these."""
    left_out = set(map(id, outside))
    return sum(weight.numel() for weight in module.parameters() if id(weight) not in left_out)


def symbols_of(network: Any) -> int | None:
    """Rows of the embedding of a network of transformers; None if unknown."""
    embedding = getattr(network, "get_input_embeddings", lambda: None)()
    return getattr(embedding, "num_embeddings", None)


class Body(nn.Module):
    """A network from token ids to states. It treats the mask as an ordinary token."""

    block: int | None = None  # the block length of its training, if config.json has it
    symbols: int | None = None  # ids that it reads; they may be more than the rows of its head, which cannot write all

    def __init__(
        self, vocabulary: int, hidden: int, context: int, sizes: Sizes | None, attended: int | None = None
    ) -> None:
        """vocabulary: rows of the head; context: largest number of positions; sizes: None without a KV cache, so it
        always computes whole rows; attended: width of a token's query in one layer, over all heads."""
        super().__init__()
        self.vocabulary, self.hidden, self.context, self.sizes = vocabulary, hidden, context, sizes
        self.attended = attended or hidden

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
        return next((weight.device for weight in self.parameters()), torch.device("cpu"))

    @property
    def dtype(self) -> torch.dtype:
        return next((weight.dtype for weight in self.parameters() if weight.is_floating_point()), torch.float32)

    @property
    @abstractmethod
    def parameters_used(self) -> int:
        """Number of weights that multiply one token, without the embedding and the head."""

    def flops(self, columns: int, keys: int) -> float:
        """FLOPs of all layers for a number of columns, each attending to `keys` keys; a multiply-add counts as two."""
        flops = 2.0 * columns * self.parameters_used
        if self.sizes is not None:
            flops += 4.0 * self.sizes.layers * columns * keys * self.attended
        return flops
