"""The ideal denoiser of a language, one with an error of known size, and the oracle as a Hugging Face model."""

from unmask.ideal.denoiser import Ideal, as_denoiser
from unmask.ideal.oracle import oracle
from unmask.ideal.perturbed import Perturbed

__all__ = ["Ideal", "Perturbed", "as_denoiser", "oracle"]
