"""The ideal denoiser of a language, one with an error of known size, and the oracle as a Hugging Face model."""

from unmask.ideal.denoiser import Ideal
from unmask.ideal.oracle import oracle
from unmask.ideal.perturbed import Perturbed
from unmask.ideal.source import as_denoiser
from unmask.ideal.uniform import UniformIdeal

__all__ = ["Ideal", "Perturbed", "UniformIdeal", "as_denoiser", "oracle"]
