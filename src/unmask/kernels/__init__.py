"""Compiled kernels on plain arrays: machines, messages, likelihoods, sampling.

Shapes, here and in the comments beside arrays:

    B rows    L positions    V symbols, V itself being the mask    S states    K places asked for
    messages of one row are flat, (L*S); those of eight rows side by side too: lane r of state s stands at 8 s + r
"""
