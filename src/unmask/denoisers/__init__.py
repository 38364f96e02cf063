"""What predicts: the exact posterior of a language, reshaped ones, and the contract for everything else."""

from unmask.denoisers.canvas import Canvas
from unmask.denoisers.contracts import Causal, Denoiser, Engine
from unmask.denoisers.exact import Exact
from unmask.denoisers.oracle import oracle
from unmask.denoisers.perturbed import Perturbed
from unmask.denoisers.reshaped import Reshaped, language_of
from unmask.denoisers.sharpened import Sharpened, heated
from unmask.denoisers.stateless import PrefixCausal, StatelessEngine

__all__ = [
    "Canvas",
    "Causal",
    "Denoiser",
    "Engine",
    "Exact",
    "Perturbed",
    "PrefixCausal",
    "Reshaped",
    "Sharpened",
    "StatelessEngine",
    "heated",
    "language_of",
    "oracle",
]
