"""Log-probabilities of the same tokens, from a rollout and from a trainer's update: where they differ, and why.

A trainer weights tokens by ratios exp(update - rollout), which are 1 before the first update of the weights. Each known
fault is a hypothesis: with it undone, nearly all of the difference is gone.

    shift by one    a position has the other side's number of a neighbour
    padding         only rows with padding differ; rows without do not
    temperature     log softmax(logits / T) of the update gives the rollout, for another T; or the other way
    dtype           log softmax of rounded logits does; or one side's numbers are themselves rounded to few bits
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.core.entries import chosen, given, taken
from unmask.core.errors import UnmaskError

GONE = 0.1  # fraction of the difference that may be left with a fault undone
SHORT = (torch.bfloat16, torch.float16)
TEMPERATURES = torch.cat([torch.arange(1, 60) / 20, torch.tensor([4.0, 5.0])])  # .05 to 2.95, 4 and 5
BIG = 1.0  # nats: no rounding is larger


class Difference(NamedTuple):
    """The first position, over all rows, whose numbers differ."""

    row: int
    position: int
    rollout: float
    update: float
    wrong: int  # positions that differ
    compared: int
    largest: float
    ratios: tuple[float, float]  # least and largest exp(update - rollout)
    cause: str  # empty if none is known


def difference(
    rollout: Tensor,
    update: Tensor,
    mask: Tensor | None,
    logits: Tensor | None,
    tokens: Tensor | None,
    tolerance: float,
) -> Difference | None:
    """The difference of log-probabilities (B, L) at positions that count, Bool (B, L); None if there is none."""
    shape = rollout.shape
    counted = chosen(mask, torch.ones(shape)).bool()
    parts: dict[str, Any] = {"update": update, "mask": counted}
    parts |= given({"tokens": tokens, "logits": taken(logits, (..., 0))})

    for name, part in parts.items():
        if part.shape != shape or len(shape) != 2:
            raise UnmaskError(
                f"{name} has shape {tuple(part.shape)}",
                f"expected (rows, length), the same for all; the rollout has {tuple(shape)}",
            )

    if (logits is None) != (tokens is None):
        raise UnmaskError("logits and tokens come together; expected both or neither. Pass both, or leave them out")

    for name, part in (("rollout", rollout), ("update", update)):
        if bool(((bad := ~(part <= tolerance)) & counted).any()):
            row, position = (bad & counted).nonzero()[0].tolist()
            raise UnmaskError(
                f"{name} is {float(part[row, position]):g} at row {row}, position {position}",
                "expected a log-probability, at most 0. Pass logs, not probabilities",
            )

    raw = (rollout, update)
    rollout, update = rollout.double(), update.double()
    apart = torch.where(counted, update - rollout, 0.0).nan_to_num(0.0)  # both impossible: the same
    wrong = apart.abs() > tolerance
    if not bool(wrong.any()):
        return None

    position = int(wrong.any(0).int().argmax())
    row = int(wrong[:, position].int().argmax())

    ratios = apart[counted].exp()
    return Difference(
        row,
        position,
        float(rollout[row, position]),
        float(update[row, position]),
        int(wrong.sum()),
        int(counted.sum()),
        float(apart.abs().max()),
        (float(ratios.min()), float(ratios.max())),
        next(causes(raw, (rollout, update), counted, wrong, logits, tokens), ""),
    )


def causes(
    raw: tuple[Tensor, Tensor],
    both: tuple[Tensor, Tensor],
    counted: Tensor,
    wrong: Tensor,
    logits: Tensor | None,
    tokens: Tensor | None,
) -> Iterator[str]:
    """The faults that explain the difference, the surest first."""
    rollout, update = both
    whole = distance(rollout, update, counted)

    for name, side in (("later", 1), ("earlier", -1)):
        inside = counted & counted.roll(-side, 1)
        inside[:, -1 if side == 1 else 0] = False
        if int(inside.sum()) > 1 and distance(rollout, update.roll(-side, 1), inside) < GONE * whole:
            yield f"shift by one: the update has the rollout's numbers one position {name}"

    padded = ~counted.all(1)
    if bool(padded.any()) and not bool(padded.all()) and not bool(wrong[~padded].any()):
        yield f"padding: all rows without padding agree, and {int(wrong.any(1).sum())} with padding differ"

    if logits is not None and tokens is not None:
        yield from by_logits(both, counted, logits.double(), tokens, whole)

    for name, part, other in (("rollout", raw[0], raw[1]), ("update", raw[1], raw[0])):
        for dtype in SHORT:
            if coarse(part[counted], dtype) and not coarse(other[counted], dtype):
                yield f"dtype: the numbers of the {name} are rounded to {str(dtype).removeprefix('torch.')}"


def by_logits(
    both: tuple[Tensor, Tensor], counted: Tensor, logits: Tensor, tokens: Tensor, whole: float
) -> Iterator[str]:
    """Faults that the update's own logits (B, L, V) show."""

    def of(scores: Tensor) -> Tensor:
        return scores.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1).double()

    rollout, update = both
    for dtype in SHORT:
        short = logits.to(dtype)
        for name, target in (("rollout", rollout), ("update", update)):
            fine = distance(target, of(logits), counted)
            if whole < BIG and min(distance(target, of(one), counted) for one in (short, short.double())) < GONE * fine:
                yield f"dtype: the {name} is that of logits in {str(dtype).removeprefix('torch.')}"
    for name, target in (("rollout", rollout), ("update", update)):
        far = [distance(target, of(logits / t), counted) for t in TEMPERATURES.tolist()]
        best = min(range(len(far)), key=far.__getitem__)
        here = float(TEMPERATURES[best])
        if here != 1 and far[best] < GONE * distance(target, of(logits), counted):
            yield f"temperature: the {name} is that of the logits at temperature {here:g}"


def distance(one: Tensor, other: Tensor, counted: Tensor) -> float:
    """The root of the mean square of differences at positions that count."""
    return float((one - other)[counted].nan_to_num(0.0, posinf=1e3, neginf=-1e3).square().mean().sqrt())


def coarse(values: Tensor, dtype: torch.dtype) -> bool:
    """Whether all of some numbers are as if rounded to this dtype."""
    return len(values) > 1 and bool((values.to(dtype).to(values.dtype) == values).all())
