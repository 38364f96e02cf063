"""The loops over rounds, once for every sampler and every denoiser."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from unmask import orders
from unmask.denoisers import Canvas
from unmask.errors import UnmaskError
from unmask.samplers.contract import Sampler, Session, View
from unmask.schedules import sizes


def fill(sampler: Sampler, session: Session) -> None:
    """Let the sampler complete the session's rows."""
    if sampler.implements("order"):
        _follow(session, sampler.order(session.delta, session.given == session.denoiser.vocabulary, session.luck))
    elif sampler.implements("choose"):
        _adapt(sampler, session)
    else:
        sampler.run(session)
    left = session.tokens == session.denoiser.vocabulary
    if left.any():
        row, position = (int(i) for i in left.nonzero()[0])
        raise UnmaskError(f"{_name(sampler)} left position {position} of row {row} hidden after its last round")


def walk(canvas: Canvas, order: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(rows, positions, marginals) of each round of an order (B, L); whoever asks reveals them before going on."""
    steps = int(order.max())
    for rows, positions in orders.rounds(order):
        time = None
        if not canvas.time_free:
            time = torch.zeros(len(order), dtype=torch.float64)
            time[rows] = 1 - (order[rows, positions].double() - 1) / steps
        yield rows, positions, canvas.at(rows, positions, time)


def _follow(session: Session, order: Tensor) -> None:
    canvas = session.canvas
    session.planned = True
    for rows, positions, marginals in walk(canvas, order):
        tokens = canvas.draw(marginals, rows, positions)
        probability = marginals.gather(1, tokens.unsqueeze(1)).squeeze(1)
        session.write(rows, positions, tokens, probability, order[rows, positions])


def _adapt(sampler: Sampler, session: Session) -> None:
    canvas, steps = session.canvas, len(session.delta)
    counts = canvas.hidden.sum(1)
    kinds, kind = counts.unique(return_inverse=True)
    budget = torch.stack([sizes(session.delta, int(count)) for count in kinds])  # (kinds, N)
    for index in budget.any(0).nonzero().squeeze(1).tolist():
        time = None if canvas.time_free else torch.full((len(counts),), 1 - index / steps, dtype=torch.float64)
        probabilities = canvas.look(time=time)
        view = View(canvas, probabilities, canvas.hidden.clone(), index + 1, steps, budget[kind, index])
        choice = sampler.choose(view)
        wrong = choice.reveal & ~view.hidden
        if wrong.any():
            row, position = (int(i) for i in wrong.nonzero()[0])
            what = f"position {position} of row {row} in round {view.round}, which is not hidden"
            raise UnmaskError(f"{_name(sampler)} reveals {what}")
        rows, positions = choice.reveal.nonzero(as_tuple=True)
        if choice.tokens is None:
            tokens = canvas.draw(probabilities[rows, positions], rows, positions)
        else:
            tokens = choice.tokens[rows, positions]
            bad = (tokens < 0) | (tokens >= canvas.vocabulary)
            if bad.any():
                at = int(bad.int().argmax())
                where = f"position {int(positions[at])} of row {int(rows[at])} in round {view.round}"
                what = f"writes token {int(tokens[at])} at {where}; V is {canvas.vocabulary}"
                raise UnmaskError(f"{_name(sampler)} {what}")
        probability = probabilities[rows, positions].gather(1, tokens.unsqueeze(1)).squeeze(1)
        session.write(rows, positions, tokens, probability, view.round)


def _name(sampler: Sampler) -> str:
    return f"sampler {type(sampler).__name__}"
