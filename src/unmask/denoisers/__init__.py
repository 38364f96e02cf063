"""What predicts: the exact posterior of a language, perturbed ones, and the contract for everything else."""

from unmask.denoisers.canvas import Canvas
from unmask.denoisers.contracts import Causal, Denoiser, Engine
from unmask.denoisers.exact import Exact
from unmask.denoisers.perturbed import Perturbed
from unmask.denoisers.stateless import PrefixCausal, StatelessEngine

__all__ = ["Canvas", "Causal", "Denoiser", "Engine", "Exact", "Perturbed", "PrefixCausal", "StatelessEngine"]
