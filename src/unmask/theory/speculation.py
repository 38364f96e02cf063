"""Speculation on first-order chains, exactly: how many turns it is expected to take (theory.md 10).

A turn that begins behind token a drafts K tokens apart, y_i from d_i = P^i(a, .), and reads them causally. The drafts
that are kept, y_1 .. y_i = .., y, have the mass

    f_0(y) = 1[y = a],    f_i(y) = sum_s f_{i-1}(s) min(P(s, y), d_i(y))

as d_i(y) min(1, P/d_i) = min(P, d_i). The i-th is refused and replaced by y with sum_s f_{i-1}(s) (P(s, y) - d_i(y))+:
the chance that it is refused, sum (P - d_i)+, times what the token is drawn from then. If all K are kept, one more is
drawn from P. So with g tokens to go, k = min(K, g), the number of turns is

    T(a; g) = 1 + sum_{i<=k} sum_y refused_i(y) T(y; g-i) + sum_y (f_K P)(y) T(y; g-K-1),    T(.; g) = 0 for g <= 0

where the last term is there only if something follows the drafts. A turn is one look of the masked model and one
reading of the causal one, so this is the mean of both of `speculative`'s counts: O(L K S^3), for every length at once.
"""

from __future__ import annotations

import numpy as np

from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.kernels.machine import Floats
from unmask.languages import Language
from unmask.theory.chains import first_order


def turns(language: Language, length: int, draft_length: int) -> Floats:
    """(L) the expected number of turns of 1..L tokens, from a blank canvas, with the ideal denoiser as both models."""
    if draft_length < 1:
        raise UnmaskError(f"draft_length is {draft_length}; expected at least 1")
    if (chain := first_order(language)) is None:
        nearest = "generate(sampler='speculative') counts them"
        raise UnmaskError(f"the turns of speculation on {language.kind} have no formula; {nearest}")
    return np.asarray(_turns(chain.kernels(max(draft_length, 1)), length, draft_length))


@kernel
def _turns(kernels, length, draft_length):  # type: ignore[no-untyped-def]
    """(L) T(begin; g) for g = 1..L; kernels (K+1, S+1, S+1), the begin being the last symbol."""
    size = kernels.shape[1] - 1
    step = kernels[1]
    left = np.zeros((length + 1, size + 1))  # T(a; g)
    kept, following = np.empty(size + 1), np.empty(size + 1)
    for g in range(1, length + 1):
        for a in range(size + 1):
            total = 1.0
            kept[:] = 0.0
            kept[a] = 1.0
            drafts = min(draft_length, g)
            for i in range(1, drafts + 1):
                following[:] = 0.0
                for s in range(size + 1):
                    if kept[s] > 0.0:
                        for y in range(size):
                            said, true = kernels[i, a, y], step[s, y]
                            following[y] += kept[s] * min(said, true)
                            total += kept[s] * max(true - said, 0.0) * left[g - i, y]
                kept[:] = following
            if g > drafts:
                for s in range(size):
                    for y in range(size):
                        total += kept[s] * step[s, y] * left[g - drafts - 1, y]
            left[g, a] = total
    return left[1:, size]
