"""Variants of rotary positions: rounded to bfloat16 (SMDM), or stretched for longer texts (YaRN).

YaRN   pairs with many turns in the original context keep their angles; pairs with few turns have them divided by the
       factor; pairs in between are interpolated. Cosines and sines are scaled by one number
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import torch
from torch import Tensor

from unmask.hub.decoder import Decoder, Rotary, Shape

Positive = Annotated[float, msgspec.Meta(gt=0)]


class Yarn(msgspec.Struct, frozen=True):
    """The entry rope_parameters of config.json."""

    factor: Positive
    original_max_position_embeddings: Annotated[int, msgspec.Meta(ge=1, le=2**24)]
    rope_theta: Annotated[float, msgspec.Meta(gt=1)] = 1e6
    beta_fast: Positive = 32.0  # pairs with at least this number of turns are unchanged
    beta_slow: Positive = 1.0  # pairs with at most this number of turns are stretched
    mscale: Positive | None = None
    mscale_all_dim: Positive | None = None
    attention_factor: Positive | None = None

    def turns(self, width: int, device: torch.device | None = None) -> Tensor:
        """The (width / 2) angles per position."""
        theta = self.rope_theta

        def pair(turns: float) -> float:
            """The index of the pair with this number of turns."""
            return width * math.log(self.original_max_position_embeddings / (turns * 2 * math.pi)) / 2 / math.log(theta)

        low, high = max(math.floor(pair(self.beta_fast)), 0), min(math.ceil(pair(self.beta_slow)), width - 1)
        spread = high - low or 1e-3
        weight = 1 - ((torch.arange(width // 2, device=device).float() - low) / spread).clamp(0, 1)
        periods = theta ** (torch.arange(0, width, 2, device=device).float() / width)
        return 1.0 / (self.factor * periods) * (1 - weight) + 1.0 / periods * weight

    @property
    def scale(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return _grown(self.factor, self.mscale) / _grown(self.factor, self.mscale_all_dim)
        return _grown(self.factor, 1.0)


class Stretched(Decoder):
    def __init__(self, shape: Shape, yarn: Yarn) -> None:
        super().__init__(shape)
        self.yarn = yarn

    def rotary(self, columns: Tensor) -> Rotary:
        rotate = super().rotary(columns)
        angles = columns.unsqueeze(-1).float() * self.yarn.turns(self.shape.head_dim, columns.device)
        angles = torch.cat([angles, angles], -1).unsqueeze(1)
        rotate.cos, rotate.sin = (part.mul(self.yarn.scale).to(self.dtype) for part in (angles.cos(), angles.sin()))
        return rotate


class Rounded(Decoder):
    """Positions whose cosines and sines have the precision of bfloat16, also with other types of weights."""

    def rotary(self, columns: Tensor) -> Rotary:
        rotate = super().rotary(columns)
        rotate.cos, rotate.sin = (part.bfloat16().to(self.dtype) for part in (rotate.cos, rotate.sin))
        return rotate


def _grown(factor: float, scale: float) -> float:
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0
