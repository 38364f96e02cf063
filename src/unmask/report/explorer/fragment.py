"""The explorer as HTML: controls, verdict, figures, numbers, and all points for the script of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import Any

from altair.utils import schemapi

from unmask.report import frame
from unmask.report.explorer.chosen import NEAR, State, Verdict, rounds, rows, said, start, usable, verdict
from unmask.report.explorer.figure import HEIGHT, LABEL, NAMES, ROOM, Figure, Frame, Row, defined, figures, filled
from unmask.report.explorer.looks import ORACLES
from unmask.report.explorer.prepare import MOST_NAMES, prepared
from unmask.report.explorer.watch import watch
from unmask.report.explorer.yardsticks import COSTS, EVALUATIONS, SECONDS, YARDSTICKS, Yardstick, known
from unmask.report.frame import Definition, Sentence, cards, text
from unmask.report.results import CONTROLS, WHO, Point, Results
from unmask.report.view import View

LABELS = {
    "of": "language or task",
    "model": "denoiser",
    "sampler": "sampler",
    "length": "length",
    "batch": "batch",
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
DIGITS = 6  # of a number in the page
ABOVE = 2  # figures above the verdict of a page with messages
SHOWN = {  # the command that measures a number again, by the metric of its cell
    "samples": "unmask generate --language {of} --sampler '{sampler}' --schedule {schedule} --steps {steps} "
    "--length {length} --rows {n} --out samples.npy && unmask score samples.npy --language {of}",
    "ter_upper": "unmask show language {of} --steps {steps} --length {length}",
    "theory": "unmask theory exact --language {of} --steps {steps} --length {length}",
    "prediction": "unmask theory exact --language {of} --steps {steps} --length {length}",
    "autoregressive": "unmask show language {of} --length {length}",
    "curve": "unmask board run --samplers '{sampler}' --languages {of} --lengths {length}",
}


@dataclass(frozen=True)
class Explorer:
    """Results with controls."""

    results: Results
    view: View = field(default_factory=View)

    @cached_property
    def yardsticks(self) -> list[Yardstick]:
        return known([point["measure"] for point in self.results.points if point["kind"] == "mdm"])

    @cached_property
    def state(self) -> State:
        if not self.yardsticks:
            return dict.fromkeys(CONTROLS) | {"metric": "ser", "target": YARDSTICKS["ser"].target, "cost": EVALUATIONS}
        first = [one for one in self.yardsticks if one.name == self.view.state.get("metric")] or self.yardsticks
        found = start(self.results, first)
        return found | {k: v for k, v in self.view.state.items() if k in CONTROLS and v in self.choices(k)}

    def choices(self, name: str) -> list[Any]:
        """The values of a control that have data of a metric."""
        measures = {measure for one in self.yardsticks for measure in one.measures}
        found = (p[name] for p in self.results.of(*measures) if p["kind"] == "mdm" and p[name] is not None)
        return list(dict.fromkeys(found))

    @cached_property
    def cards(self) -> list[Sentence]:
        return self.view.cards(self.results, self.state)

    @cached_property
    def verdict(self) -> Verdict:
        return verdict(self.results, self.state)

    @cached_property
    def _asked(self) -> list[Figure]:
        """Those of the view, in its order; all usual ones if it names none."""
        every = {figure.name: figure for figure in figures()}
        names = self.view.figures or [name for name, figure in every.items() if figure.usual]
        return [every[name] for name in names if every[name].needs(self.results)]

    @cached_property
    def own(self) -> dict[str, list[Row]]:
        """The rows of figures that have no points."""
        return {figure.name: figure.own(self.results) for figure in self._asked if figure.own is not None}

    @cached_property
    def figures(self) -> list[Figure]:
        """Those that have something to draw."""
        return [one for one in self._asked if one.own is None or len(self.own[one.name]) > 1]

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """Of each figure by its name; those that are drawn alike have one in common."""
        with schemapi.debug_mode(False):  # a test checks the schema, which takes longer than drawing
            drawn = {draw: defined(draw(self.results)) for draw in {figure.draw for figure in self.figures}}
        return {figure.name: drawn[figure.draw] for figure in self.figures}

    @cached_property
    def begun(self) -> dict[str, Definition]:
        """Each figure with the rows that the page begins with."""
        return {figure.name: self.drawn(figure) for figure in self.figures}

    def drawn(self, figure: Figure, **choice: Any) -> Definition:
        """With what the page begins with, but for a choice."""
        state = self.state | choice
        found, around, yardstick = prepared(figure, self.results, state, self.own.get(figure.name, ()))
        definition = self.definitions.get(figure.name) or defined(figure.draw(self.results))
        return filled(definition, found, values(around, yardstick, state))

    def drawings(self) -> dict[str, Definition]:
        """Each to stand without a page."""
        return {
            figure.name: frame.alone(self.begun[figure.name], frame.heading(figure.title, figure.under))
            for figure in self.figures
        }

    def parts(self) -> dict[str, str]:
        """What a template has a place for: `explorer`, and at its end `data`."""
        if not (self.results.points or self.results.trainings or self.results.frontier or self.results.theory):
            return {"explorer": "<p class='lead'>Nothing was measured yet.</p>", "data": ""}
        asked, controls = [], ""
        if self.yardsticks:
            asked, controls = [verdict_html(self.verdict), POINT], self._controls()
        above = [self._figures(self.figures[:ABOVE])]
        first = [*above, *asked] if self.cards else [*asked, *above]
        player = watch(self.results, self.state)
        rest = [self._figures(self.figures[ABOVE:]), self._numbers() if self.yardsticks else ""]
        whole = "\n".join(part for part in [controls, *first, player, *rest] if part)
        return {"explorer": f'<section class="asked">{whole}</section>', "data": self._data()}

    def _figures(self, figures: Sequence[Figure]) -> str:
        return "\n".join(['<div class="figures">', *map(self._figure, figures), "</div>"]) if figures else ""

    def _figure(self, figure: Figure) -> str:
        drawing = frame.hidden(frame.svg(self.begun[figure.name]))
        title, under = text(figure.title), text(figure.under)
        caption = f"\n<figcaption>{figure.caption}</figcaption>" if figure.caption else ""
        return f"""<figure id="figure-{figure.name}"{' class="wide"' if figure.wide else ""}>
<h3>{title}</h3>
<p class="under">{under}</p>
<div class="plot" id="{figure.name}" role="img" aria-label="{title}: {under}">{drawing}</div>
<p class="nothing" hidden>Not measured for this choice.</p>{caption}
</figure>"""

    def _controls(self) -> str:
        """The choices of each control that has at least two; the script disables those without data."""
        metrics = {one.name: one.title.partition(": ")[2] or one.title for one in self.yardsticks}
        costs = {name: words for name, words in COSTS.items() if name != SECONDS or self._timed}
        boxes = [_select("metric", "metric", metrics, self.state)]
        boxes.append(
            '<label>target <input type="number" id="control-target" name="target" step="any" '
            'inputmode="decimal"><span id="unit"></span></label>'
        )
        for name, label in LABELS.items():
            choices = self.choices(name)
            if len(choices) > 1:
                words = {str(value): f"{value}{'' if usable(str(value)) else ' (reference)'}" for value in choices}
                boxes.append(_select(name, label, words, self.state))
        boxes.append(_select("cost", "cost", costs, self.state))
        form = f'<form id="controls" class="controls" aria-label="Choices">{"".join(boxes)}</form>'
        return f'{form}\n<p id="elsewhere" class="note" hidden></p>'

    @property
    def _timed(self) -> bool:
        return any(point["seconds"] is not None for point in self.results.points)

    def _numbers(self) -> str:
        """The chosen metric, a row per sampler and setting, a column per language; explorer.js fills it again."""
        made = table(self.results, self.state, YARDSTICKS[self.state["metric"]])
        note = "With 95% intervals. Press a number for its details and the command that measures it again."
        return f'<h2>The numbers</h2>\n<p class="note">{note}</p>\n<div class="table" id="numbers">{made}</div>'

    def _data(self) -> str:
        told = {
            "points": packed(self.results.points),
            "state": self.state,
            "controls": CONTROLS,
            "choices": {name: self.choices(name) for name in CONTROLS},
            "labels": LABELS,
            "costs": COSTS,
            "oracles": ORACLES,
            "near": NEAR,
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
    return asdict(around) | {"target": state["target"] or 0.0, "share": yardstick.share}


def verdict_html(found: Verdict) -> str:
    """The sentences and their numbers; explorer.js writes the same."""
    numbers = cards(Sentence(*one) for one in found.numbers)
    return f'<div id="verdict" aria-live="polite"><p class="verdict">{text(found.sentence)}</p>{numbers}</div>'


def table(results: Results, state: State, yardstick: Yardstick) -> str:
    """Each cell is a button that chooses its point."""
    columns, lines = grid(results, state, yardstick)
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in ("sampler", "setting", *columns))
    body = "\n".join(
        f'<tr><th scope="row">{text(sampler)}</th><td>{text(setting)}</td>'
        f"{''.join(_cell(line.get(column), yardstick) for column in columns)}</tr>"
        for (sampler, setting), line in lines.items()
    )
    return f"<table><caption>{text(yardstick.title)}</caption><tr>{head}</tr>\n{body}</table>"


def grid(
    results: Results, state: State, yardstick: Yardstick
) -> tuple[list[str], dict[tuple[str, str], dict[str, Point]]]:
    """(columns, points by row and column): languages and denoisers across; samplers and settings down, AR last."""
    here = rows(results.points, state, yardstick.measures, ("of", "model", "sampler"))
    several = len({point["model"] for point in here}) > 1
    lines: dict[tuple[str, str], dict[str, Point]] = {}
    order = {name: number for number, name in enumerate(dict.fromkeys(point["sampler"] for point in here))}
    columns = {point["number"]: _column(point, several) for point in here}
    for point in sorted(
        here, key=lambda p: (p["kind"] != "mdm", order[p["sampler"]], p["steps"] or 0, p["evaluations"] or 0)
    ):
        name = {"ar": "AR", "text": "the text itself"}.get(point["kind"], point["sampler"] or "-")
        setting = rounds(point) if point["kind"] == "mdm" else ""
        lines.setdefault((name, setting), {})[columns[point["number"]]] = point
    return list(dict.fromkeys(columns.values())), lines


def _column(point: Point, several: bool) -> str:
    return f"{point['of']}, {point['model']}" if several else str(point["of"])


def _cell(point: Point | None, yardstick: Yardstick) -> str:
    if point is None:
        return "<td>-</td>"
    return f'<td><button type="button" data-at="{point["number"]}">{text(said(point, yardstick))}</button></td>'


def packed(points: Sequence[Point]) -> dict[str, Any]:
    """Points as columns; words are indices of a list, numbers have six digits."""
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
