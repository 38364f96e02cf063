"""Compiled kernels on plain arrays: machines, messages, likelihoods, sampling.

Shapes, here and in the comments beside arrays:

    B rows    L positions    V symbols; V itself is the mask    S states    K requested positions
    messages of one row are flat, (L*S); messages of eight rows too: lane r of state s is at index 8 s + r
"""
