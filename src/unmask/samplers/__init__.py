"""What decides: one file a sampler, one contract for all of them."""

from unmask.samplers.ancestral import Ancestral
from unmask.samplers.autoregressive import Autoregressive
from unmask.samplers.blocks import Blocks
from unmask.samplers.contract import SAMPLERS, Choice, Sampler, Session, View
from unmask.samplers.fixed_size import FixedSize
from unmask.samplers.left_to_right import LeftToRight
from unmask.samplers.loops import fill, walk
from unmask.samplers.low_confidence import LowConfidence
from unmask.samplers.speculative import Speculative
from unmask.samplers.structured import Dyadic, Strided

__all__ = [
    "SAMPLERS",
    "Ancestral",
    "Autoregressive",
    "Blocks",
    "Choice",
    "Dyadic",
    "FixedSize",
    "LeftToRight",
    "LowConfidence",
    "Sampler",
    "Session",
    "Speculative",
    "Strided",
    "View",
    "fill",
    "walk",
]
