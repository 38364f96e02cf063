"""Denoisers: their interface, and wrappers that modify the predictions of another denoiser."""

from unmask.denoisers.canvas import Canvas
from unmask.denoisers.contracts import Causal, Cost, Engine
from unmask.denoisers.denoiser import Denoiser
from unmask.denoisers.guided import Guided
from unmask.denoisers.marginals import Logits, Marginals, Table, as_marginals, joined
from unmask.denoisers.noise import Noise
from unmask.denoisers.reshaped import Reshaped
from unmask.denoisers.sharpened import Nucleus, Sharpened
from unmask.denoisers.stateless import PrefixCausal, StatelessEngine

__all__ = [
    "Canvas",
    "Causal",
    "Cost",
    "Denoiser",
    "Engine",
    "Guided",
    "Logits",
    "Marginals",
    "Noise",
    "Nucleus",
    "PrefixCausal",
    "Reshaped",
    "Sharpened",
    "StatelessEngine",
    "Table",
    "as_marginals",
    "joined",
]
