"""A network as a denoiser and as a causal reader, with as few model calls as possible."""
