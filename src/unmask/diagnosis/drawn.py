"""The distribution of rules that draw before they choose, such as low-confidence (LLaDA), in closed form.

In a step draw x_j ~ c_j at every hidden position j, score each token, and keep the n positions S with the best scores.
Scores of different (position, token) never tie: equal ones are ordered by a second key of the position. Then

    r(S, x_S | z) = prod_{i in S} c_i(x_i)  prod_{j hidden, not in S} F_j(t),      F_j(t) = P(score of j's draw < t),

where t is the least score of the tokens of S: all other draws must stay below it. The sum over all S of n positions is

    Z = sum_i c_i(x_i) [z^(n-1)]  prod_{j above i} (F_j(t_i) + c_j(x_j) z)  prod_{j below i} F_j(t_i),

with i the position of the least score and "above" by the scores of the text's own tokens x. So the distribution of a
text is a sum over paths of prod_k r, and S drawn with probability r / Z gives E prod_k Z_k = p(x). m hidden positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unmask.samplers.low_confidence import LowConfidence
from unmask.samplers.ranking import rounded


class Draws(NamedTuple):
    """One step's draws in B rows, seen from the tokens x of a text at m hidden positions, best score first."""

    chance: Tensor  # (B, m): log c_i(x_i)
    below: Tensor  # (B, m, m): log F_j(t_i) at [j, i]
    order: Tensor  # (B, m): index of each among the m positions


def score_table(rule: LowConfidence, marginals: Tensor) -> Tensor:
    """(K, V): the score of every token under marginals (K, V), as `LowConfidence.choose` computes it."""
    if not rule.last:
        return rounded(marginals, rule.dtype)
    last = torch.tensor(sorted(set(rule.last)))
    scores = rounded(marginals / (1 - marginals[:, last].sum(1, keepdim=True)).clamp(min=1e-300), rule.dtype)
    return scores.index_fill(1, last, -1.0)


def draws(chances: Tensor, scores: Tensor, second: Tensor, tokens: Tensor, resolution: float) -> Draws:
    """The draws of one step from chances and scores (B, m, V); of equal scores the least second key (B, m) is best.

    tokens (B, m): those of the text.
    """
    own, table = tokens.unsqueeze(2), torch.round(scores / resolution)
    mine = table.gather(2, own).squeeze(2)
    order = torch.from_numpy(np.lexsort((second.numpy(), -mine.numpy()), axis=1))
    below = []
    for i in order.T:  # the i-th best token of each row
        least, key = (of.gather(1, i.unsqueeze(1)) for of in (mine, second))
        worse = (table < least.unsqueeze(2)) | ((table == least.unsqueeze(2)) & (second > key).unsqueeze(2))
        below.append((chances * worse).sum(2).clamp(max=1).gather(1, order).log())
    return Draws(chances.gather(2, own).squeeze(2).gather(1, order).log(), torch.stack(below, 2), order)


def subsets(step: Draws, row: int, number: int) -> Iterator[tuple[list[int], float]]:
    """(S, log r(S, x_S | z)) of all sets of `number` positions of a row."""
    chance, below, order = step.chance[row].numpy(), step.below[row].numpy(), step.order[row].numpy()
    for members in combinations(range(len(order)), number):
        chosen = np.zeros(len(order), dtype=bool)
        chosen[list(members)] = True
        yield order[list(members)].tolist(), float(chance[chosen].sum() + below[~chosen, members[-1]].sum())


def draw_sets(step: Draws, number: int, u: Tensor) -> tuple[Tensor, Tensor]:
    """(Bool (B, m): S of `number` positions drawn with probability r / Z, log Z (B)), from uniforms u (B, m + 1)."""
    rows, size = step.chance.shape
    table = torch.full((rows, size, number + 1), -torch.inf, dtype=torch.float64)  # [i, e]: log coefficient of z^e
    table[:, :, 1] = 0.0  # an e of 0 is never reached: i itself is one
    tables = []
    for j in range(size):  # i: the least of S
        tables.append(table)
        out = table + step.below[:, j].unsqueeze(2)
        fewer = torch.nn.functional.pad(table[:, :, :-1], (1, 0), value=-torch.inf)
        joins = torch.logaddexp(out, fewer + step.chance[:, j, None, None])
        above, own = (torch.arange(size) > j).view(1, -1, 1), (torch.arange(size) == j).view(1, -1, 1)
        table = torch.where(own, table + step.chance[:, j, None, None], torch.where(above, joins, out))
    total = table[:, :, number].logsumexp(1)
    shares = (table[:, :, number] - total.unsqueeze(1)).exp().nan_to_num(0.0).cumsum(1)
    least = (shares <= u[:, -1:] * shares[:, -1:]).sum(1).clamp(max=size - 1)
    least = torch.where(total == -torch.inf, size - 1, least)  # the text is impossible: any set says so
    left, row = torch.full((rows,), number), torch.arange(rows)
    chosen = torch.zeros((rows, size), dtype=torch.bool)
    chosen[row, least] = True
    for j in range(size - 1, -1, -1):
        joins = tables[j][row, least, (left - 1).clamp(min=0)] + step.chance[:, j]
        share = (joins - torch.logaddexp(joins, tables[j][row, least, left] + step.below[row, j, least])).exp()
        take = (j < least) & (left > 1) & ((u[:, j] < share.nan_to_num(0.0)) | (left - 1 > j))
        chosen[:, j] |= take
        left -= take.long()
    return torch.zeros_like(chosen).scatter_(1, step.order, chosen), total
