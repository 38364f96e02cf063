"""Names beside lines instead of a legend: each where its line is furthest from all the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Pixels = Sequence[tuple[float, float]]
Box = tuple[float, float, float, float]  # left, top, right, bottom
LETTER = 6.2  # pixels across, at the size of a label
HALF = 7.0  # of its height
DENSE = 24  # places a segment


def place(
    lines: Mapping[str, Pixels], width: float, height: float, taken: Sequence[Box] = ()
) -> dict[str, tuple[float, float, str]]:
    """(x, y, "left" or "right") of each line's label, beside one of its places, inside a panel and off other labels.

    Lines choose in their order; one that finds no room has no label. taken: where no label may stand.
    """
    dense = {name: _dense(line) for name, line in lines.items()}
    boxes: list[NDArray[np.float64]] = [np.array(box) for box in taken]
    found = {}
    for name in dense:
        others = [line for other, line in dense.items() if other != name]
        cloud = np.concatenate(others) if others else np.empty((0, 2))
        best, most = None, 0.0
        for x, y in dense[name]:
            for side, dx in (("left", 7.0), ("right", -7.0)):
                for dy in (-9.0, 9.0):
                    start = x + dx if side == "left" else x + dx - LETTER * len(name)
                    box = np.array([start, y + dy - HALF, start + LETTER * len(name), y + dy + HALF])
                    room = _room(box, boxes, cloud, dense[name], width, height)
                    if room > most:
                        best, most = (x + dx, y + dy, side, box), room
        if best is not None:
            found[name] = best[:3]
            boxes.append(best[3])
    return found


def _dense(line: Pixels) -> NDArray[np.float64]:
    """Places along a line, its points among them."""
    points = np.array(line, dtype=float)
    if len(points) == 1:
        return points
    steps = np.linspace(0, 1, DENSE, endpoint=False)[:, None]
    parts = [a + steps * (b - a) for a, b in pairwise(points)]
    return np.concatenate([*parts, points[-1:]])


def _room(
    box: NDArray[np.float64],
    boxes: Sequence[NDArray[np.float64]],
    others: NDArray[np.float64],
    own: NDArray[np.float64],
    width: float,
    height: float,
) -> float:
    """How far a label is from other lines, up to a point; 0 where it leaves the panel or lies on something."""
    left, top, right, bottom = box
    if left < 0 or top < 0 or right > width or bottom > height:
        return 0.0
    if any(left < b[2] + 2 and right > b[0] - 2 and top < b[3] + 1 and bottom > b[1] - 1 for b in boxes):
        return 0.0
    if _distance(own, box).min() <= 0:
        return 0.0
    near = float(_distance(others, box).min()) if len(others) else 40.0
    return min(near, 40.0)


def _distance(points: NDArray[np.float64], box: NDArray[np.float64]) -> NDArray[np.float64]:
    """From each point to a box, 0 inside."""
    across = np.maximum(np.maximum(box[0] - points[:, 0], points[:, 0] - box[2]), 0)
    along = np.maximum(np.maximum(box[1] - points[:, 1], points[:, 1] - box[3]), 0)
    return np.hypot(across, along)
