"""Rows in groups, where each model call chooses which of them go on: a particle filter for q(x | A).

The marginals of a model that does not know a constraint A count it too little. A step draws

    x_S ~ prod_i p_i(x_i) look(x_S) / Z,    look(x_S): P(A | x_S) under the product of the marginals that stay hidden,

and the next call sees the same row with better marginals. So a row has the weight Z_new / look, and the rows of a
group are drawn again by their weights. With one token a step the targets q(x_R) Z(x_R) telescope: a large group writes
q(x | A) itself. With several, the product replaces the model, as in every parallel step.
"""

from __future__ import annotations

import torch
from torch import Tensor


def members(groups: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(the group of each row (K), the first row of each group (G), its number of rows (G)); groups (K) ascend."""
    _, which, sizes = groups.unique_consecutive(return_inverse=True, return_counts=True)
    return which, sizes.cumsum(0) - sizes, sizes


def parents(log_weights: Tensor, groups: Tensor, u: Tensor) -> Tensor:
    """(K): the row of its group that each row goes on from, by systematic resampling.

    log_weights (K); groups (K): ascending numbers of groups; u (K): one uniform for each group, in all its rows."""
    which, first, sizes = members(groups)

    # weights relative to the largest of the group, so that none overflows
    highest = torch.full((len(sizes),), -torch.inf, dtype=torch.float64)
    highest = highest.scatter_reduce(0, which, log_weights, "amax")
    weights = (log_weights - highest[which]).exp()
    totals = torch.zeros(len(sizes), dtype=torch.float64).index_add_(0, which, weights)

    # each group has the mass of its number of rows, and row k takes the one in whose mass k + u lies
    mass = (weights * (sizes / totals)[which]).cumsum(0)
    chosen = torch.searchsorted(mass, torch.arange(len(groups)) + u, right=True)
    last = first + sizes - 1  # rounding must not lead to the next group
    return chosen.clamp(first[which], last[which])
