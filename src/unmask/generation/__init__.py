"""generate() makes sequences from a language or denoiser with a sampler and a schedule, and counts their cost."""

from unmask.generation.making import fit_of, generate
from unmask.generation.result import Generation, join
from unmask.generation.start import prompts

__all__ = ["Generation", "fit_of", "generate", "join", "prompts"]
