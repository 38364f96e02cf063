"""The loops over steps, shared by all samplers and denoisers.

Each row counts its own steps: its r-th step is the r-th that reveals anything in it. So rows with different prompts,
lengths and numbers of blocks share every batched call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.denoisers import Canvas, Marginals
from unmask.samplers import orders
from unmask.samplers.contract import Choice, Sampler
from unmask.samplers.orders import turns
from unmask.samplers.schedules import BlockSchedules
from unmask.samplers.session import Breach, Session
from unmask.samplers.view import View


def fill(sampler: Sampler, session: Session) -> None:
    """Let the sampler complete the session's rows, then check them: all filled, given tokens unchanged."""
    if (noise := session.denoiser.removes) != sampler.removes:
        problem = f"{session.name} removes {sampler.removes} noise, and {session.denoiser.name} removes {noise} noise"
        other = "a sampler of masks, such as ancestral" if noise == "mask" else "uniform-ancestral"
        raise UnmaskError(f"{problem}; expected the same. Use {other}, or another denoiser.")

    try:
        if sampler.implements("run"):
            sampler.run(session)
        else:
            for _ in steps_of(sampler, session, torch.where(session.hidden, 0, -1)):
                pass
    except UnmaskError as error:
        if not session.exhausted:
            raise
        row, position = session.canvas.hidden.nonzero()[0].tolist()
        where = f"position {position} of row {int(session.rng.row_ids[row])}"
        raise Breach(f"{session.name}, at {where} after step {int(session.order.max())}: {error}") from error

    session.check_stop()
    if session.joint is not None and not session.together.used and bool(session.hidden.any()):
        raise Breach(f"{session.name} draws its tokens itself; expected draw='product'")

    tokens, given, order, hidden = session.tokens, session.given, session.order, session.hidden
    vocabulary = session.denoiser.vocabulary
    for wrong, problem in (
        (session.valid & (tokens == vocabulary), "left {} hidden after its last step, {}"),
        (~hidden & (tokens != given), "changed the given token at {} by step {}"),
        (session.valid & ((tokens < 0) | (tokens > vocabulary)), "wrote an unknown token at {} by step {}"),
        (hidden & (order < 1), "wrote {} without session.write, by step {}"),
    ):
        if bool(wrong.any()):
            where, row = _first(session, wrong)
            raise Breach(f"{session.name} {problem.format(where, int(order[row].max()))}")


def _first(session: Session, wrong: Tensor) -> tuple[str, int]:
    """The first of these positions, Bool (B, L), for a message; its row in the batch."""
    row, position = wrong.nonzero()[0].tolist()
    return f"position {position} of row {int(session.rng.row_ids[row])}", row


def steps_of(sampler: Sampler, session: Session, blocks: Tensor) -> Iterator[None]:
    """Fill positions block by block: blocks (B, L) numbers the blocks of a row from 0; -1 is not filled.

    A row's N steps are divided among its blocks: N // blocks each, and one more in the first N % blocks. The shape of
    the schedule applies within each block. It waits before each model call: a loop may compute the marginals.
    """
    session.blocks = blocks
    schedules = BlockSchedules.of(blocks, session.delta, sampler.pace == "free")

    if sampler.implements("order"):
        yield from _follow(sampler, session, blocks, schedules)
    elif sampler.implements("choose"):
        yield from _adapt(sampler, session, blocks, schedules)
    else:
        raise UnmaskError(
            f"{session.name} got {type(sampler).__name__}, which has its own loop",
            "expected a sampler that implements order or choose",
        )


def walk(canvas: Canvas, order: Tensor, times: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor, Marginals]]:
    """(rows, positions, marginals) of each step of an order (B, L); the caller reveals them before the next step.

    times (B, L) are for denoisers that use the time. (default: evenly from 1 down)
    """
    if times is None:
        times = 1 - (order.double() - 1) / int(order.max())
    for rows, positions in orders.steps(order):
        yield rows, positions, canvas.at(rows, positions, _time_at(canvas, times, rows, positions))


def _time_at(canvas: Canvas, times: Tensor | None, rows: Tensor, positions: Tensor) -> Tensor | None:
    """(B): the time of the rows at these positions, None if the denoiser does not use it."""
    if canvas.time_free or times is None:
        return None
    time = torch.zeros(len(canvas.tokens), dtype=torch.float64)
    time[rows] = times[rows, positions]
    return time


def _follow(sampler: Sampler, session: Session, blocks: Tensor, schedules: BlockSchedules) -> Iterator[None]:
    order, times = _ordered(sampler, session, blocks, schedules)
    canvas = session.canvas
    session.planned = True

    if session.stop is None and session.joint is None and (probability := canvas.follow(order)) is not None:
        # boolean indexing takes ten times as long
        torch.where(order > 0, order, session.order, out=session.order)
        torch.where(order > 0, probability, session.probability, out=session.probability)
        return

    for rows, positions in orders.steps(order):
        going = ~session.settled[rows]
        rows, positions = rows[going], positions[going]
        if not len(rows):
            continue

        yield
        marginals = session.ask(rows, positions, _time_at(canvas, times, rows, positions))
        session.put(rows, positions, *session.draw(marginals, rows, positions), order[rows, positions])
        session.check_stop()


def _ordered(
    sampler: Sampler, session: Session, blocks: Tensor, schedules: BlockSchedules
) -> tuple[Tensor, Tensor | None]:
    """The steps (B, L) of all blocks, one block after another, and the times (B, L) of their model calls."""
    order = torch.zeros_like(blocks)
    times = None if session.denoiser.time_free else torch.zeros(blocks.shape, dtype=torch.float64)
    earlier = torch.zeros(len(blocks), dtype=torch.int64)  # (B): steps of the earlier blocks
    free = sampler.pace == "free"

    for block in range(schedules.sizes.shape[1]):
        deltas = [kind[block] if block < len(kind) else session.delta[:0] for kind in schedules.deltas]
        steps = torch.tensor(list(map(len, deltas)))

        # one call for all rows whose block has the same number of steps
        for count in steps.unique().tolist():
            rows = (steps == count)[schedules.kind]
            inside = (blocks == block) & rows.unsqueeze(1)
            if not count or not bool(inside.any()):
                continue

            delta = next(delta for delta in deltas if len(delta) == count)
            part = sampler.order(delta, inside, session.order_rng)
            most = inside.sum(1) if free else torch.full((len(inside),), count)
            _check_order(session, part, inside, most)
            order = torch.where(inside, part + earlier.unsqueeze(1), order)
            if times is not None:
                times = torch.where(inside, sampler.times(delta, part, session.order_rng), times)

        if free:
            steps = schedules.sizes[:, block]
        earlier += steps[schedules.kind]

    return order, times


def _check_order(session: Session, order: Tensor, inside: Tensor, steps: Tensor) -> None:
    """Raise an error unless positions inside, Bool (B, L), have steps from 1 to their row's number (B), others 0."""
    if not isinstance(order, Tensor) or order.shape != inside.shape or order.dtype != torch.int64 or order.is_sparse:
        raise Breach(f"{session.name} orders by {_kind(order)}; expected steps, int64 {tuple(inside.shape)}")
    wrong = torch.where(inside, (order < 1) | (order > steps.unsqueeze(1)), order != 0)

    if bool(wrong.any()):
        where, row = _first(session, wrong)
        position = int(wrong[row].int().argmax())
        expected = "0, as it is not hidden"
        if inside[row, position]:
            expected = f"a step from 1 to {int(steps[row])}"
        raise Breach(f"{session.name} gives step {int(order[row, position])} to {where}; expected {expected}")


def _kind(value: object) -> str:
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else shown(value)


def _adapt(sampler: Sampler, session: Session, blocks: Tensor, schedules: BlockSchedules) -> Iterator[None]:
    canvas = session.canvas
    memory: dict[str, Any] = {}
    stays = torch.zeros_like(canvas.hidden)  # full blocks that have another step
    for plan, number, going, begins in turns(
        sampler.pace, blocks, schedules, lambda: (canvas.hidden | stays, session.settled)
    ):
        # what the sampler stored of a row is zero again where the row's next block begins
        for name, value in memory.items():
            if isinstance(value, Tensor) and bool(begins.any()):
                new = begins.view(-1, *[1] * (value.dim() - 1))
                memory[name] = torch.where(new, torch.zeros_like(value), value)

        here = (blocks == plan.block.unsqueeze(1)) & going.unsqueeze(1)
        hidden = here & canvas.hidden
        rows, positions = hidden.nonzero(as_tuple=True)

        time = None
        if not canvas.time_free and sampler.pace == "free":
            time = hidden.sum(1).double() / here.sum(1).clamp(min=1)  # the fraction that is still hidden
        elif not canvas.time_free:
            time = 1 - plan.within.double() / plan.steps

        yield
        view = View(
            canvas=canvas,
            marginals=session.ask(rows, positions, time),
            places=(rows, positions),
            hidden=hidden.clone(),  # a sampler may write into it
            revealed=here & ~canvas.hidden,
            certainty=session.probability,
            count=plan.positions,
            step=plan.within + 1,
            steps=plan.steps,
            turn=number,
            alpha=plan.alpha,
            alpha_next=plan.alpha_next,
            memory=memory,
        )

        stay = _carry_out(sampler, session, view, hidden, going)
        stays[:] = False if stay is None else here & stay.unsqueeze(1)


def _carry_out(sampler: Sampler, session: Session, view: View, hidden: Tensor, going: Tensor) -> Tensor | None:
    """One step of the active rows, Bool (B), with these positions hidden, Bool (B, L): check the choice, reveal, hide.

    Return the rows, Bool (B), that stay in their block, or None.
    """
    choice = sampler.choose(view)
    _check_choice(session, view, choice, hidden.shape)
    reveal, tokens, hide, done, stay, odds = choice

    session.turns = torch.where(going, view.turn, session.turns)
    _check_memory(session, view)

    if done is not None:
        done = done & going

    over = torch.zeros_like(reveal) if hide is None else reveal & hide  # positions with a replaced token
    new = reveal & ~over
    if sampler.pace != "steps":
        _keep_pace(sampler, session, view, hidden, new, done)
    if hide is not None:
        _check_within(session, view, hide, view.revealed, "hides {} in step {}, which it has not revealed")
    _check_within(session, view, new, hidden, "reveals {} in step {}, which is not in view.hidden")
    if (tokens is None or odds is None) and bool(over.any()):
        raise Breach(f"{session.name} replaces tokens; expected a Choice with both tokens and odds")

    rows, positions = new.nonzero(as_tuple=True)
    marginals = view.marginals[new[view.places]]

    if tokens is None:
        drawn, probability = session.draw(marginals, rows, positions)
    else:
        drawn = tokens[rows, positions]
        probability = marginals.of(drawn.clamp(0, session.denoiser.vocabulary - 1))
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


def _check_within(session: Session, view: View, chosen: Tensor, allowed: Tensor, problem: str) -> None:
    """Raise an error unless the chosen positions, Bool (B, L), are among the allowed ones, Bool (B, L)."""
    wrong = chosen & ~allowed
    if bool(wrong.any()):
        where, row = _first(session, wrong)
        raise Breach(f"{session.name} {problem.format(where, int(view.turn[row]))}")


def _check_choice(session: Session, view: View, choice: object, shape: torch.Size) -> None:
    """Raise an error unless this is a Choice of tensors with the right types and shapes."""
    if not isinstance(choice, Choice):
        raise Breach(f"{session.name} chooses {shown(choice)}; expected samplers.contract.Choice(reveal, tokens, ..)")
    kinds = {"tokens": torch.int64, "odds": torch.float64}
    for name, part in choice._asdict().items():
        kind = kinds.get(name, torch.bool)
        expected = shape[:1] if name in ("done", "stay") else shape
        if part is None and name != "reveal":
            continue
        if not isinstance(part, Tensor) or part.shape != expected or part.dtype != kind or part.is_sparse:
            where = f"in step {int(view.turn.max())}"
            raise Breach(f"{session.name} returns {name} = {_kind(part)} {where}; expected {kind} {tuple(expected)}")


def _check_memory(session: Session, view: View) -> None:
    """Raise an error unless each tensor in the memory has one entry per row."""
    rows = len(view.hidden)
    for name, value in view.memory.items():
        if isinstance(value, Marginals):
            continue
        if not isinstance(value, Tensor) or value.dim() == 0 or len(value) != rows:
            expected = f"tensors (B, ..), one entry for each of {rows} rows"
            raise Breach(f"{session.name} stores {name!r} in its memory as {_kind(value)}; expected {expected}")


def _keep_pace(
    sampler: Sampler, session: Session, view: View, hidden: Tensor, reveal: Tensor, done: Tensor | None
) -> None:
    revealed = reveal.sum(1)
    wrong = revealed != view.count
    if sampler.pace == "free":
        wrong = (revealed == 0) & hidden.any(1)
    if done is not None:
        wrong &= ~done

    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        expected = f"the schedule's {int(view.count[row])}"
        if sampler.pace == "free":
            expected = "at least 1"
        count = f"{int(revealed[row])} positions of row {int(session.rng.row_ids[row])} in step {int(view.turn[row])}"
        raise Breach(f"{session.name} reveals {count}; expected {expected}")
