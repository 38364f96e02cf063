"""Networks trained on languages and texts: one transformer, bidirectional for MDMs and causal for AR models."""

from unmask.models.trained.checkpoints import load, save
from unmask.models.trained.denoiser import Network, read_network
from unmask.models.trained.shape import PRESETS, Shape, preset
from unmask.models.trained.trunk import Trunk

__all__ = ["PRESETS", "Network", "Shape", "Trunk", "load", "preset", "read_network", "save"]
