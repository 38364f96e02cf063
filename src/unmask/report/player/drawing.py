"""A player as a moving picture for slides: one scene, with parts that are visible at some steps of its clock.

In SVG, CSS shows and hides each part; with reduced motion it shows the first error, or the end. In GIF each step is a
frame.
"""

from __future__ import annotations

import html
import io
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Any

import vl_convert

from unmask.core.errors import UnmaskError, cut, plain
from unmask.core.extras import needed
from unmask.report.player.run import Run, check, telling

CELL, GAP, LINE, PAD = 26, 3, 46, 16  # pixels: a cell, between two, from line to line, within a card
WIDTH, TWO = 760, 470  # of a card alone, and of one of two
LETTER = 8.2  # pixels per character, approximately
SYMBOL = 14  # characters of a token
PLOT, WHY = 44, 58  # heights of the meter's line, and of the explanation
SECONDS, LEAST, MOST = 8.0, 0.07, 1.1  # of a complete play, approximately; of a step
LOOK, END = 3.2, 2.2  # seconds at the first error, and at the end
FRAMES, MOST_PIXELS, COLOURS = 150, 2**28, 48  # upper limits of a GIF: frames, total pixels, colours
LONGEST, MOST_STEPS = 1024, 2048  # positions and steps of a picture
SPAN = 1.0  # nats, the smallest range of the meter's line
THICK = 6.0  # pixels of the strongest arc
PAPER, CARD, INK, SOFT, EDGE, NEW, BAD = "#ffffff", "#f5f6f8", "#1d232b", "#59636f", "#d9dde3", "#0077bb", "#c22f10"
EARLY, MIDDLE, LATE = (177, 208, 232), (214, 196, 226), (247, 208, 183)  # of cells, by step
FONT = "font-family='system-ui, Segoe UI, Helvetica, Arial, DejaVu Sans, sans-serif'"


@dataclass
class Scene:
    """Parts of a picture, each with the first and the last step at which it is visible."""

    width: int
    end: int  # the last step; at step 0 all is hidden
    errors: list[int] = field(default_factory=list)  # steps after which a sequence was impossible
    height: int = 0
    parts: list[tuple[int, int, str]] = field(default_factory=list)

    def add(self, drawn: str, first: int = 0, last: int | None = None) -> None:
        self.parts.append((first, self.end if last is None else last, drawn))

    def text(self, x: float, y: float, words: str, size: int = 13, look: str = f"fill='{INK}'", **when: int) -> None:
        self.add(f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' {look}>{html.escape(words)}</text>", **when)

    @property
    def still(self) -> int:
        """The step of a still picture: the first error."""
        return min(self.errors, default=self.end)

    def seconds(self) -> list[float]:
        """The duration of each step."""
        pace = min(max(SECONDS / max(self.end, 1), LEAST), MOST)
        lasting = [LOOK if step in self.errors else pace for step in range(self.end + 1)]
        lasting[-1] = max(lasting[-1], END)
        return lasting

    def frame(self, step: int) -> str:
        return self._svg("".join(drawn for first, last, drawn in self.parts if first <= step <= last))

    def moving(self) -> str:
        """The animation, in a loop."""
        times = [0.0, *accumulate(self.seconds())]
        rules, drawn = {}, []
        for (first, last), group in groupby(self.parts, lambda part: part[:2]):
            body = "".join(part for *_, part in group)
            if (first, last) == (0, self.end):
                drawn.append(body)
                continue
            name, visible = f"s{first}-{last}", int(first <= self.still <= last)
            begins, ends = (100 * times[step] / times[-1] for step in (first, last + 1))
            frames = f"{'' if first == 0 else '0%{opacity:0}'}{begins:.3f}%{{opacity:1}}"
            frames += "" if last == self.end else f"{ends:.3f}%{{opacity:0}}"
            frames += f"100%{{opacity:{int(last == self.end)}}}"
            rules[name] = f"@keyframes {name}{{{frames}}}.{name}{{opacity:{visible};animation-name:{name}}}"
            drawn.append(f"<g class='m {name}'>{body}</g>")
        style = f".m{{animation:{times[-1]:.2f}s step-end infinite}}"
        style += "@media(prefers-reduced-motion:reduce){.m{animation:none}}"
        return self._svg(f"<style>{style}{''.join(rules.values())}</style>{''.join(drawn)}")

    def _svg(self, body: str) -> str:
        size = f"width='{self.width}' height='{self.height}' viewBox='0 0 {self.width} {self.height}'"
        paper = f"<rect width='100%' height='100%' fill='{PAPER}'/>"
        return f"<svg xmlns='http://www.w3.org/2000/svg' {size} {FONT}>{paper}{body}</svg>"


def animation(runs: Sequence[Run], row: int | None = None) -> str:
    """A self-contained animated SVG."""
    return scene(runs, row).moving()


def gif(runs: Sequence[Run], row: int | None = None) -> bytes:
    """A GIF in an endless loop."""
    with needed("gif", "a GIF"):
        from PIL import Image

    shown = scene(runs, row)

    def picture(step: int) -> Any:
        return Image.open(io.BytesIO(vl_convert.svg_to_png(shown.frame(step)))).convert("RGB")

    seconds = shown.seconds()
    most = max(min(FRAMES, MOST_PIXELS // (shown.width * shown.height)), 2)
    every = -(-len(seconds) // most)
    steps = sorted({*range(0, shown.end, every), *shown.errors, shown.end})
    lasting = [sum(seconds[a:b]) for a, b in zip(steps, [*steps[1:], len(seconds)], strict=True)]
    plain = Image.Dither.NONE
    palette = picture(shown.still).quantize(COLOURS, dither=plain)
    flat = [picture(step).quantize(palette=palette, dither=plain) for step in steps]
    out, times = io.BytesIO(), [round(1000 * one) for one in lasting]
    flat[0].save(out, "GIF", save_all=True, append_images=flat[1:], duration=times, loop=0, optimize=True)
    return out.getvalue()


def scene(runs: Sequence[Run], row: int | None = None) -> Scene:
    """One sequence of each run, side by side."""
    check(runs)
    row = telling(runs) if row is None else row
    for run in runs:
        if run.trace.rows[row].length > LONGEST or len(run.steps[row]) > MOST_STEPS:
            size = f"{run.trace.rows[row].length} positions and {len(run.steps[row])} steps"
            most = f"a picture shows at most {LONGEST} positions and {MOST_STEPS} steps"
            raise UnmaskError(f"{cut(run.name)} has {size}; {most}. Write a page: --out play.html")
    width = WIDTH if len(runs) == 1 else TWO
    picture = Scene(len(runs) * (width + PAD) + PAD, max(len(run.steps[row]) for run in runs))
    picture.errors = [error + 1 for run in runs if (error := run.first_error(row)) is not None]
    meters = [step.meter for run in runs if (reading := run.readings[row]) for step in reading.steps]
    low, high = min([0.0, *meters]), max([0.0, *(meter for meter in meters if meter < float("inf"))])
    span = low, max(high, low + SPAN)
    cards = [_Card(picture, run, row, PAD + number * (width + PAD), width, span) for number, run in enumerate(runs)]
    lines = max(card.lines for card in cards)
    for card in cards:
        card.draw(lines)
    return picture


class _Card:
    """One run in the scene."""

    def __init__(self, scene: Scene, run: Run, row: int, x: int, width: int, span: tuple[float, float]) -> None:
        self.scene, self.run, self.row, self.x, self.width, self.span = scene, run, row, x, width, span
        self.recorded, self.steps, self.reading = run.trace.rows[row], run.steps[row], run.readings[row]
        self.error = run.first_error(row)
        final = self.recorded.final
        symbols = [self._symbol(final[place]) if place in final else "" for place in range(self.recorded.length)]
        self.cells: list[tuple[float, int, float]] = []  # x, line, width
        at, line = 0.0, 0
        for symbol in symbols:
            wide = max(float(CELL), LETTER * len(symbol) + 8)
            if at and at + wide > width - 2 * PAD:
                at, line = 0.0, line + 1
            self.cells.append((x + PAD + at, line, wide))
            at += wide + GAP
        self.lines = line + 1

    def draw(self, lines: int) -> None:
        top = PAD + 66
        below = top + lines * LINE
        height = below + (WHY + PLOT + 46 if self.reading else 0)
        self.scene.height = max(self.scene.height, height + PAD)
        card = f"<rect x='{self.x}' y='{PAD}' width='{self.width}' height='{height - PAD}' rx='6'"
        self.scene.add(f"{card} fill='{CARD}' stroke='{EDGE}'/>")
        self.scene.text(self.x + PAD, PAD + 25, cut(self.run.name), 16, f"fill='{INK}' font-weight='700'")
        for place in range(self.recorded.length):
            self._box(place, top, f"fill='{PAPER}' stroke='{EDGE}'")
        for place, token in self.recorded.given:
            self._token(place, top, token, 0, None, f"fill='{CARD}' stroke='{SOFT}'")
        self._steps(top)
        if self.reading:
            self._words(below)
            self._meter(below + WHY + 6)

    def _steps(self, top: float) -> None:
        ends = self._ends()
        strongest = max((pair[2] for k in range(len(self.steps)) for pair in self.run.arcs(self.row, k)), default=1.0)
        for k, one in enumerate(self.steps):
            step = last = k + 1
            left = f"{one.left} hidden" if one.left else "all revealed"
            state = f"step {one.number} of {self.steps[-1].number}, {left}"
            self.scene.text(self.x + PAD, PAD + 45, state, 12, f"fill='{SOFT}'", first=step, last=last)
            guilty = self.reading.guilty if self.reading and k == self.error else ()
            for i, j, nats in self.run.arcs(self.row, k):
                if (i, j) != guilty:
                    self._arc(i, j, top, max(THICK * nats / strongest, 0.8), SOFT, step, last)
            if len(guilty) == 2:
                self._arc(*guilty, top, 3.5, BAD, step, last)
            fill = _mixed(k / max(len(self.steps) - 1, 1))
            for place, token in one.revealed.items():
                self._token(place, top, token, step, ends.get((k, place)), f"fill='{fill}' stroke='{fill}'")
                self._box(place, top, f"fill='none' stroke='{NEW}' stroke-width='2'", step, last)
        if len(self.steps) < self.scene.end:
            state = f"done in {len(self.steps)} steps"
            self.scene.text(self.x + PAD, PAD + 45, state, 12, f"fill='{SOFT}'", first=len(self.steps) + 1)
        state = "all hidden" if not self.recorded.given else "all hidden except given tokens"
        self.scene.text(self.x + PAD, PAD + 45, state, 12, f"fill='{SOFT}'", first=0, last=0)
        for first, last in self._dead():
            for place in self.reading.guilty if self.reading else ():
                self._box(place, top, f"fill='none' stroke='{BAD}' stroke-width='3.5'", first, last)
                x, line, wide = self.cells[place]
                look = f"fill='{BAD}' text-anchor='middle'"
                self.scene.text(
                    x + wide / 2, top + line * LINE + CELL + 12, f"{place + 1}", 10, look, first=first, last=last
                )

    def _ends(self) -> dict[tuple[int, int], int]:
        """(step, position): the last step at which a token is visible that is hidden again later."""
        since: dict[int, int] = {}
        ends = {}
        for k, one in enumerate(self.steps):
            for place in one.hidden:
                if place in since:
                    ends[since.pop(place), place] = k
            since |= dict.fromkeys(one.revealed, k)
        return ends

    def _dead(self) -> Iterator[tuple[int, int]]:
        """(first, last) step of each time in which no valid completion exists."""
        meters = [step.meter == float("inf") for step in self.reading.steps] if self.reading else []
        for dead, group in groupby(enumerate(meters, 1), lambda one: one[1]):
            steps = [step for step, _ in group]
            if dead:
                yield steps[0], self.scene.end if steps[-1] == len(meters) else steps[-1]

    def _words(self, y: float) -> None:
        assert self.reading is not None
        wide = int((self.width - 3 * PAD) / 7.2)
        x = self.x + PAD
        for first, last in self._dead():
            self.scene.add(f"<rect x='{x}' y='{y}' width='4' height='{WHY - 8}' fill='{BAD}'/>", first, last)
            wrapped = textwrap.wrap(f"Impossible: {self.reading.why}.", wide, max_lines=3, placeholder=" ..")
            for number, line in enumerate(wrapped):
                look = f"fill='{BAD}' font-weight='700'" if not number else f"fill='{INK}'"
                self.scene.text(x + 14, y + 14 + 17 * number, line, 13, look, first=first, last=last)
        if self.reading.lost < float("inf"):
            says = "Loss by the model's own probabilities." if self.run.model else "This sequence is possible."
            self.scene.text(x + 14, y + 14, says, 13, f"fill='{SOFT}'", first=len(self.steps))

    def _meter(self, y: float) -> None:
        assert self.reading is not None
        x, wide, (low, high) = self.x + PAD, self.width - 2 * PAD, self.span
        across, scale = wide / max(self.scene.end, 1), (PLOT - 6) / (high - low)
        base = y + 26 + PLOT - 3
        path, before = f"M{x} {base + low * scale:.1f}", 0.0
        for step, one in enumerate([*self.reading.steps, None], 1):
            at = x + (step if one else self.scene.end) * across
            path += f"H{at:.1f}" if before < float("inf") else ""
            if one and one.meter < float("inf"):
                path += f"{'V' if before < float('inf') else f'M{at:.1f} '}{base - (one.meter - low) * scale:.1f}"
            before = one.meter if one else before
        for first, last in self._dead():
            until = last if last == self.scene.end else last + 1
            left, broad = x + first * across, max((until - first) * across, 3.0)
            box = f"<rect x='{left:.1f}' y='{y + 24}' width='{broad:.1f}' height='{PLOT}'"
            self.scene.add(f"{box} fill='{BAD}' opacity='0.16'/>", first)
        self.scene.add(f"<path d='{path}' fill='none' stroke='{NEW}' stroke-width='2'/>")
        for step in range(self.scene.end + 1):
            head = x + step * across
            line = f"<path d='M{head:.1f} {y + 24}v{PLOT}' stroke='{INK}' stroke-width='1.5'/>"
            self.scene.add(line, step, step)
        for step, nats in enumerate([0.0, *(one.meter for one in self.reading.steps)]):
            during = _until(step if step < len(self.steps) else None)
            dead = nats == float("inf")
            look = f"fill='{BAD if dead else INK}' font-weight='700'"
            words = "\u221e nats lost" if dead else f"{round(nats, 2) + 0.0:.2f} nats lost".replace("-", "\u2212")
            self.scene.text(x, y + 16, words, 16, look, first=step, **during)

    def _token(self, place: int, top: float, token: int, first: int, last: int | None, look: str) -> None:
        x, line, wide = self.cells[place]
        self._box(place, top, look, first, last)
        size = 15 if wide == CELL else 13
        y = top + line * LINE + CELL / 2 + 5
        middle = f"fill='{INK}' text-anchor='middle' font-weight='700'"
        self.scene.text(x + wide / 2, y, self._symbol(token), size, middle, first=first, **_until(last))

    def _box(self, place: int, top: float, look: str, first: int = 0, last: int | None = None) -> None:
        x, line, wide = self.cells[place]
        box = f"<rect x='{x:.1f}' y='{top + line * LINE}' width='{wide:.1f}' height='{CELL}' rx='4' {look}/>"
        self.scene.add(box, first, last)

    def _arc(self, i: int, j: int, top: float, thick: float, colour: str, first: int, last: int | None) -> None:
        (x, line, wide), (u, row, broad) = self.cells[i], self.cells[j]
        x, u, y, v = x + wide / 2, u + broad / 2, top + line * LINE - 2, top + row * LINE - 2
        rise = min(8 + abs(u - x) * 0.08, 17) if line == row else 14
        path = (
            f"M{x:.1f} {y}C{x + (u - x) * 0.15:.1f} {y - rise:.1f} {u - (u - x) * 0.15:.1f} {v - rise:.1f} {u:.1f} {v}"
        )
        drawn = f"<path d='{path}' fill='none' stroke='{colour}' stroke-width='{thick:.2f}' stroke-linecap='round'/>"
        self.scene.add(drawn, first, last)

    def _symbol(self, token: int) -> str:
        symbol = self.run.trace.symbol(token)
        return plain(symbol if len(symbol) <= SYMBOL else f"{symbol[: SYMBOL - 2]}..").strip() or "\u2423"


def _until(last: int | None) -> dict[str, int]:
    return {} if last is None else {"last": last}


def _mixed(part: float) -> str:
    """The colour of a cell that was revealed after this fraction of the steps."""
    first, second, part = (EARLY, MIDDLE, 2 * part) if part < 0.5 else (MIDDLE, LATE, 2 * part - 1)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(first, second, strict=True))
