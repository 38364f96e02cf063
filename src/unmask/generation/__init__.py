"""generate(): a language or a denoiser, a sampler and a schedule make sequences, with an honest account of the cost."""

from unmask.generation.generate import Generation, fit_of, generate, join, prompts

__all__ = ["Generation", "fit_of", "generate", "join", "prompts"]
