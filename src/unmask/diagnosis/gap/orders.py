"""How much the order alone changes the model's probability of the same tokens: its inconsistency.

A denoiser with one joint distribution for all orders loses as much from left to right as from right to left. With the
tokens 0 .. n-1 of a step and a uniform cut m in 1 .. n-1, the difference of the two losses is the mean of

    (n-1) [ KL(c_{m-1}(. | x_R) || c_{m-1}(. | x_R, x_{m..})) - KL(c_m(. | x_R) || c_m(. | x_R, x_{..m-1})) ]

if the tokens are independent given x_R; else with log ratios of the drawn tokens in place of KL. A gap below it does
not show a loss.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.diagnosis.gap.reader import Reader

CALLS = 3  # of a step: at x_R, with the tokens before the cut, and with those after it


def differences(reader: Reader, steps: Tensor, logs: bool, rng: torch.Generator) -> Tensor:
    """(C) nats that one order of the tokens of each step (C) of at least two tokens loses more than the other."""
    cuts = 1 + (torch.rand(len(steps), generator=rng, dtype=torch.float64) * (reader.path.size[steps] - 1)).long()

    def answer(part: slice) -> Tensor:
        return _differences(reader, steps[part], cuts[part], logs)

    each = reader.each(answer, steps, CALLS, torch.full((len(steps),), 4))
    return torch.cat([torch.zeros(0, dtype=torch.float64), *(nats for _, nats in each)])


def _differences(reader: Reader, steps: Tensor, cuts: Tensor, logs: bool) -> Tensor:
    path, count = reader.path, len(steps)
    owner, entry = reader.entries(steps)
    each, after = torch.arange(count), path.first[steps] + cuts
    early = entry < after[owner]
    # contexts: x_R, then with the tokens before the cut, then with those after it
    shown = torch.cat([owner[early] + count, owner[~early] + 2 * count]), torch.cat([entry[early], entry[~early]])
    wanted = (
        torch.cat([each.repeat_interleave(2), each + count, each + 2 * count]),
        torch.cat([torch.stack([after, after - 1], 1).flatten(), after, after - 1]),
    )
    marginals, dead = reader.at(steps.repeat(CALLS), shown, wanted)
    drawn, tokens = reader.drawn(marginals), path.token[wanted[1]]
    before, given = torch.cat([2 * each, 2 * each + 1]), 2 * count + torch.arange(2 * count)
    if logs:
        nats = drawn[before].of(tokens[before]).log() - drawn[given].of(tokens[given]).log()
    else:
        nats = drawn[before].divergence(drawn[given])
    difference = (path.size[steps] - 1) * (nats[count:] - nats[:count])
    return torch.where(dead.view(CALLS, count).any(0), torch.nan, difference)
