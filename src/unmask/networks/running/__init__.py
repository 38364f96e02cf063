"""A network as a denoiser and as a causal reader, evaluated as seldom as it can be."""
