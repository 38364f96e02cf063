"""The explorer as HTML: the verdict, the controls, the figures as the page begins, and all points for what follows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

from altair.utils import schemapi

from unmask.core.estimates import Estimate
from unmask.report import frame
from unmask.report.explorer.chosen import State, Verdict, rows, start, verdict
from unmask.report.explorer.figure import HEIGHT, LABEL, NAMES, ROOM, Figure, Frame, Row, defined, figures, filled
from unmask.report.explorer.prepare import MOST_NAMES, prepared
from unmask.report.explorer.watch import watch
from unmask.report.explorer.yardsticks import COSTS, EVALUATIONS, SECONDS, YARDSTICKS, Yardstick, known
from unmask.report.frame import Definition, text
from unmask.report.results import CONTROLS, WHO, Point, Results

LABELS = {
    "of": "language or task",
    "model": "denoiser",
    "sampler": "sampler",
    "length": "length",
    "batch": "rows at once",
    "setting": "setting",
}
COLUMNS = (
    *WHO,
    "measure",
    "value",
    "low",
    "high",
    "n",
    "method",
    *COSTS,
    "causal",
    "metric",
)  # of a point, in the page
WORDS = {"of", "model", "kind", "sampler", "schedule", "knob", "setting", "measure", "method", "metric"}
POINT = '<div id="point" hidden aria-live="polite"><p class="what"></p><p class="whose"></p><p><code></code></p></div>'
CLICK = " Click a point to choose it."
DIGITS = 6  # of a number in the page
SHOWN = {  # how a reader makes a number again, by the metric that has made it
    "samples": "unmask generate --language {of} --sampler '{sampler}' --schedule {schedule} --steps {steps} "
    "--length {length} --rows {n} --out samples.npy && unmask score samples.npy --language {of}",
    "ter_upper": "unmask language show {of} --steps {steps} --length {length}",
    "theory": "unmask theory exact --language {of} --steps {steps} --length {length}",
    "prediction": "unmask theory exact --language {of} --steps {steps} --length {length}",
    "autoregressive": "unmask language show {of} --length {length}",
    "curve": "unmask board run --samplers '{sampler}' --languages {of} --lengths {length}",
}


@dataclass(frozen=True)
class Explorer:
    """Results that can be asked."""

    results: Results

    @cached_property
    def yardsticks(self) -> list[Yardstick]:
        return known([point["measure"] for point in self.results.points if point["kind"] == "mdm"])

    @cached_property
    def state(self) -> State:
        if not self.yardsticks:
            return dict.fromkeys(CONTROLS) | {"metric": "ser", "target": YARDSTICKS["ser"].target, "cost": EVALUATIONS}
        return start(self.results, self.yardsticks)

    @cached_property
    def verdict(self) -> Verdict:
        return verdict(self.results, self.state)

    @cached_property
    def figures(self) -> list[Figure]:
        """Those that there is something for."""
        return [figure for figure in figures() if figure.wanted(self.results)]

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """Of each figure by its name; those that are drawn alike have one in common."""
        with schemapi.debug_mode(False):  # a test holds them against the schema, which takes longer than drawing
            drawn = {draw: defined(draw(self.results)) for draw in {figure.draw for figure in self.figures}}
        return {figure.name: drawn[figure.draw] for figure in self.figures}

    @cached_property
    def own(self) -> dict[str, list[Row]]:
        """The rows of figures that are made of no points."""
        return {figure.name: figure.own(self.results) for figure in self.figures if figure.own is not None}

    @cached_property
    def begun(self) -> dict[str, Definition]:
        """Each figure with the rows that the page begins with."""
        return {figure.name: self.drawn(figure) for figure in self.figures}

    def drawn(self, figure: Figure, **choice: Any) -> Definition:
        """With what the page begins with, but for a choice."""
        state = self.state | choice
        found, around, yardstick = prepared(figure, self.results, state, self.own.get(figure.name, ()))
        return filled(self.definitions[figure.name], found, values(around, yardstick, state))

    def drawings(self) -> dict[str, Definition]:
        """Each to stand without a page."""
        return {
            figure.name: frame.alone(self.begun[figure.name], frame.heading(figure.title, figure.under))
            for figure in self.figures
        }

    def parts(self) -> dict[str, str]:
        """What a template has a place for: `explorer`, `numbers`, `player`, and at its end `data`."""
        if not (self.results.points or self.results.trainings or self.results.frontier):
            nothing = {"explorer": "<p class='lead'>Nothing was measured yet.</p>"}
            return nothing | dict.fromkeys(("numbers", "player", "data"), "")
        asked = [verdict_html(self.verdict), self._controls(), POINT] if self.yardsticks else []
        drawn = ['<div class="figures">', *map(self._figure, self.figures), "</div>"]
        return {
            "explorer": "\n".join([*asked, *drawn]),
            "numbers": self._numbers() if self.yardsticks else "",
            "player": watch(self.results),
            "data": self._data(),
        }

    def _figure(self, figure: Figure) -> str:
        drawing = frame.hidden(frame.svg(self.begun[figure.name]))
        title, under = text(figure.title), text(figure.under)
        asked = any("at" in row for row in self.begun[figure.name]["datasets"]["rows"])
        return f"""<figure id="figure-{figure.name}"{' class="wide"' if figure.wide else ""}>
<h3>{title}</h3>
<p class="under">{under}</p>
<div class="plot" id="{figure.name}" role="img" aria-label="{title}: {under}">{drawing}</div>
<p class="nothing" hidden>Nothing of this was measured for what is chosen.</p>
<figcaption>{figure.caption}{CLICK if asked else ""}</figcaption>
</figure>"""

    def _controls(self) -> str:
        """Of each control its choices; one that leaves none is not shown."""
        metrics = {one.name: one.title.partition(": ")[2] or one.title for one in self.yardsticks}
        costs = {name: said for name, said in COSTS.items() if name != SECONDS or self._timed}
        boxes = [_select("metric", "yardstick", metrics, self.state)]
        boxes.append(
            '<label>until it is <input type="number" id="control-target" name="target" step="any" '
            'inputmode="decimal"><span id="unit"></span></label>'
        )
        for name, label in LABELS.items():
            choices = self.results.choices(name)
            if len(choices) > 1:
                boxes.append(_select(name, label, {str(value): str(value) for value in choices}, self.state))
        boxes.append(_select("cost", "cost", costs, self.state))
        return f'<form id="controls" class="controls" aria-label="what is shown">{"".join(boxes)}</form>'

    @property
    def _timed(self) -> bool:
        return any(point["seconds"] is not None for point in self.results.points)

    def _numbers(self) -> str:
        """The chosen yardstick by rounds, a column a language; explorer.js fills it again."""
        yardstick = YARDSTICKS[self.state["metric"]]
        return f'<div class="table" id="numbers">{table(self.results, self.state, yardstick)}</div>'

    def _data(self) -> str:
        told = {
            "points": packed(self.results.points),
            "state": self.state,
            "controls": CONTROLS,
            "choices": {name: self.results.choices(name) for name in CONTROLS},
            "yardsticks": {one.name: asdict(one) for one in self.yardsticks or YARDSTICKS.values()},
            "commands": SHOWN,
            "table": f"unmask sweep export {next(iter(self.results.sources), 'DIR')} --out table.csv",
            "frame": {"room": ROOM, "names": NAMES, "label": LABEL, "height": HEIGHT},
            "names": MOST_NAMES,
            "figures": [
                {
                    "name": figure.name,
                    "prepare": figure.prepare,
                    "options": figure.options,
                    "definition": self.definitions[figure.name],
                    "own": self.own.get(figure.name),
                }
                for figure in self.figures
            ],
        }
        data = json.dumps(told, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        script = files("unmask.report").joinpath("explorer/explorer.js").read_text("utf-8")
        return f'<script type="application/json" id="explorer">{data}</script>\n<script>{script}</script>'


def values(around: Frame, yardstick: Yardstick, state: State) -> dict[str, Any]:
    """The parameters of a definition."""
    return asdict(around) | {"target": state["target"], "share": yardstick.share}


def verdict_html(said: Verdict) -> str:
    """One sentence and its numbers; explorer.js writes the same."""
    items = "".join(f"<li><strong>{text(number)}</strong>{text(what)}</li>" for number, what in said.numbers)
    sentence = f'<p class="verdict">{text(said.sentence)}</p>'
    return f'<div id="verdict" aria-live="polite">{sentence}<ol class="see">{items}</ol></div>'


def table(results: Results, state: State, yardstick: Yardstick) -> str:
    """N down, languages across, each cell a button that chooses its point."""
    said = rows(results.points, state, yardstick.measures, ("of",))
    columns = list(dict.fromkeys(point["of"] for point in said))
    lines: dict[str, dict[str, Point]] = {}
    for point in sorted(said, key=lambda p: (p["kind"] == "ar", p["steps"] or 0, p["evaluations"] or 0)):
        name = "AR" if point["kind"] == "ar" else point["knob"] or (f"{point['steps']:g}" if point["steps"] else "-")
        lines.setdefault(name, {})[point["of"]] = point
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in ("N", *columns))
    body = "\n".join(
        f'<tr><th scope="row">{text(name)}</th>{"".join(_cell(line.get(column), yardstick) for column in columns)}</tr>'
        for name, line in lines.items()
    )
    return f"<table><caption>{text(yardstick.title)}</caption><tr>{head}</tr>\n{body}</table>"


def _cell(point: Point | None, yardstick: Yardstick) -> str:
    if point is None:
        return "<td>-</td>"
    return f'<td><button type="button" data-at="{point["number"]}">{text(told(point, yardstick))}</button></td>'


def told(point: Mapping[str, Any], yardstick: Yardstick) -> str:
    """A number with its interval, in percent where it is a share."""
    if not yardstick.share:
        return str(Estimate.of_record(point))
    estimate = Estimate.of_record(point)
    if estimate.exact:
        return f"{100 * estimate.value:.3g}%"
    if estimate.none_seen:
        return f"< {100 * estimate.high:.2g}%"
    if estimate.open:
        return f"{100 * estimate.value:.3g}%"
    return f"{100 * estimate.value:.3g}% [{100 * estimate.low:.3g}, {100 * estimate.high:.3g}]"


def packed(points: Sequence[Point]) -> dict[str, Any]:
    """Points as columns; words are numbers of a list, and numbers have as many digits as anybody reads."""
    found: dict[str, Any] = {}
    for name in COLUMNS:
        column = [point[name] for point in points]
        if name in WORDS:
            words = list(dict.fromkeys(column))
            where = {word: number for number, word in enumerate(words)}
            found[name] = {"words": words, "at": [where[word] for word in column]}
        else:
            found[name] = [None if value is None else _short(value) for value in column]
    return found


def _short(value: float) -> float | int:
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _select(name: str, label: str, choices: Mapping[str, str], state: State) -> str:
    options = "".join(
        f'<option value="{frame.attribute(value)}"{_selected(str(state[name]) == value)}>{text(said)}</option>'
        for value, said in choices.items()
    )
    return f'<label>{label} <select id="control-{name}" name="{name}">{options}</select></label>'


def _selected(chosen: bool) -> str:
    return " selected" if chosen else ""
