"""generate(): a language or a denoiser, a sampler and a schedule make sequences, with an honest account of the cost."""

from unmask.generation.making import fit_of, generate
from unmask.generation.result import Generation, join
from unmask.generation.start import prompts

__all__ = ["Generation", "fit_of", "generate", "join", "prompts"]
