"""The order of N steps with the least KL divergence, from the language itself (theory.md 7.3, 7.6).

KL(q || p_order) of a fixed order is the mean over x ~ q of the cost of drawing tokens independently in each step. The
best order of N steps has the least cost, so no random order of N steps has less. It is computed where that is
tractable: in the interval language, and in first-order chains as a shortest path over gaps. It depends on the positions
of given tokens, but not on their values; inside blocks all other positions count as given. N is used, the schedule is
not.

Add the begin and the end of a chain as two positions that are always revealed. Let E(i, j) = H(X_j | X_i), which is
H(X_j) for the begin i, and 0 for the end j. A gap between revealed positions l and r is independent of the others. A
step that reveals its positions j_1 < .. < j_k costs

    sum_i H(X_{j_i} | X_l, X_r) - H(X_{j_1} .. X_{j_k} | X_l, X_r)
        = sum_i c(j_i) + E(l, r) - sum_{i=0..k} E(j_i, j_{i+1}),     c(j) = E(l, j) + E(j, r) - E(l, r)

with j_0 = l and j_{k+1} = r, and leaves k + 1 gaps for the following steps. So the least cost of n steps is the length
of a shortest path from l to r. Its edges (i, j) weigh paid_{n-1}(i, j) - E(i, j), its positions c(j). All gaps take
O(N L^4 / 24).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numba import njit
from torch import Tensor

from unmask import UnmaskError
from unmask.languages import Interval, Language
from unmask.samplers import Choice, Sampler, View
from unmask.theory.chains import entropy, first_order

LONGEST = 256  # positions whose best order takes seconds to compute
BETTER = 1e-12  # nats: costs that differ by less count as equal, and the first is taken


@dataclass(frozen=True)
class BestOrder(Sampler):
    """The fixed order with the least KL in N steps, from the language itself: chains and intervals."""

    pace = "steps"
    distribution = "order"

    def choose(self, view: View) -> Choice:
        language = view.canvas.denoiser.language
        if language is None:
            problem = f"best-order needs a language; {view.canvas.denoiser.name} has none"
            raise UnmaskError(f"{problem}. Pass a language, or ideal.Ideal(language).")
        order = view.memory.setdefault("order", torch.zeros_like(view.tokens))
        begun = ((view.step == 1) & view.hidden.any(1)).nonzero().squeeze(1).tolist()
        for row in begun:
            length = int(view.canvas.lengths[row])
            order[row, :length] = best_order(language, view.hidden[row, :length], int(view.steps[row]))
        return Choice(view.hidden & (order == view.step.unsqueeze(1)))


def best_order(language: Language, hidden: Tensor, steps: int) -> Tensor:
    """(L): the steps 1..N of the hidden positions, Bool (L), with the least KL of all orders of N steps; else 0."""
    if isinstance(language, Interval):
        return torch.where(hidden, _spread(hidden, language.width, steps), 0)
    length = len(hidden)
    if first_order(language) is None or length > LONGEST:
        problem = f"the best order of {length} positions of {language.kind} is not known"
        raise UnmaskError(f"{problem}; expected a first-order chain or intervals, and at most {LONGEST} positions")
    needed = min(steps, length.bit_length())  # dyadic orders of that many steps are exact
    links, paid = _paid(language, length, needed)
    revealed = np.flatnonzero(np.concatenate([[True], ~hidden.numpy(), [True]]))
    order = np.zeros(len(links), np.int64)
    _assign(links, paid, revealed, order)
    return torch.from_numpy(order[1:-1])


def _spread(hidden: Tensor, width: int, steps: int) -> Tensor:
    """The positions of each interval, spread evenly over the steps: every two hidden positions of an interval in the
    same step cost ln 2 nats, in every context."""
    padded = torch.nn.functional.pad(hidden, (0, -len(hidden) % width)).view(-1, width)
    return ((padded.cumsum(1) - 1) % steps).flatten()[: len(hidden)] + 1


@lru_cache(maxsize=8)
def _paid(language: Language, length: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(L+2, L+2): E(i, j) for i < j, 0 the begin and L+1 the end; and `_least` of it."""
    chain = first_order(language)
    assert chain is not None
    marginals = chain.marginals(length)
    pairs = marginals @ chain.uncertainty(length).T
    links = np.zeros((length + 2, length + 2))
    links[0, 1:-1] = entropy(marginals)
    for i in range(length):
        links[i + 1, i + 2 : -1] = pairs[i, 1 : length - i]
    return links, _least(links, steps - 1)


@njit
def _least(links, steps):  # type: ignore[no-untyped-def]
    """(N+1, L+2, L+2): the least cost in nats of n steps for the gap between positions l < r; inf if n is too few."""
    size = links.shape[0]
    paid = np.full((steps + 1, size, size), np.inf)
    reach, came = np.empty(size), np.empty(size, np.int64)
    for l in range(size - 1):
        for n in range(steps + 1):
            paid[n, l, l + 1] = 0.0
    for n in range(1, steps + 1):
        for l in range(size):
            for r in range(l + 2, size):
                paid[n, l, r] = _shortest(links, paid[n - 1], l, r, reach, came)
    return paid


@njit
def _shortest(links, paid, l, r, reach, came):  # type: ignore[no-untyped-def]
    """The least cost of a gap over this and all later steps; came (L+2): the previous position on the path to each."""
    reach[l] = 0.0
    for j in range(l + 1, r + 1):
        least = np.inf
        for i in range(l, j):
            here = reach[i] + paid[i, j] - links[i, j]
            if here < least - BETTER:
                least, came[j] = here, i
        reach[j] = least + (links[l, r] if j == r else links[l, j] + links[j, r] - links[l, r])
    return max(reach[r], 0.0)


@njit
def _assign(links, paid, revealed, order):  # type: ignore[no-untyped-def]
    """Set order (L+2): the step of each position on the shortest path of its gap."""
    size, steps = links.shape[0], paid.shape[0]
    reach, came = np.empty(size), np.empty(size, np.int64)
    left = [(0, 0, 0)]
    left.pop()
    for k in range(len(revealed) - 1):
        left.append((steps, revealed[k], revealed[k + 1]))
    while len(left) > 0:
        n, l, r = left.pop()
        if r == l + 1:
            continue
        _shortest(links, paid[n - 1], l, r, reach, came)
        after = r
        while after > l:
            before = came[after]
            if before > l:
                order[before] = steps - n + 1
            left.append((n - 1, before, after))
            after = before
