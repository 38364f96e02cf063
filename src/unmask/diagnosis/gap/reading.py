"""A trace in the eyes of the model that wrote it: nats lost in each step, and pairs of dependent tokens.

The same as `reveal.read`, with the model's own conditionals in place of a language:

    lost = sum_{i in S} log c(x_i | x_R) - log c(x_S | x_R), the second token by token from left to right
    pair   the larger of KL(c_i(. | x_R, x_j) || c_i(. | x_R)) and the same for j given i

Each step of n > 1 tokens takes 2n model calls.
"""

from __future__ import annotations

import math

import torch

from unmask.core import progress
from unmask.denoisers import Denoiser
from unmask.diagnosis.gap.measure import check_vocabulary
from unmask.diagnosis.gap.path import of_trace
from unmask.diagnosis.gap.reader import Reader
from unmask.diagnosis.reveal import Reading, StepLoss
from unmask.samplers.trace import Trace

Pairs = tuple[tuple[int, int, float], ...]
EXCLUDED = "the model gives a token of this step probability 0 once it sees the others"


@torch.no_grad()
def read(denoiser: Denoiser, trace: Trace) -> list[Reading]:
    """Analyse all rows of a trace under the model that wrote it."""
    check_vocabulary(denoiser, trace.vocabulary)
    trace.check_likely()
    reader = Reader(denoiser, of_trace(trace))
    path = reader.path
    losses: dict[tuple[int, int], tuple[float, Pairs]] = {}
    with progress.track("reading", len(path.row)) as advance:
        for step, where in enumerate(zip(path.row.tolist(), path.number.tolist(), strict=True)):
            if int(path.size[step]) > 1:
                losses[where] = _step(reader, step)
            advance(1)
    return [_reading(losses, number, trace) for number in range(len(trace.rows))]


def _step(reader: Reader, step: int) -> tuple[float, Pairs]:
    """(nats lost, pairs) of a step. Contexts: x_R, then with the first 1 .. n-1 tokens, then with each token alone."""
    path, n = reader.path, int(reader.path.size[step])
    entry = torch.arange(n) + path.first[step]
    shown = torch.cat([torch.ones(n, n).tril(-1), torch.eye(n)]).bool()  # (2n, n)
    context, place = (~shown).nonzero(as_tuple=True)
    before, after = shown.nonzero(as_tuple=True)
    steps = torch.full((2 * n,), step)
    marginals, dead = reader.at(steps, (before, entry[after]), (context, entry[place]))
    column = torch.full((2 * n, n), -1)
    column[context, place] = torch.arange(len(context))
    logs = marginals.of(path.token[entry[place]]).log()
    lost = float((logs[column[0]] - logs[column[:n].diagonal()]).sum())
    seen, other = (torch.eye(n) == 0).nonzero(as_tuple=True)
    nats = torch.zeros(n, n, dtype=torch.float64)
    nats[seen, other] = marginals[column[n + seen, other]].divergence(marginals[column[0, other]])
    nats = torch.maximum(nats, nats.T)
    at = path.position[entry].tolist()
    pairs = tuple((at[i], at[j], float(nats[i, j])) for i in range(n) for j in range(i + 1, n))
    return math.inf if bool(dead.any()) or math.isnan(lost) else lost, pairs


def _reading(losses: dict[tuple[int, int], tuple[float, Pairs]], number: int, trace: Trace) -> Reading:
    steps: list[StepLoss] = []
    meter = 0.0
    for one in trace.rows[number].steps():
        lost, pairs = losses.get((number, one.number), (0.0, ()))
        meter += lost
        steps.append(StepLoss(one.number, lost, meter, pairs))
    excluded = next((k for k, step in enumerate(steps) if step.meter == math.inf), None)
    return Reading(tuple(steps), excluded, (), (), "" if excluded is None else EXCLUDED)
