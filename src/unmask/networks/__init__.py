"""Networks trained on languages and texts: one transformer, bidirectional for MDMs and causal for AR models."""

from unmask.networks.model.checkpoints import load, save
from unmask.networks.model.shape import PRESETS, Shape, preset
from unmask.networks.model.trunk import Trunk
from unmask.networks.running.denoiser import Network, read_network

__all__ = ["PRESETS", "Network", "Shape", "Trunk", "load", "preset", "read_network", "save"]
