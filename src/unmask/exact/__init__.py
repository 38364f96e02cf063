"""Compiled kernels on plain arrays: machines, messages, likelihoods, sampling."""
