"""The loops over rounds, once for every sampler and every denoiser."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from unmask import orders
from unmask.denoisers import Canvas
from unmask.errors import UnmaskError
from unmask.samplers.contract import Breach, Sampler, Session, View
from unmask.schedules import sizes


def fill(sampler: Sampler, session: Session) -> None:
    """Let the sampler complete the session's rows."""
    try:
        if sampler.implements("run"):
            sampler.run(session)
        else:
            fill_part(sampler, session, session.given == session.denoiser.vocabulary, session.delta)
    except UnmaskError as error:
        if not session.exhausted:
            raise
        row, position = (int(i) for i in session.canvas.hidden.nonzero()[0])
        where = f"position {position} of row {int(session.luck.row_ids[row])}"
        raise Breach(f"{session.name}, at {where} after round {int(session.order.max())}: {error}") from error
    _check_finished(session)


def _check_finished(session: Session) -> None:
    """Whatever a sampler may have written past the session: all is filled, what was given stands, tokens are tokens."""
    tokens, given, order = session.tokens, session.given, session.order
    vocabulary = session.denoiser.vocabulary
    hidden = given == vocabulary
    for wrong, what in (
        (tokens == vocabulary, "left {} hidden after its last round, {}"),
        (~hidden & (tokens != given), "changed the given token at {} by round {}"),
        ((tokens < 0) | (tokens > vocabulary), "wrote an unknown token at {} by round {}"),
        (hidden & (order < 1), "wrote {} past session.write, by round {}"),
    ):
        if bool(wrong.any()):
            row, position = (int(i) for i in wrong.nonzero()[0])
            where = f"position {position} of row {int(session.luck.row_ids[row])}"
            raise Breach(f"{session.name} {what.format(where, int(order[row].max()))}")


def fill_part(sampler: Sampler, session: Session, asked: Tensor, delta: Tensor, earlier: int = 0) -> None:
    """Fill the positions asked for, Bool (B, L), by the rounds of delta, which are counted on from `earlier` ones."""
    if sampler.implements("order"):
        _follow(sampler, session, asked, delta, earlier)
    elif sampler.implements("choose"):
        _adapt(sampler, session, asked, delta, earlier)
    else:
        raise UnmaskError(f"{session.name} needs a sampler that orders or chooses; {type(sampler).__name__} runs alone")


def walk(canvas: Canvas, order: Tensor, times: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(rows, positions, marginals) of each round of an order (B, L); whoever asks reveals them before going on.

    times (B, L) are for denoisers that are not time-free: evenly from 1 down, unless told otherwise.
    """
    if times is None:
        times = 1 - (order.double() - 1) / int(order.max())
    for rows, positions in orders.rounds(order):
        time = None
        if not canvas.time_free:
            time = torch.zeros(len(order), dtype=torch.float64)
            time[rows] = times[rows, positions]
        yield rows, positions, canvas.at(rows, positions, time)


def _follow(sampler: Sampler, session: Session, asked: Tensor, delta: Tensor, earlier: int) -> None:
    order = sampler.order(delta, asked, session.luck)
    steps = asked.sum(1, keepdim=True) if sampler.pace == "free" else torch.full((len(asked), 1), len(delta))
    wrong = torch.where(asked, (order < 1) | (order > steps), order != 0)
    if wrong.any():
        row, position = (int(i) for i in wrong.nonzero()[0])
        expected = f"a round from 1 to {int(steps[row])}" if asked[row, position] else "0, as it is not hidden"
        where = f"position {position} of row {int(session.luck.row_ids[row])}"
        raise Breach(f"{session.name} gives round {int(order[row, position])} to {where}; expected {expected}")
    canvas = session.canvas
    session.planned = True
    if (probability := canvas.follow(order)) is not None:
        session.order[asked] = order[asked] + earlier
        session.probability[asked] = probability[asked]
        return
    times = None if canvas.time_free else sampler.times(delta, order, session.luck)
    for rows, positions, marginals in walk(canvas, order, times):
        tokens = canvas.draw(marginals, rows, positions)
        probability = marginals.gather(1, tokens.unsqueeze(1)).squeeze(1)
        session.put(rows, positions, tokens, probability, order[rows, positions] + earlier)


def _adapt(sampler: Sampler, session: Session, asked: Tensor, delta: Tensor, earlier: int) -> None:
    canvas, steps = session.canvas, len(delta)
    columns = asked.any(0).nonzero().squeeze(1)
    if not len(columns):
        return
    window = slice(int(columns[0]), int(columns[-1]) + 1)
    asked = asked[:, window]
    counts = asked.sum(1)
    kinds, kind = counts.unique(return_inverse=True)
    budget = torch.stack([sizes(delta, int(count)) for count in kinds])  # (kinds, N)
    edges = torch.cat([delta.new_zeros(1), delta.cumsum(0)]).tolist()
    index = -1
    while bool((hidden := canvas.hidden[:, window] & asked).any()) or (sampler.pace == "rounds" and index + 1 < steps):
        index += 1
        if index == steps and sampler.pace != "free":
            return
        count = budget[kind, min(index, steps - 1)]
        if sampler.pace == "counts" and not bool(count.any()):
            continue
        time = None
        if not canvas.time_free:
            share = hidden.sum(1) / counts.clamp(min=1)
            time = share.double() if sampler.pace == "free" else torch.full_like(share.double(), 1 - index / steps)
        view = View(
            canvas=canvas,
            window=window,
            probabilities=canvas.look(window, time, asked.any(1)),
            hidden=hidden,
            revealed=asked & ~hidden,
            certainty=session.probability[:, window],
            round=index + 1,
            earlier=earlier,
            rounds=steps,
            count=count,
            alpha=edges[min(index, steps)],
            alpha_next=edges[min(index + 1, steps)],
        )
        _carry_out(sampler, session, view)


def _carry_out(sampler: Sampler, session: Session, view: View) -> None:
    """One round: check the choice, write what it reveals and take back what it hides."""
    first, turn = view.window.start, view.turn
    reveal, tokens, hide = sampler.choose(view)
    for part in (reveal, tokens, hide):
        if part is not None and part.shape != view.hidden.shape:
            shapes = f"{tuple(part.shape)} in round {turn}; it was shown {tuple(view.hidden.shape)}"
            raise Breach(f"{session.name} answers with a tensor of shape {shapes}")
    rows, columns = reveal.nonzero(as_tuple=True)
    if sampler.pace != "rounds":
        _keep_pace(sampler, session, view, reveal)
    if hide is not None and bool((wrong := hide & ~view.revealed).any()):
        row, column = (int(i) for i in wrong.nonzero()[0])
        where = f"position {column + first} of row {int(session.luck.row_ids[row])}"
        raise Breach(f"{session.name} hides {where} in round {turn}, which it has not revealed")
    marginals = view.probabilities[rows, columns]
    drawn = session.canvas.draw(marginals, rows, columns + first) if tokens is None else tokens[rows, columns]
    probability = marginals.gather(1, drawn.clamp(0, marginals.shape[1] - 1).unsqueeze(1)).squeeze(1)
    session.write(rows, columns + first, drawn, probability, turn)
    if hide is not None:
        rows, columns = hide.nonzero(as_tuple=True)
        session.hide(rows, columns + first, turn)


def _keep_pace(sampler: Sampler, session: Session, view: View, reveal: Tensor) -> None:
    revealed = reveal.sum(1)
    if sampler.pace == "free":
        wrong, expected = (revealed == 0) & view.hidden.any(1), "at least 1"
    else:
        wrong, expected = revealed != view.count, "the schedule's"
    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        share = expected if sampler.pace == "free" else f"{expected} {int(view.count[row])}"
        what = f"{int(revealed[row])} positions of row {int(session.luck.row_ids[row])} in round {view.turn}"
        raise Breach(f"{session.name} reveals {what}; expected {share}")
