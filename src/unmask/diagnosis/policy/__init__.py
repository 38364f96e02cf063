"""Policy gradients of diffusion language models: the exact one, and the surrogates of the papers against it."""
