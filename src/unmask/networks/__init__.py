"""Networks that learn the languages: one transformer, bidirectional for MDMs and causal for AR models."""

from unmask.networks.checkpoints import load, save
from unmask.networks.denoiser import Network, read_network
from unmask.networks.shape import PRESETS, Shape, preset
from unmask.networks.trunk import Trunk

__all__ = ["PRESETS", "Network", "Shape", "Trunk", "load", "preset", "read_network", "save"]
