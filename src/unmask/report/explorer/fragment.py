"""The explorer as HTML: controls, verdict, figures, numbers, a player, and all points for the script of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import Any

from altair.utils import schemapi

from unmask.core.errors import UnmaskError
from unmask.languages import Language
from unmask.report import frame
from unmask.report.explorer.chosen import NEAR, USUAL, State, Verdict, pace, rows, start, usable, value_text, verdict
from unmask.report.explorer.figure import (
    HEIGHT,
    LABEL,
    MARGIN,
    NAMES,
    ORACLES,
    Figure,
    Row,
    defined,
    figures,
    filled,
)
from unmask.report.explorer.metrics import COSTS, METRICS, MODEL_CALLS, SECONDS, Metric, known
from unmask.report.explorer.prepare import MOST_NAMES, prepared
from unmask.report.frame import Definition, Sentence, cards, text
from unmask.report.player import Run, assets
from unmask.report.player import fragment as player
from unmask.report.results import CONTROLS, IDEAL, WHO, Point, Results
from unmask.report.view import View
from unmask.samplers import generate

COLUMNS = (*WHO, "measure", "value", "low", "high", "n", "method", *COSTS, "causal", "job")
WORDS = {"of", "model", "kind", "sampler", "schedule", "knob", "setting", "measure", "method", "job"}
POINT = '<div id="point" hidden aria-live="polite"><p class="what"></p><p class="whose"></p><p><code></code></p></div>'
CAPTION = """<p class="note">Figures against N: the x axis is logarithmic. Dotted: AR. Bars: 95% intervals. Lines
without points: theory. Thin line: target.</p>
"""
DIGITS = 6  # of a number in the page
ABOVE = 2  # figures above the verdict of a page with messages
ROWS, LONGEST, MOST = 6, 128, 64  # sequences; most tokens and steps of a player
EXAMPLE, SEED = (32, 10), 0  # tokens and steps
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
    results: Results
    view: View = field(default_factory=View)

    @cached_property
    def metrics(self) -> list[Metric]:
        return known([point["measure"] for point in self.results.points if point["kind"] == "mdm"])

    @cached_property
    def state(self) -> State:
        if not self.metrics:
            return dict.fromkeys(CONTROLS) | {"metric": "ser", "target": METRICS["ser"].target, "cost": MODEL_CALLS}
        first = [one for one in self.metrics if one.name == self.view.state.get("metric")] or self.metrics
        state = start(self.results, first)
        return state | {k: v for k, v in self.view.state.items() if k in CONTROLS and v in self.choices(k)}

    def choices(self, name: str) -> list[Any]:
        """The values of a control that have data of a metric."""
        measures = {measure for one in self.metrics for measure in one.measures}
        points = [p for p in self.results.of(*measures) if p["kind"] == "mdm" and p[name] is not None]
        return list(dict.fromkeys(p[name] for p in points))

    @cached_property
    def cards(self) -> list[Sentence]:
        return self.view.cards(self.results, self.state)

    @cached_property
    def verdict(self) -> Verdict:
        return verdict(self.results, self.state)

    @cached_property
    def _selected(self) -> list[Figure]:
        """The figures of the view, in its order (default: all usual ones)."""
        every = {figure.name: figure for figure in figures()}
        names = self.view.figures or [name for name, figure in every.items() if figure.usual]
        return [every[name] for name in names if every[name].needs(self.results)]

    @cached_property
    def own(self) -> dict[str, list[Row]]:
        """The rows of figures that have no points."""
        return {figure.name: figure.own(self.results) for figure in self._selected if figure.own is not None}

    @cached_property
    def figures(self) -> list[Figure]:
        """The selected figures that have rows to draw."""
        return [one for one in self._selected if one.own is None or len(self.own[one.name]) > 1]

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """A definition per figure; figures with the same `draw` share one."""
        with schemapi.debug_mode(False):  # tests check the schema
            drawn = {draw: defined(draw(self.results)) for draw in {figure.draw for figure in self.figures}}
        return {figure.name: drawn[figure.draw] for figure in self.figures}

    @cached_property
    def begun(self) -> dict[str, Definition]:
        """Each figure in the first state of the page."""
        return {figure.name: self.drawn(figure) for figure in self.figures}

    def drawn(self, figure: Figure, **choice: Any) -> Definition:
        """The figure in the first state of the page, with these choices."""
        state = self.state | choice
        shown, around, metric = prepared(figure, self.results, state, self.own.get(figure.name, ()))
        definition = self.definitions.get(figure.name) or defined(figure.draw(self.results))
        return filled(definition, shown, around | {"target": state["target"] or 0.0, "share": metric.share})

    def drawings(self) -> dict[str, Definition]:
        """Each figure for a file without a page."""
        return {
            figure.name: frame.alone(self.begun[figure.name], frame.heading(figure.title, figure.under))
            for figure in self.figures
        }

    def parts(self) -> dict[str, str]:
        """The fields of a template: `explorer`, and at its end `data`."""
        if not (self.results.points or self.results.trainings or self.results.theory):
            return {"explorer": "<p class='lead'>No data yet.</p>", "data": ""}
        headline, controls, numbers = "", "", ""
        if self.metrics:
            headline, controls, numbers = verdict_html(self.verdict), self._controls() + POINT, self._numbers()
        above = self._figures("Main figures", self.figures[:ABOVE])
        below = self._figures("More figures", self.figures[ABOVE:], once=CAPTION in above)
        first = [controls, above, headline] if self.cards else [headline, controls, above]
        body = "\n".join(part for part in [*first, watch(self.results, self.state), below, numbers] if part)
        return {"explorer": f'<section class="explorer">{body}</section>', "data": self._data()}

    def _figures(self, title: str, figures: Sequence[Figure], once: bool = False) -> str:
        """A group of figures with its heading; once: the caption of curves is above already."""
        if not figures:
            return ""
        caption = CAPTION * (not once and any(figure.prepare == "curves" for figure in figures))
        return "\n".join([f'<h2>{title}</h2>\n{caption}<div class="figures">', *map(self._figure, figures), "</div>"])

    def _figure(self, figure: Figure) -> str:
        drawing = frame.hidden(frame.svg(self.begun[figure.name]))
        title, under = text(figure.title), text(figure.under)
        caption = f"\n<figcaption>{figure.caption}</figcaption>" if figure.caption else ""
        return f"""<figure id="figure-{figure.name}"{' class="wide"' if figure.wide else ""}>
<h3>{title}</h3>
<p class="under">{under}</p>
<div class="plot" id="{figure.name}" role="img" aria-label="{title}: {under}">{drawing}</div>
<p class="nothing" hidden>No data for this choice.</p>{caption}
</figure>"""

    def _controls(self) -> str:
        """The controls that have at least two choices; the script disables choices without data."""
        metrics = {one.name: one.title.partition(": ")[2] or one.title for one in self.metrics}
        costs = {name: words for name, words in COSTS.items() if name != SECONDS or self._timed}
        boxes = [_select("metric", "metric", metrics, self.state)]
        boxes.append(
            '<label>target <input type="number" id="control-target" name="target" step="any" '
            'inputmode="decimal"><span id="unit"></span></label>'
        )
        for name, label in CONTROLS.items():
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
        """A table of the chosen metric; explorer.js fills it again."""
        content = table(self.results, self.state, METRICS[self.state["metric"]])
        note = "With 95% intervals. Click a number for its details and the command that measures it again."
        return f'<h2>The numbers</h2>\n<p class="note">{note}</p>\n<div class="table" id="numbers">{content}</div>'

    def _data(self) -> str:
        content = {
            "points": packed(self.results.points),
            "state": self.state,
            "controls": CONTROLS,
            "choices": {name: self.choices(name) for name in CONTROLS},
            "costs": COSTS,
            "oracles": ORACLES,
            "near": NEAR,
            "metrics": {one.name: asdict(one) for one in self.metrics or METRICS.values()},
            "commands": SHOWN,
            "table": f"unmask sweep export {next(iter(self.results.sources), 'DIR')} --out table.csv",
            "frame": {"margin": MARGIN, "names": NAMES, "label": LABEL, "height": HEIGHT},
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
        data = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        script = files("unmask.report").joinpath("explorer/explorer.js").read_text("utf-8")
        return f'<script type="application/json" id="explorer">{data}</script>\n<script>{script}</script>'


def verdict_html(verdict: Verdict) -> str:
    """The sentences and their numbers; explorer.js writes the same."""
    numbers = cards(Sentence(*one) for one in verdict.numbers)
    return f'<div id="verdict" aria-live="polite"><p class="verdict">{text(verdict.sentence)}</p>{numbers}</div>'


def table(results: Results, state: State, metric: Metric) -> str:
    """A table in which each cell is a button that selects its point."""
    columns, lines = grid(results, state, metric)
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in ("sampler", "setting", *columns))
    body = "\n".join(
        f'<tr><th scope="row">{text(sampler)}</th><td>{text(setting)}</td>'
        f"{''.join(_cell(line.get(column), metric) for column in columns)}</tr>"
        for (sampler, setting), line in lines.items()
    )
    return f"<table><caption>{text(metric.title)}</caption><tr>{head}</tr>\n{body}</table>"


def grid(results: Results, state: State, metric: Metric) -> tuple[list[str], dict[tuple[str, str], dict[str, Point]]]:
    """(columns, points by row and column): languages and denoisers across; samplers and settings down, AR last."""
    here = rows(results.points, state, metric.measures, ("of", "model", "sampler"))
    several = len({point["model"] for point in here} - {None}) > 1
    lines: dict[tuple[str, str], dict[str, Point]] = {}
    order = {name: number for number, name in enumerate(dict.fromkeys(point["sampler"] for point in here))}
    columns = {point["number"]: _column(point, several) for point in here}
    here = sorted(here, key=lambda p: (order[p["sampler"]], p["steps"] or 0, p["model_calls"] or 0))
    for point in sorted(here, key=lambda p: p["kind"] != "mdm"):
        name = {"ar": "AR", "text": "the text itself"}.get(point["kind"], point["sampler"] or "-")
        setting = pace(point) if point["kind"] == "mdm" else ""
        lines.setdefault((name, setting), {})[columns[point["number"]]] = point
    return list(dict.fromkeys(columns.values())), lines


def _column(point: Point, several: bool) -> str:
    return f"{point['of']}, {point['model']}" if several and point["model"] else str(point["of"])


def _cell(point: Point | None, metric: Metric) -> str:
    if point is None:
        return "<td>-</td>"
    return f'<td><button type="button" data-at="{point["number"]}">{text(value_text(point, metric))}</button></td>'


def packed(points: Sequence[Point]) -> dict[str, Any]:
    """Points as columns; words are indices of a list, numbers have six digits."""
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        column = [point[name] for point in points]
        if name in WORDS:
            words = list(dict.fromkeys(column))
            index = {word: number for number, word in enumerate(words)}
            columns[name] = {"words": words, "at": [index[word] for word in column]}
        else:
            columns[name] = [None if value is None else _short(value) for value in column]
    return columns


def _short(value: float) -> float | int:
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _select(name: str, label: str, choices: Mapping[str, str], state: State) -> str:
    chosen, options = str(state[name]), ""
    for value, words in choices.items():
        selected = " selected" if value == chosen else ""
        options += f'<option value="{frame.attribute(value)}"{selected}>{text(words)}</option>'
    return f'<label>{label} <select id="control-{name}" name="{name}">{options}</select></label>'


def watch(results: Results, state: State) -> str:
    """A player of a measured setting of a known language; of an example, where all settings are too long."""
    for point in _settings(results, state):
        language = results.language(point["of"])
        if language is not None and (html := _played(language, point, f"A setting of this page: {point['of']}")):
            return html
    for of in results.choices("of"):
        if (language := results.language(of)) is not None:
            length, steps = EXAMPLE
            example = {"sampler": USUAL, "steps": steps, "length": language.nearest_lengths(length)[0]}
            return _played(language, example, f"An example, not a setting of this page: {of}")
    return ""


def _settings(results: Results, state: State) -> list[Point]:
    """Measured settings with errors that are short enough; nearest to the state, then to an SER of 50%."""
    points = [
        p
        for p in results.of("ser")
        if (p["kind"], p["model"], p["knob"]) == ("mdm", IDEAL, None)
        and p["steps"]
        and p["steps"] <= MOST
        and (p["length"] or LONGEST + 1) <= LONGEST
        and p["value"] > 0.0
        and usable(p["sampler"])
    ]
    chosen = ("of", "sampler", "length")
    return sorted(points, key=lambda p: (*(p[name] != state[name] for name in chosen), abs(p["value"] - 0.5)))


def _played(language: Language, setting: Point, title: str) -> str:
    """A player of this setting and AR; empty if the sampler cannot run here."""
    options: dict[str, Any] = {"length": setting["length"], "rows": ROWS, "seed": SEED}
    try:
        few = generate(language, sampler=setting["sampler"], steps=setting["steps"], **options)
        one = generate(language, sampler="autoregressive", steps=setting["length"], **options)
    except UnmaskError:
        return ""
    runs = [
        Run(f"{setting['sampler']}, {setting['steps']} steps", few.trace(), language),
        Run(f"AR, {setting['length']} steps", one.trace(), language),
    ]
    note = f"{title}, {setting['length']} tokens, {setting['sampler']}, {setting['steps']} steps."
    about = f"<p class='note'>{text(note)}</p>"
    return f"<h2>See one sequence step by step</h2>\n{about}\n{player(runs, 'watch')}\n{assets()}"
