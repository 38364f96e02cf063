"""The frontier drawn: perplexity against entropy, the one that is true and the one that is read in its place.

On the left the height above the dashed line is KL(p || judge), a token: there a sampler that says little stands to the
left, and never below the line. On the right nothing keeps a point from lying below the language's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from unmask.core.files import origin
from unmask.diagnosis.frontier import LANGUAGE, NAIVE, Point
from unmask.languages import Language
from unmask.report import labels
from unmask.report.frame import COLOURS, INK, alone, drawings, heading, numbers, themed
from unmask.report.publishing import check_directory, write

WIDTH, HEIGHT, EDGE = 330, 320, 0.06  # of a panel in pixels, and its margin as a share of what it shows
LAST = "frontier.json"
TITLE = "Two yardsticks of samples against what is true of their law"
BELOW = (
    "lines: the temperature (of naive, its penalty) swept; filled: H(p); hollow: H(p | luck), which is at most H(p)",
    "left: the height above the dashed line is the divergence, KL(p || judge), a token; diamond: the language itself",
)
AXES = {"entropy": "H(p), nats a token: true", "unigram": "unigram entropy of a row, nats: what is read in its place"}


def check(out: Path) -> None:
    """Fail before the work is done."""
    check_directory(out, LAST)


def publish(out: Path, language: Language, points: Sequence[Point], configuration: dict[str, Any]) -> list[Path]:
    """frontier.svg and .png, and the numbers as JSON and CSV."""
    about = origin(**configuration) | {"language": language.source()}
    drawn = drawings({"frontier": alone(themed(panels(points)), heading(TITLE, *BELOW))})
    return write(out, drawn | numbers("frontier", records(points), origin=about), LAST)


def records(points: Sequence[Point]) -> list[dict[str, Any]]:
    """A row a point: each number under its name, with its ends."""
    found = []
    for point in points:
        record: dict[str, Any] = {"sampler": point.sampler, "setting": point.setting, "exact": point.exact}
        for name in ("cross_entropy", "entropy", "divergence", "unigram", "ser"):
            estimate = getattr(point, name)
            for end, field in ((name, "value"), (f"{name}_low", "low"), (f"{name}_high", "high")):
                record[end] = None if estimate is None else getattr(estimate, field)
        found.append(record | {"evaluations": point.evaluations})
    return found


def panels(points: Sequence[Point]) -> alt.HConcatChart:
    """Against H(p), and against the entropy of a row's own tokens; points of infinite perplexity have no place."""
    data = pd.DataFrame(records(points))
    data = data[[math.isfinite(value) for value in data["cross_entropy"]]]
    names = [name for name in dict.fromkeys(data["sampler"]) if name != LANGUAGE]
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(n for n in names if n != NAIVE)}
    colours[NAIVE] = INK
    return alt.hconcat(*(_panel(data, across, colours) for across in AXES), spacing=28).resolve_scale(y="shared")


def _panel(data: pd.DataFrame, across: str, colours: dict[str, str]) -> Any:
    every = data[data[across].notna()]
    ends = _ends(every[across]), _ends(data["cross_entropy"])
    x = alt.X(f"{across}:Q", title=AXES[across], axis=alt.Axis(grid=False, tickCount=6))
    x = x.scale(domain=ends[0], nice=False)
    y = alt.Y("cross_entropy:Q", title="log of generative perplexity, nats a token").scale(domain=ends[1], nice=False)
    lines = every[every["sampler"] != LANGUAGE].sort_values(["sampler", "setting"], kind="stable")
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    look: dict[str, Any] = {"color": alt.Color("sampler:N", scale=scale, legend=None)}
    told = [alt.Tooltip(f"{name}:N") for name in ("sampler", "setting", "ser", "divergence")]
    path = alt.Chart(lines).mark_line(strokeWidth=2).encode(x=x, y=y, order="setting:Q", **look)
    sure = lines["exact"] | (across != "entropy")
    filled = alt.Chart(lines[sure]).mark_point(filled=True, size=34, opacity=1)
    hollow = alt.Chart(lines[~sure]).mark_point(filled=False, size=34, opacity=1, fill="white")
    own = alt.Chart(every[every["sampler"] == LANGUAGE])
    diamond = own.mark_point(shape="diamond", filled=True, size=170, opacity=1, color=INK).encode(x=x, y=y)
    parts: list[Any] = [path, filled.encode(x=x, y=y, tooltip=told, **look)]
    parts += [hollow.encode(x=x, y=y, tooltip=told, **look), diamond]
    if across == "entropy":
        low, high = max(ends[0][0], ends[1][0]), min(ends[0][1], ends[1][1])
        least = alt.Chart(pd.DataFrame({across: [low, high], "cross_entropy": [low, high]}))
        parts.insert(0, least.mark_line(strokeDash=[6, 4], color=INK, opacity=0.6).encode(x=x, y=y))
    for side, written in _names(lines, across, ends).groupby("side"):
        text = alt.Chart(written).mark_text(align=side, baseline="middle", fontSize=11)
        parts.append(text.encode(x=alt.X("px:Q", scale=None), y=alt.Y("py:Q", scale=None), text="sampler:N", **look))
    drawn: Any = alt.layer(*parts)
    return drawn.properties(width=WIDTH, height=HEIGHT)


def _ends(values: pd.Series) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = EDGE * max(high - low, 0.1)
    return low - margin, high + margin


def _names(lines: pd.DataFrame, across: str, ends: tuple[tuple[float, float], tuple[float, float]]) -> pd.DataFrame:
    """Where each line's name stands, in pixels."""
    (left, right), (bottom, top) = ends
    pixels = {
        str(name): [
            (WIDTH * (a - left) / (right - left), HEIGHT * (top - b) / (top - bottom))
            for a, b in zip(line[across], line["cross_entropy"], strict=True)
        ]
        for name, line in lines.groupby("sampler", sort=False)
    }
    placed = labels.place(pixels, WIDTH, HEIGHT)
    rows = [{"sampler": name, "px": px, "py": py, "side": side} for name, (px, py, side) in placed.items()]
    return pd.DataFrame(rows, columns=["sampler", "px", "py", "side"])
