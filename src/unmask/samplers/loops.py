"""The loops over rounds, once for every sampler and every denoiser.

Each row goes through rounds of its own: its r-th is the r-th that reveals anything of it. So rows of other prompts,
lengths and numbers of blocks share every batched call, and none waits for another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.denoisers import Canvas, Marginals
from unmask.samplers.contract import Choice, Sampler
from unmask.samplers.rounds import Shares, turns
from unmask.samplers.session import Breach, Session
from unmask.samplers.view import View
from unmask.schedules import orders


def fill(sampler: Sampler, session: Session) -> None:
    """Let the sampler complete the session's rows."""
    try:
        if sampler.implements("run"):
            sampler.run(session)
        else:
            fill_blocks(sampler, session, torch.where(session.hidden, 0, -1))
    except UnmaskError as error:
        if not session.exhausted:
            raise
        row, position = (int(i) for i in session.canvas.hidden.nonzero()[0])
        where = f"position {position} of row {int(session.luck.row_ids[row])}"
        raise Breach(f"{session.name}, at {where} after round {int(session.order.max())}: {error}") from error
    session.check_stop()
    _check_finished(session)


def _check_finished(session: Session) -> None:
    """Whatever a sampler may have written past the session: all is filled, what was given stands, tokens are tokens."""
    tokens, given, order, hidden = session.tokens, session.given, session.order, session.hidden
    vocabulary = session.denoiser.vocabulary
    for wrong, what in (
        (session.valid & (tokens == vocabulary), "left {} hidden after its last round, {}"),
        (~hidden & (tokens != given), "changed the given token at {} by round {}"),
        (session.valid & ((tokens < 0) | (tokens > vocabulary)), "wrote an unknown token at {} by round {}"),
        (hidden & (order < 1), "wrote {} past session.write, by round {}"),
    ):
        if bool(wrong.any()):
            row, position = (int(i) for i in wrong.nonzero()[0])
            where = f"position {position} of row {int(session.luck.row_ids[row])}"
            raise Breach(f"{session.name} {what.format(where, int(order[row].max()))}")


def fill_blocks(sampler: Sampler, session: Session, blocks: Tensor) -> None:
    """Fill positions block by block: blocks (B, L) numbers those of a row from 0, -1 being not to be filled.

    The rounds are shared out over a row's blocks, N // blocks each and one more in the first N % blocks, and the shape
    of the schedule applies within each.
    """
    shares = Shares.of(blocks, session.delta, sampler.pace)
    if sampler.implements("order"):
        _follow(sampler, session, blocks, shares)
    elif sampler.implements("choose"):
        _adapt(sampler, session, blocks, shares)
    else:
        raise UnmaskError(f"{session.name} needs a sampler that orders or chooses; {type(sampler).__name__} runs alone")


def walk(canvas: Canvas, order: Tensor, times: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor, Marginals]]:
    """(rows, positions, marginals) of each round of an order (B, L); whoever asks reveals them before going on.

    times (B, L) are for denoisers that are not time-free: evenly from 1 down, unless told otherwise.
    """
    if times is None:
        times = 1 - (order.double() - 1) / int(order.max())
    for rows, positions in orders.rounds(order):
        yield rows, positions, canvas.at(rows, positions, _time_at(canvas, times, rows, positions))


def _time_at(canvas: Canvas, times: Tensor | None, rows: Tensor, positions: Tensor) -> Tensor | None:
    """(B): the time of the rows at these places, where the denoiser asks for it."""
    if canvas.time_free or times is None:
        return None
    time = torch.zeros(len(canvas.tokens), dtype=torch.float64)
    time[rows] = times[rows, positions]
    return time


def _follow(sampler: Sampler, session: Session, blocks: Tensor, shares: Shares) -> None:
    order, times = _ordered(sampler, session, blocks, shares)
    canvas = session.canvas
    session.planned = True
    if session.stop is None and (probability := canvas.follow(order)) is not None:
        asked = order > 0
        session.order[asked] = order[asked]
        session.probability[asked] = probability[asked]
        return
    for rows, positions in orders.rounds(order):
        going = ~session.settled[rows]
        rows, positions = rows[going], positions[going]
        if not len(rows):
            continue
        said = canvas.at(rows, positions, _time_at(canvas, times, rows, positions))
        tokens = canvas.draw(said, rows, positions)
        session.put(rows, positions, tokens, said.of(tokens), order[rows, positions])
        session.check_stop()


def _ordered(sampler: Sampler, session: Session, blocks: Tensor, shares: Shares) -> tuple[Tensor, Tensor | None]:
    """The rounds (B, L) of all blocks, one after another, and the times (B, L) at which they are looked at."""
    order = torch.zeros_like(blocks)
    times = None if session.denoiser.time_free else torch.zeros(blocks.shape, dtype=torch.float64)
    earlier = torch.zeros(len(blocks), dtype=torch.int64)  # (B): rounds of the blocks before
    free = sampler.pace == "free"
    for block in range(shares.sizes.shape[1]):
        rounds = torch.tensor([len(deltas[block]) if block < len(deltas) else 0 for deltas in shares.deltas])
        for share in rounds.unique().tolist():
            rows = (rounds == share)[shares.kind]
            asked = (blocks == block) & rows.unsqueeze(1)
            if not share or not bool(asked.any()):
                continue
            delta = next(
                deltas[block] for deltas in shares.deltas if block < len(deltas) and len(deltas[block]) == share
            )
            mine = sampler.order(delta, asked, session.luck)
            _check_order(session, mine, asked, asked.sum(1) if free else torch.full((len(asked),), share))
            order = torch.where(asked, mine + earlier.unsqueeze(1), order)
            if times is not None:
                times = torch.where(asked, sampler.times(delta, mine, session.luck), times)
        earlier += shares.sizes[shares.kind, block] if free else rounds[shares.kind]
    return order, times


def _check_order(session: Session, order: Tensor, asked: Tensor, rounds: Tensor) -> None:
    """Every position asked for, Bool (B, L), has one of its row's rounds (B), and no other has any."""
    if not isinstance(order, Tensor) or order.shape != asked.shape or order.dtype != torch.int64 or order.is_sparse:
        found = f"{order.dtype} {tuple(order.shape)}" if isinstance(order, Tensor) else shown(order)
        raise Breach(f"{session.name} orders by {found}; expected rounds, int64 {tuple(asked.shape)}")
    wrong = torch.where(asked, (order < 1) | (order > rounds.unsqueeze(1)), order != 0)
    if bool(wrong.any()):
        row, position = (int(i) for i in wrong.nonzero()[0])
        expected = f"a round from 1 to {int(rounds[row])}" if asked[row, position] else "0, as it is not hidden"
        where = f"position {position} of row {int(session.luck.row_ids[row])}"
        raise Breach(f"{session.name} gives round {int(order[row, position])} to {where}; expected {expected}")


def _adapt(sampler: Sampler, session: Session, blocks: Tensor, shares: Shares) -> None:
    canvas = session.canvas
    memory: dict[str, Any] = {}
    stays = torch.zeros_like(canvas.hidden)  # blocks that have another round though nothing is hidden there
    for turn in turns(sampler.pace, blocks, shares, lambda: (canvas.hidden | stays, session.settled)):
        for name, kept in memory.items() if bool(turn.begins.any()) else ():
            if isinstance(kept, Tensor):
                begins = turn.begins.view(-1, *[1] * (kept.dim() - 1))
                memory[name] = torch.where(begins, torch.zeros_like(kept), kept)
        here = (blocks == turn.block.unsqueeze(1)) & turn.going.unsqueeze(1)
        hidden = here & canvas.hidden
        rows, positions = hidden.nonzero(as_tuple=True)
        time = None
        if not canvas.time_free:
            left = hidden.sum(1).double() / here.sum(1).clamp(min=1)
            time = left if sampler.pace == "free" else 1 - turn.within.double() / turn.rounds
        view = View(
            canvas=canvas,
            marginals=canvas.at(rows, positions, time),
            places=(rows, positions),
            hidden=hidden.clone(),  # whatever a sampler does to it
            revealed=here & ~canvas.hidden,
            certainty=session.probability,
            count=turn.share,
            round=turn.within + 1,
            rounds=turn.rounds,
            turn=turn.number,
            alpha=turn.alpha,
            alpha_next=turn.alpha_next,
            memory=memory,
        )
        stay = _carry_out(sampler, session, view, hidden, turn.going)
        stays[:] = False if stay is None else here & stay.unsqueeze(1)


def _carry_out(sampler: Sampler, session: Session, view: View, hidden: Tensor, going: Tensor) -> Tensor | None:
    """One round of the rows that are going, Bool (B), of which this is hidden, Bool (B, L): check the choice, write
    what it reveals, hide what it hides. The rows that stay in their block, Bool (B), where the sampler says."""
    choice = sampler.choose(view)
    _check_choice(session, view, choice, hidden.shape)
    reveal, tokens, hide, done, stay, odds = choice
    session.turns = torch.where(going, view.turn, session.turns)
    _check_memory(session, view)
    if done is not None:
        done = done & going
    over = torch.zeros_like(reveal) if hide is None else reveal & hide  # where another token is written
    new = reveal & ~over
    if sampler.pace != "rounds":
        _keep_pace(sampler, session, view, hidden, new, done)
    if hide is not None and bool((wrong := hide & ~view.revealed).any()):
        row, position = (int(i) for i in wrong.nonzero()[0])
        where = f"position {position} of row {int(session.luck.row_ids[row])}"
        raise Breach(f"{session.name} hides {where} in round {int(view.turn[row])}, which it has not revealed")
    if bool((wrong := new & ~hidden).any()):
        row, position = (int(i) for i in wrong.nonzero()[0])
        where = f"position {position} of row {int(session.luck.row_ids[row])} in round {int(view.turn[row])}"
        raise Breach(f"{session.name} reveals what it is not shown as hidden, at {where}")
    if (tokens is None or odds is None) and bool(over.any()):
        raise Breach(f"{session.name} writes over tokens and does not say what, and how likely; give tokens and odds")
    rows, positions = new.nonzero(as_tuple=True)
    said = view.marginals[new[view.places]]
    drawn = session.canvas.draw(said, rows, positions) if tokens is None else tokens[rows, positions]
    probability = said.of(drawn.clamp(0, session.denoiser.vocabulary - 1))
    session.write(rows, positions, drawn, probability, view.turn[rows])
    if hide is not None:
        rows, positions = hide.nonzero(as_tuple=True)
        session.hide(rows, positions, view.turn[rows])
    if tokens is not None and odds is not None and bool(over.any()):
        rows, positions = over.nonzero(as_tuple=True)
        session.write(rows, positions, tokens[rows, positions], odds[rows, positions], view.turn[rows])
    if done is not None:
        session.settle(done, view.turn, "done")
    session.check_stop()
    return stay


def _check_choice(session: Session, view: View, choice: object, shape: torch.Size) -> None:
    """What a sampler answers: a Choice of tensors of the right kinds, as large as what it was shown."""
    if not isinstance(choice, Choice):
        raise Breach(f"{session.name} chooses {shown(choice)}; expected samplers.contract.Choice(reveal, tokens, ..)")
    kinds = {"tokens": torch.int64, "odds": torch.float64}
    for name, part in choice._asdict().items():
        kind, wanted = kinds.get(name, torch.bool), shape[:1] if name in ("done", "stay") else shape
        if part is None and name != "reveal":
            continue
        if not isinstance(part, Tensor) or part.shape != wanted or part.dtype != kind or part.is_sparse:
            found = f"{part.dtype} {tuple(part.shape)}" if isinstance(part, Tensor) else shown(part)
            where = f"in round {int(view.turn.max())}"
            raise Breach(f"{session.name} answers {name} = {found} {where}; expected {kind} {tuple(wanted)}")


def _check_memory(session: Session, view: View) -> None:
    """What is remembered of rows has a part for each row."""
    rows = len(view.hidden)
    for name, kept in view.memory.items():
        if isinstance(kept, Marginals):
            continue
        if not isinstance(kept, Tensor) or kept.dim() == 0 or len(kept) != rows:
            what = f"tensors (B, ..), a part for each of {rows} rows"
            raise Breach(f"{session.name} keeps {name!r} in its memory as {type(kept).__name__}; expected {what}")


def _keep_pace(
    sampler: Sampler, session: Session, view: View, hidden: Tensor, reveal: Tensor, done: Tensor | None
) -> None:
    revealed = reveal.sum(1)
    if sampler.pace == "free":
        wrong, expected = (revealed == 0) & hidden.any(1), "at least 1"
    else:
        wrong, expected = revealed != view.count, "the schedule's"
    if done is not None:
        wrong &= ~done
    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        share = expected if sampler.pace == "free" else f"{expected} {int(view.count[row])}"
        what = f"{int(revealed[row])} positions of row {int(session.luck.row_ids[row])} in round {int(view.turn[row])}"
        raise Breach(f"{session.name} reveals {what}; expected {share}")
