"""Policy gradients of diffusion language models: the exact one, and the surrogates of the papers against it."""

from unmask.diagnosis.policy.compare import Comparison, compare
from unmask.diagnosis.policy.gradient import Gradient, gradient
from unmask.diagnosis.policy.surrogates import SURROGATES, Surrogate

__all__ = ["SURROGATES", "Comparison", "Gradient", "Surrogate", "compare", "gradient"]
