"""Speculative decoding on first-order chains: the exact expected number of steps (theory.md 10).

A step after token a drafts K tokens independently, y_i from d_i = P^i(a, .), and reads them causally. The accepted
drafts y_1 .. y_i = .., y have the mass

    f_0(y) = 1[y = a],    f_i(y) = sum_s f_{i-1}(s) min(P(s, y), d_i(y))

as d_i(y) min(1, P/d_i) = min(P, d_i). The i-th is rejected and replaced by y with sum_s f_{i-1}(s) (P(s, y) - d_i(y))+:
the probability of rejection, sum (P - d_i)+, times the distribution of the replacement. If all K are accepted, one more
is drawn from P. So with g tokens left, k = min(K, g), the number of steps is

    T(a; g) = 1 + sum_{i<=k} sum_y rejected_i(y) T(y; g-i) + sum_y (f_K P)(y) T(y; g-K-1),    T(.; g) = 0 for g <= 0

where the last term is present only if tokens follow the drafts. A step is one model call of the masked model and one of
the causal one, so this is the mean of both counts of `speculative`: O(L K S^3), for every length at once.
"""

from __future__ import annotations

import numpy as np

from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.kernels.machine import Floats
from unmask.languages import Language
from unmask.theory.chains import first_order


def turns(language: Language, length: int, draft_length: int) -> Floats:
    """(L) the expected number of steps for 1..L tokens, from a blank canvas, with the ideal denoiser as both models."""
    if draft_length < 1:
        raise UnmaskError(f"draft_length is {draft_length}; expected at least 1")
    if (chain := first_order(language)) is None:
        problem = f"the number of speculative steps on {language.kind} has no formula"
        raise UnmaskError(f"{problem}; expected a first-order chain. Measure it: generate(sampler='speculative').")
    return np.asarray(_turns(chain.kernels(draft_length), length, draft_length))


@kernel
def _turns(kernels, length, draft_length):  # type: ignore[no-untyped-def]
    """(L) T(begin; g) for g = 1..L; kernels (K+1, S+1, S+1) with the begin as the last symbol."""
    size = kernels.shape[1] - 1
    step = kernels[1]
    left = np.zeros((length + 1, size + 1))  # T(a; g)
    mass, following = np.empty(size + 1), np.empty(size + 1)
    for g in range(1, length + 1):
        for a in range(size + 1):
            total = 1.0
            mass[:] = 0.0
            mass[a] = 1.0
            drafts = min(draft_length, g)
            for i in range(1, drafts + 1):
                following[:] = 0.0
                for s in range(size + 1):
                    if mass[s] > 0.0:
                        for y in range(size):
                            draft, true = kernels[i, a, y], step[s, y]
                            following[y] += mass[s] * min(draft, true)
                            total += mass[s] * max(true - draft, 0.0) * left[g - i, y]
                mass[:] = following
            if g > drafts:
                for s in range(size):
                    for y in range(size):
                        total += mass[s] * step[s, y] * left[g - drafts - 1, y]
            left[g, a] = total
    return left[1:, size]
