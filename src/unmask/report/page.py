"""A page: one HTML file without requests, in which each text and each row is written once for its choices.

The style shows the parts of the chosen options (:has(option:checked)), the figures bind the same controls, and no
script is ours but the player's. Each figure is there as a drawing, too, for print and for readers without JavaScript.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from html import escape
from importlib.metadata import version
from importlib.resources import files
from itertools import product
from pathlib import Path
from string import Template
from typing import Any

import vl_convert

from unmask.core.errors import UnmaskError
from unmask.core.files import atomic
from unmask.languages import PRESETS
from unmask.report import figures, studies
from unmask.report.charts import DARK, LIGHT, WIDTH, Drawn, Maker, svg
from unmask.report.metrics import RIVALS, Fields, Metric
from unmask.report.player import Run, assets
from unmask.report.player import fragment as player
from unmask.report.results import IDEAL, Point, Results
from unmask.report.verdict import USUAL, Shown, grid, usable, value_text, verdict
from unmask.report.view import Card
from unmask.samplers import generate

FIGURES: dict[str, Maker] = {
    "ceilings": studies.STUDIES["ceilings"],
    **{name: one for name, one in figures.CURVES.items() if not name.endswith("-by-sampler")},
    "growth-networks": figures.noises,
    "lengths": figures.lengths,
    **figures.GROWTH,
    "front": figures.front,
    "learning": figures.learning,
    "training": figures.training,
    **{name: one for name, one in studies.STUDIES.items() if name not in ("ceilings", "schedule-optimal")},
}
MORE = {name: one for name, one in figures.CURVES.items() if name not in FIGURES} | {  # where a view names them
    "schedule-optimal": studies.STUDIES["schedule-optimal"]
}
MOST_NAMES = 3  # in the title, and messages of trainings
LONGEST = 32  # characters of a directory in a table
WHOLE = "\n/* whole */"  # the end of a complete script
PLAYED, MOST_LENGTH, MOST_STEPS = 6, 128, 64  # sequences of a player; its most tokens and steps
EXAMPLE = {"sampler": USUAL, "steps": 10, "length": 32}
EMBED = """for (const data of document.querySelectorAll("script[data-figure]"))
  vegaEmbed("#" + data.dataset.figure, JSON.parse(data.textContent), { ast: false });"""


def drawn(shown: Shown) -> dict[str, Drawn]:
    """The figures of the view, in its order (default: all usual ones), that have data."""
    names = shown.view.figures or list(FIGURES)
    figures = {name: (FIGURES | MORE)[name](shown) for name in names}
    return {name: one for name, one in figures.items() if one is not None}


def page(
    shown: Shown,
    figures: Mapping[str, Drawn],
    origin: Mapping[str, Any],
    beside: Iterable[str] = (),
    out: Path | None = None,
    first: str = "",
    messages: Sequence[Card] = (),
) -> bytes:
    """first: HTML above the figures; messages: cards besides those of the view; beside: names of files next to it."""
    results, (head, _, notes) = shown.results, shown.view.parts
    messages = [*messages, *shown.view.cards(results, shown.state)]
    parts = [
        Template(head).safe_substitute(about=escape(about(shown))),
        missing(results.missing),
        result(shown, messages),
        first,
        section(figures),
        watch(shown),
        tables(shown),
        networks(results, out),
        "".join(
            f"<h3>{escape(who)}</h3>\n<pre class='text'>{escape(text)}</pre>" for who, text in results.examples.items()
        ),
        notes.replace("$languages", described(results)),
        f"<h2>Reproduce this page</h2>\n<p>Data: {escape(origin_of(results, origin))} Created with:</p>",
        f"<p><code>{escape(command(origin['command']))}</code></p>\n<p>Files next to this page: {listed(beside)}</p>",
    ]
    colours = "".join(
        f"--c{n}: light-dark({light}, {dark}); " for n, (light, dark) in enumerate(zip(LIGHT, DARK, strict=True))
    )
    html = Template(files("unmask.report").joinpath("page.html").read_text("utf-8")).substitute(
        title=escape(f"unmask: {shown.view.name}"),
        colours=colours,
        rules=rules(shown),
        body="\n".join(part for part in parts if part),
        library=library(),
    )
    return html.encode(errors="backslashreplace")  # a path may not be text


def about(shown: Shown) -> str:
    """The languages in a title."""
    names = shown.languages
    more = len(names) - MOST_NAMES
    return (
        ", ".join(names if more <= 0 else names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        or "no data yet"
    )


def choices(shown: Shown) -> dict[str, dict[str, str]]:
    """The controls: words by value."""
    everyone = {"all": "all"} if shown.language == "all" else {}
    names = {str(n): shown.named(values) for n, values in enumerate(shown.settings)}
    notes = {str(n): "" if usable(one["sampler"]) else " (reference)" for n, one in enumerate(shown.settings)}
    return {
        "language": everyone | {str(n): of for n, of in enumerate(shown.languages)},
        "at": {n: name + notes[n] for n, name in names.items()},
        "target": {f"{t:g}": f"{shown.metric.words} {shown.metric.shown(t)}" for t in shown.metric.targets},
        "metric": {one.name: one.title.partition(": ")[2] or one.title for one in shown.metrics},
    }


def result(shown: Shown, messages: Sequence[Card]) -> str:
    """The messages, the controls, and the verdict for each choice; for all languages the messages replace it."""
    start = {"language": shown.language, "at": str(shown.at), "metric": shown.metric.name}
    start["target"] = f"{shown.metric.target or 0:g}"
    labels = {"language": "language or task", "at": "setting", "target": "target", "metric": "metric of cost and table"}
    boxes = "".join(select(name, labels[name], options, start[name]) for name, options in choices(shown).items())
    bar = f'<div class="controls" role="group" aria-label="Choices">{boxes}</div>'
    messages_html = cards(messages)
    if not shown.metrics:
        return messages_html + bar
    first, inside = (
        (messages_html, "") if shown.language != "all" else ("", f'<div data-language="all">{messages_html}</div>')
    )
    return f'{first}{bar}\n<section aria-live="polite" aria-label="The result">{inside}{verdicts(shown)}</section>'


def select(name: str, label: str, options: Mapping[str, str], chosen: str) -> str:
    items = "".join(
        f'<option value="{escape(value)}"{" selected" * (value == chosen)}>{escape(words)}</option>'
        for value, words in options.items()
    )
    hidden = " hidden" * (len(options) < 2)
    return f'<label{hidden}>{label} <select id="{name}" autocomplete="off">{items}</select></label>'


def verdicts(shown: Shown) -> str:
    """The verdict for each language, setting and target; settings that differ in the sampler share one."""
    written: dict[tuple[Any, ...], list[str]] = {}
    samplers: dict[tuple[Any, ...], dict[str, list[str]]] = {}
    for (number, of), (at, values) in product(enumerate(shown.languages), enumerate(shown.settings)):
        group = (of, *(value for name, value in values.items() if name not in RIVALS))
        written.setdefault(group, []).append(f"{number}.{at}")
        samplers.setdefault(group, {}).setdefault(values["sampler"], []).append(f"{number}.{at}")
    parts = []
    for (group, tokens), target in product(written.items(), shown.metric.targets or (None,)):
        number, at = tokens[0].split(".")
        state = shown.settings[int(at)] | {"of": shown.languages[int(number)]}
        own = verdict(shown.results, shown.metric, state, target)
        notes = ""
        for sampler, words in own.others.items():
            choices = " ".join(samplers[group].get(sampler, ()))
            notes += "".join(f"<span {one}>{escape(words)}</span>" for one in chosen(choices))
        words = f'<p class="verdict">{escape(own.words)}{notes}</p>{cards(own.numbers)}'
        of_target = "" if target is None else f' data-target="{target:g}"'
        parts += [f"<div {one}{of_target}>{words}</div>" for one in chosen(" ".join(tokens))]
    return "\n".join(parts)


def cards(messages: Sequence[Card]) -> str:
    items = "".join(
        f"<li><strong>{escape(number, False)}</strong>{escape(words, False)}</li>" for number, words in messages
    )
    return f'<ol class="see">{items}</ol>' if items else ""


def section(drawn: Mapping[str, Drawn]) -> str:
    """The figures, each under its title and the sentences of its choices."""
    return f'<section class="figures" aria-label="Figures">{"".join(map(figure, drawn, drawn.values()))}</section>'


def figure(name: str, one: Drawn) -> str:
    picture = svg(one.definition | {"width": WIDTH}).replace("<svg ", '<svg aria-hidden="true" ', 1)
    definition = json.dumps(one.definition, separators=(",", ":")).replace("<", "\\u003c")  # no name ends a script
    sentences = ""
    for words, choices, metric in one.sentences:
        of_metric = f' data-metric="{metric}"' if metric else ""
        for keys in [""] if choices is None else chosen(choices):
            sentences += f'<p class="says" {keys}{of_metric}>{escape(words, False)}</p>'
    caption = f'<figcaption class="note">{escape(one.caption, False)}</figcaption>' if one.caption else ""
    return f"""<figure id="figure-{name}"><h2>{escape(one.title, False)}</h2>{sentences}
<p class="note">{escape(one.under, False)}</p><div class="plot" id="{name}">{picture}</div>
<script type="application/json" data-figure="{name}">{definition}</script>{caption}</figure>
"""


def chosen(choices: str) -> list[str]:
    """The attributes of elements for these choices: an element for all languages with the same settings."""
    settings: dict[str, list[str]] = {}
    for language, at in (choice.split(".") for choice in choices.split()):
        settings.setdefault(language, []).append(at)
    languages: dict[str, list[str]] = {}
    for language, own in settings.items():
        languages.setdefault(" ".join(own), []).append(language)
    return [f'data-language="{" ".join(own)}" data-at="{at}"' for at, own in languages.items()]


def rules(shown: Shown) -> str:
    """An element with data-NAME="..." is on view if one of these is the choice."""
    hide, bold = [], []
    for name, options in choices(shown).items():
        for value in options:
            body = f'body:has(#{name} option[value="{value}"]:checked)'
            hide.append(f'{body} [data-{name}]:not([data-{name}~="{value}"])')
            bold += [f'{body} [data-column="{value}"]'] if name == "language" else []
    return f"{','.join(hide)} {{ display: none }}\n{','.join(bold)} {{ background: var(--card); font-weight: 650 }}"


def tables(shown: Shown) -> str:
    """The numbers: a table for each metric, with the samplers of a setting in rows, and languages in columns."""
    if not shown.metrics:
        return ""
    note = "With 95% intervals. They follow the setting and the metric."
    return "\n".join(
        ["<h2>The numbers</h2>", f'<p class="note">{note}</p>', *(table(shown, one) for one in shown.metrics)]
    )


def table(shown: Shown, metric: Metric) -> str:
    names = ("length", "batch", "setting")
    groups = [
        dict(zip(names, one, strict=True))
        for one in dict.fromkeys(tuple(p[n] for n in names) for p in shown.masked(metric))
    ]
    numbers = shown.nearest(groups)
    parts = []
    for number, values in enumerate(groups):
        tokens = " ".join(f"{of}.{at}" for (of, at), n in numbers.items() if n == number)
        columns, lines = grid(shown.results, values, metric)
        keys = [
            f'data-column="{shown.languages.index(column.rpartition(", ")[0] or column)}"'
            if (column.rpartition(", ")[0] or column) in shown.languages
            else ""
            for column in columns
        ]
        head = "".join(f'<th scope="col" {key}>{escape(name)}</th>' for name, key in zip(columns, keys, strict=True))
        body = "\n".join(line(row, [cells.get(name) for name in columns], keys, metric) for row, cells in lines.items())
        words = escape(", ".join(part for part in (metric.title, shown.named(values)) if part))
        head = (
            f'<tr><th scope="col">sampler</th><th scope="col">setting</th><th scope="col">model calls</th>{head}</tr>'
        )
        rows = f"<caption>{words}</caption>\n{head}\n{body}"
        parts += [scrolled(rows, words, one) for one in chosen(tokens)]
    return f'<div data-metric="{metric.name}">{"".join(parts)}</div>'


def line(row: tuple[str, str], points: Sequence[Point | None], keys: Sequence[str], metric: Metric) -> str:
    sampler, setting = (escape(one) for one in row)
    calls = [point["model_calls"] for point in points if point and point["model_calls"] is not None]
    cost = f"{sum(calls) / len(calls):.4g}" if calls else "-"
    cells = ""
    for point, key in zip(points, keys, strict=True):
        value, bracket, interval = ("-", "", "") if point is None else escape(value_text(point, metric)).partition(" [")
        cells += f"<td {key}>{value}{f'<small>[{interval}</small>' if bracket else ''}</td>"
    return f'<tr><th scope="row">{sampler}</th><td>{setting}</td><td>{cost}</td>{cells}</tr>'


def scrolled(rows: str, label: str, more: str = "") -> str:
    """A table that scrolls by keys, too, on a narrow screen."""
    return f'<div class="table" tabindex="0" role="region" aria-label="{label}" {more}><table>{rows}</table></div>'


def watch(shown: Shown) -> str:
    """A player of a measured setting of a known language; of an example, where all settings are too long."""
    settings: list[tuple[str, Fields, str]] = [(p["of"], p, "A setting of this page") for p in short(shown)]
    settings += [(of, EXAMPLE, "An example, not a setting of this page") for of in shown.results.choices("of")]
    for of, values, what in settings:
        if (language := shown.results.language(of)) is None:
            continue
        length, sampler, steps = language.nearest_lengths(values["length"])[0], values["sampler"], values["steps"]
        start: dict[str, Any] = {"length": length, "rows": PLAYED, "seed": 0}
        try:
            few = generate(language, sampler=sampler, steps=steps, **start)
        except UnmaskError:
            continue  # a sampler of the store that is not here
        one = generate(language, sampler="autoregressive", steps=length, **start)
        runs = [
            Run(f"{sampler}, {steps} steps", few.trace(), language),
            Run(f"AR, {length} steps", one.trace(), language),
        ]
        note = f"{what}: {of}, {length} tokens, {sampler}, {steps} steps."
        begin = f"<h2>See one sequence step by step</h2>\n<p class='note'>{escape(note)}</p>"
        return f"{begin}\n{player(runs, 'watch')}\n{assets()}"
    return ""


def short(shown: Shown) -> list[Point]:
    """Measured settings with errors that a player can show; nearest to the first state, then to an SER of 50%."""
    points = [
        p
        for p in shown.results.of("ser")
        if (p["kind"], p["model"]) == ("mdm", IDEAL) and p["steps"] and p["steps"] <= MOST_STEPS
        if p["value"] > 0.0 and (p["length"] or MOST_LENGTH + 1) <= MOST_LENGTH and usable(p["sampler"])
    ]
    near = ("of", "sampler", "length")
    return sorted(points, key=lambda p: (*(p[name] != shown.state[name] for name in near), abs(p["value"] - 0.5)))


def trained(results: Results) -> list[Card]:
    """The final validation loss of each network, for the first few."""
    sentences = []
    for one in [one for one in results.trainings if one.journal][:MOST_NAMES]:
        last = one.journal[-1]
        loss = f"The loss is {last.validation:.4f} nats per token"
        after = f"Validation loss after {one.steps} training steps ({last.seconds:.0f} s). {loss}"
        if one.entropy:
            number = f"{one.name}: {100 * (last.validation / one.entropy - 1):.2g}% above the entropy"
            after += f"; the entropy of the language, {one.entropy:.4f}, is the lower limit"
        else:
            number = f"{one.name}: {last.validation:.3g} nats per token"
        sentences.append((number, f"{after}."))
    return sentences


def networks(results: Results, out: Path | None) -> str:
    """A table of the trained networks: loss, and a link from OUT to their directories."""
    rows = []
    for one in [one for one in results.trainings if one.journal]:
        last = one.journal[-1]
        over = "-" if not one.entropy else f"{100 * (last.validation / one.entropy - 1):+.2f}%"
        path = os.path.relpath(one.place, out) if out is not None else str(one.place)
        short = path if len(path) <= LONGEST else f"..{path[-LONGEST:]}"
        link = f'<a href="{escape(path)}/losses.csv"><code>{escape(short)}</code></a>'
        cells = (f"{last.validation:.4f}", over, f"{one.steps}", f"{last.seconds:.0f} s", link)
        rows.append(f'<tr><th scope="row">{escape(one.name)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>')
    if not rows:
        return ""
    heads = ("network", "loss, nats per token", "above the entropy", "training steps", "time", "directory")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    note = "For <code>unmask generate --model</code> and <code>unmask model learning</code>."
    body = scrolled(f"<tr>{head}</tr>\n" + "\n".join(rows), "Trained networks")
    return f'<h2>Trained networks</h2>\n<p class="note">{note}</p>\n{body}'


def described(results: Results) -> str:
    """Rows of a table: each known language and its description."""
    names = {of: of.partition("(")[0] for of in results.choices("of")}
    known = {of: PRESETS.entry(name).about for of, name in names.items() if name in PRESETS.makers}
    return "\n".join(f"<tr><th>{escape(of)}</th><td>{escape(words)}.</td></tr>" for of, words in known.items())


def missing(messages: Sequence[str]) -> str:
    """A box with unmeasured and failed cells."""
    items = "".join(f"<li>{escape(one, False)}</li>" for one in messages)
    box = f'<div class="missing" role="note"><strong>Results are missing.</strong><ul>{items}</ul></div>'
    return box if messages else ""


def origin_of(results: Results, origin: Mapping[str, Any]) -> str:
    versions = origin.get("versions", {})
    parts = [", ".join(results.sources), f"{results.work:.0f} s of compute" if results.work else ""]
    parts += [str(origin.get("machine") or "")]
    parts += [f"{name} {versions[name]}" for name in ("unmask", "torch", "numba") if name in versions]
    return ", ".join(part for part in parts if part) + "."


def command(words: Sequence[str]) -> str:
    name = Path(words[0]).name
    return shlex.join(["unmask" if name == "__main__.py" else name, *words[1:]])


def listed(names: Iterable[str]) -> str:
    """Links to files, grouped by stem."""
    stems: dict[str, list[str]] = {}
    for name in sorted(names):
        stems.setdefault(name.rpartition(".")[0], []).append(f'<a href="{name}">{name.rpartition(".")[2]}</a>')
    return "; ".join(f"{stem} {' '.join(links)}" for stem, links in stems.items())


@cache
def library() -> str:
    """Vega, Vega-Lite and vegaEmbed as one script, cached next to the compiled sources if these are writable."""
    cached = Path(__file__).parent / "__pycache__" / f"vega-page-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        if (script := cached.read_text("utf-8")).endswith(WHOLE):
            return script
    script = str(vl_convert.javascript_bundle(EMBED)) + WHOLE
    with suppress(OSError, UnmaskError), atomic(cached) as file:
        file.write(script.encode())
    return script
