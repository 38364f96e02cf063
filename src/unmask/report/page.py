"""A page: one HTML file without requests, in which each text and each row is written once for its choices.

The style shows the parts of the chosen options (:has(option:checked)), and the figures bind the same controls. Each
figure is there as a drawing, too, for print and for readers without JavaScript.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from html import escape
from importlib.metadata import version
from importlib.resources import files
from itertools import count, product, starmap
from pathlib import Path
from string import Template
from typing import Any

from unmask.core.entries import grouped, picked, several
from unmask.core.errors import UnmaskError, listed, needed
from unmask.core.files import atomic
from unmask.languages import PRESETS
from unmask.report.answers import answered
from unmask.report.charts import DARK, LIGHT, WIDTH, Choice, Drawn, svg
from unmask.report.metrics import Card
from unmask.report.player import assets, embedded, play
from unmask.report.results import Results
from unmask.report.select import SHARED, key_of
from unmask.report.verdict import Shown, usable, verdict

with needed("pages", "a page"):
    import vl_convert

MOST_NAMES = 3  # in the title
WHOLE = "\n/* whole */"  # the end of a complete script
EMBED = """for (const data of document.querySelectorAll("script[data-figure]"))
  vegaEmbed("#" + data.dataset.figure, JSON.parse(data.textContent), { ast: false });"""


def page(
    shown: Shown,
    figures: Mapping[str, Drawn],
    origin: Mapping[str, Any],
    beside: Iterable[str] = (),
    first: str = "",
    messages: Sequence[Card] = (),
) -> bytes:
    """first: HTML above the figures; messages: cards besides those of the view; beside: names of files next to it."""
    results, head, notes = shown.results, shown.view.parts[0], shown.view.notes(shown.results, shown.state)
    messages = [*messages, *shown.view.cards(results, shown.state)]

    parts = [Template(head).safe_substitute(about=escape(about(shown)))]
    if results.missing:
        lacking = repeated("<li>{}</li>", results.missing, quote=False)
        parts.append(f'<div class="missing" role="note"><strong>Results are missing.</strong><ul>{lacking}</ul></div>')
    parts += [result(shown, messages), first, section(figures)]

    if shown.view.play:
        parts.append(played(**shown.view.play))
    for who, text in results.examples.items():
        parts.append(f"<h3>{escape(who)}</h3>\n<pre class='text'>{escape(text)}</pre>")
    if results.answers:
        parts.append(answered(shown))

    parts.append(notes.replace("$languages", described(results)))
    parts.append(reproduction(results, origin, beside))
    return document(f"unmask: {shown.view.name}", "\n".join(filter(None, parts)), rules(shown))


def reproduction(results: Results, origin: Mapping[str, Any], beside: Iterable[str]) -> str:
    """How to make the page again."""
    program, *words = origin["command"]
    program = Path(program).name.replace("__main__.py", "unmask")
    command = escape(shlex.join([program, *words]))
    links = ", ".join(map('<a href="{0}">{0}</a>'.format, sorted(beside)))
    data = f"Data: {escape(origin_of(results, origin))} Files next to this page: {links}"
    return f"""<details><summary>Reproduce this page</summary><p><code>{command}</code></p>
<p class='note'>{data}</p></details>"""


def document(title: str, body: str, rules: str = "") -> bytes:
    """A whole page in our style. rules: more of it."""
    colours = "".join(starmap("--c{}: light-dark({}, {}); ".format, zip(count(), LIGHT, DARK, strict=False)))

    html = Template(files("unmask.report").joinpath("page.html").read_text("utf-8")).substitute(
        title=escape(title), colours=colours, rules=rules, body=body, library=library()
    )
    return html.encode(errors="backslashreplace")  # a path may not be text


def about(shown: Shown) -> str:
    """The languages in a title."""
    return listed(shown.languages, MOST_NAMES) or "no data yet"


def choices(shown: Shown) -> dict[str, dict[str, str]]:
    """The controls: words by value."""
    languages = {str(n): of for n, of in enumerate(shown.languages)}
    if shown.language == "all":
        languages = {"all": "all"} | languages

    settings = {}
    for n, values in enumerate(shown.settings):
        settings[str(n)] = shown.named(values)
        if not usable(values["sampler"]):
            settings[str(n)] += " (reference)"

    return {
        "language": languages,
        "at": settings,
        "target": {f"{t:g}": f"{shown.metric.words} {shown.metric.shown(t)}" for t in shown.metric.targets},
        "metric": {one.name: one.title.partition(": ")[2] or one.title for one in shown.metrics},
    }


def result(shown: Shown, messages: Sequence[Card]) -> str:
    """The messages, the controls, and the verdict for each choice; for all languages the messages replace it."""
    target = f"{shown.metric.target or 0:g}"
    start = {"language": shown.language, "at": str(shown.at), "target": target, "metric": shown.metric.name}
    labels = {"language": "language", "at": "setting", "target": "target", "metric": "metric of cost"}
    boxes = "".join(select(name, labels[name], options, start[name]) for name, options in choices(shown).items())
    bar = f'<div class="controls" role="group" aria-label="Choices">{boxes}</div>'
    messages_html = cards(messages)
    if not shown.metrics:
        return messages_html + bar
    first, inside = messages_html, ""
    if shown.language == "all":
        first, inside = "", f'<div data-language="all">{messages_html}</div>'
    return f'{first}{bar}\n<section aria-live="polite" aria-label="The result">{inside}{verdicts(shown)}</section>'


def select(name: str, label: str, options: Mapping[str, str], chosen: str) -> str:
    items = ""
    for value, words in options.items():
        selected = " selected" * (value == chosen)
        items += f'<option value="{escape(value)}"{selected}>{escape(words)}</option>'
    hidden = " hidden" * (len(options) < 2)
    return f'<label{hidden}>{label} <select id="{name}" autocomplete="off">{items}</select></label>'


def verdicts(shown: Shown) -> str:
    """The verdict for each language, setting and target; settings that differ in the sampler share one."""
    written: dict[tuple[Any, ...], list[Choice]] = {}
    for (number, of), (at, values) in product(enumerate(shown.languages), enumerate(shown.settings)):
        group = key_of(values | {"of": of}, *SHARED)
        written.setdefault(group, []).append((str(number), at))

    parts = []
    for alike, target in product(written.values(), shown.metric.targets or (None,)):
        number, at = alike[0]
        state = shown.settings[at] | {"of": shown.languages[int(number)]}

        own = verdict(shown.results, shown.metric, state, target)
        words = f'<p class="verdict">{escape(own.sentence)}</p>{cards(own.numbers)}'
        of_target = ""
        if target is not None:
            of_target = f' data-target="{target:g}"'
        for one in chosen(alike):
            parts.append(f"<div {one}{of_target}>{words}</div>")

    return "\n".join(parts)


def cards(messages: Sequence[Card]) -> str:
    if not messages:
        return ""
    items = repeated("<li><strong>{}</strong>{}</li>", messages, quote=False)
    linked = re.sub(r"(Theorem) (\d\.\d)", r'<a href="#theorem-\2">\1 \2</a>', items)
    return f'<ol class="see">{linked}</ol>'


def repeated(form: str, rows: Iterable[str | tuple[str, ...]], quote: bool = True) -> str:
    """The form for each row, with its texts as text of HTML. quote: also quotation marks."""
    escaped = partial(escape, quote=quote)
    return "".join(form.format(*map(escaped, several(row))) for row in rows)


def played(source: str, **how: Any) -> str:
    """A sequence of a language with its first error, and beside it one without."""
    own = play(source, **how)
    words = f"{source}, {own.table()[1][0]} and {own.table()[2][0]}, with the same random numbers."
    return f"<h2>See one sequence fail</h2><p class='note'>{words}</p>{assets()}{embedded(own.runs, own.row)}"


def section(drawn: Mapping[str, Drawn]) -> str:
    """The figures, each under its title and the sentences of its choices."""
    return f'<section class="figures" aria-label="Figures">{"".join(map(figure, drawn, drawn.values()))}</section>'


def figure(name: str, one: Drawn) -> str:
    picture = svg(one.definition | {"width": WIDTH}).replace("<svg ", '<svg aria-hidden="true" ', 1)
    definition = json.dumps(one.definition, separators=(",", ":")).replace("<", "\\u003c")  # no name ends a script
    caption = ""
    if one.caption:
        caption = f'<figcaption class="note">{escape(one.caption, False)}</figcaption>'
    return f"""<figure id="figure-{name}"><h2>{escape(one.title, False)}</h2>{sentences_of(one)}
<p class="note">{escape(one.under, False)}</p><div class="plot" id="{name}">{picture}</div>
<script type="application/json" data-figure="{name}">{definition}</script>{caption}</figure>
"""


def sentences_of(one: Drawn) -> str:
    """Each sentence, for its choices."""
    html = ""
    for words, choices, metric in one.sentences:
        of_metric = f' data-metric="{metric}"' * bool(metric)
        for key in chosen(choices):
            html += f'<p class="says" {key}{of_metric}>{escape(words, False)}</p>'
    return html


def chosen(choices: Iterable[Choice] | None) -> list[str]:
    """The attributes of elements for these choices: an element for all languages with the same settings."""
    if choices is None:
        return [""]

    settings: dict[str, list[str]] = {}
    for language, at in choices:
        settings.setdefault(language, []).append(str(at))
    languages = grouped(settings, lambda language: " ".join(settings[language]))
    return [f'data-language="{" ".join(own)}" data-at="{at}"' for at, own in languages.items()]


def rules(shown: Shown) -> str:
    """An element with data-NAME="..." is on view if one of these is the choice."""
    hide = []
    for name, options in choices(shown).items():
        for value in options:
            hide.append(
                f'body:has(#{name} option[value="{value}"]:checked) [data-{name}]:not([data-{name}~="{value}"])'
            )
    return f"{','.join(hide)} {{ display: none }}"


def described(results: Results) -> str:
    """Rows of a table: each known language and its description."""
    rows = []
    for of in results.choices("of"):
        name = of.partition("(")[0]
        if name in PRESETS.makers:
            rows.append(f"<tr><th>{escape(of)}</th><td>{escape(PRESETS.entry(name).about)}.</td></tr>")
    return "\n".join(rows)


def origin_of(results: Results, origin: Mapping[str, Any]) -> str:
    parts = list(results.sources)
    if results.work:
        parts.append(f"{results.work:.0f} s of compute")
    if origin.get("machine"):
        parts.append(str(origin["machine"]))
    versions = picked(origin.get("versions", {}), ("unmask", "torch", "numba"))
    parts += starmap("{} {}".format, versions.items())
    return ", ".join(parts) + "."


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
