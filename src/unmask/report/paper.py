"""The paper claim by claim, as a page and as a document: its claim, our measurement, and a verdict."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from unmask.core.estimates import Estimate
from unmask.experiments.board.table import Table
from unmask.experiments.jobs.recipe import Recipe
from unmask.experiments.paper.items import ITEMS, chosen, recipe
from unmask.experiments.paper.judge import VERDICTS, Claim, Finding, Size
from unmask.experiments.paper.kept import FILE, Reproduction, of_sweep
from unmask.report import frame
from unmask.report.explorer.chosen import State
from unmask.report.explorer.figure import Figure
from unmask.report.explorer.fragment import Explorer
from unmask.report.frame import PAGE, Definition, Sentence
from unmask.report.publishing import Made, Page
from unmask.report.results import Results, points

SENTENCES = {  # of a verdict: after its number, and its meaning
    "agrees": ("agree", "The measurements agree with the paper."),
    "differs": ("differ", "The measurements differ from the paper; each claim gives the reason."),
    "not tested": ("not tested", "They need weights, a GPU or more rows."),
}
INTRODUCTION = """
"The paper" is Feng et al., "Theoretical Benefit and Limitation of Diffusion Language Model" (arXiv 2502.09622, NeurIPS
2025), with its poster and the rebuttals of its reviews; its code is not public. This page lists each of its claims in
short, the measurements of `unmask`, a verdict, and a command that repeats the measurement. Verdicts are computed from
records, never written by hand. The denoiser is the ideal one unless a claim names another. Our copy of the paper has
lost its inline formulas; reconstructions are marked.
"""
DRAWN: dict[str, dict[str, State]] = {  # the figures of the explorer for an item, with their settings
    "figure-1": {"ser-by-language": {}, "generative-perplexity-by-language": {"setting": "pruned=False"}},
    "length": {"lengths": {}},
    "figure-2-left": {"generative-perplexity-absolute-by-language": {}},
    "figure-2-right": {"answer-error-by-language": {}},
    "theorem-4.4": {"lengths": {}},
}
WIDE = 116  # characters of a line of the document
Found = list[tuple[Claim, Finding]]


def page(names: Sequence[str]) -> Page[Size, Reproduction]:
    """The page that `publish` makes; names: the items to measure, all if there are none."""
    return Page(PAGE, partial(_recipe, names), of_sweep, contents)


def _recipe(names: Sequence[str], size: Size) -> Recipe:
    return recipe(chosen(names), size)


def contents(made: Reproduction, size: Size, about: Made) -> dict[str, bytes]:
    """All files by name."""
    return {FILE: made.to_json(dict(about.origin)), PAGE: drawn(made, about.origin)}


def counts(found: Mapping[str, Found]) -> dict[str, Counter[str]]:
    """For each item, the number of claims with each verdict."""
    return {name: Counter(finding.verdict for _, finding in own) for name, own in found.items()}


def tables(made: Reproduction) -> list[Table]:
    """The counts, for the terminal."""
    found = counts(made.findings())
    rows = [(name, [(f"{own[verdict]}", "") for verdict in VERDICTS]) for name, own in found.items()]
    return [Table("Claims by item", ["item", *VERDICTS], rows)]


def totals(made: Reproduction) -> dict[str, int]:
    whole = sum(counts(made.findings()).values(), Counter())
    return {verdict: whole[verdict] for verdict in VERDICTS}


def drawn(made: Reproduction, origin: Mapping[str, Any]) -> bytes:
    """The page."""
    found = made.findings()
    sentences = [
        Sentence(f"{count} {SENTENCES[verdict][0]}", SENTENCES[verdict][1]) for verdict, count in totals(made).items()
    ]
    return frame.page(
        "unmask paper: claim by claim",
        "paper.html",
        origin,
        [FILE],
        sentences,
        contents="\n".join(_entry(name, own) for name, own in counts(found).items()),
        differing="\n".join(_differing(claim, finding) for claim, finding in _differs(found)),
        items="\n".join(_item(name, own, figures(made, name)) for name, own in found.items()),
        size=made.size,
        seconds=f"{made.seconds:.0f}",
    )


def _entry(name: str, own: Counter[str]) -> str:
    """A line of the table of contents."""
    numbers = "".join(f"<td>{own[verdict] or ''}</td>" for verdict in VERDICTS)
    about = f'<a href="#{name}">{name}</a><small>{frame.text(ITEMS[name].about)}</small>'
    return f'<tr><th scope="row">{about}</th>{numbers}</tr>'


def _differs(found: Mapping[str, Found]) -> Found:
    return [(claim, finding) for own in found.values() for claim, finding in own if finding.verdict == "differs"]


def _differing(claim: Claim, finding: Finding) -> str:
    link = f'<a href="#{claim.name}">{frame.text(claim.where)}</a>'
    return f"<dt>{link}</dt><dd>Paper: {frame.text(claim.words)}</dd><dd>Here: {frame.text(finding.why)}</dd>"


def figures(made: Reproduction, item: str) -> list[tuple[Figure, Definition]]:
    """The figures of an item, with the records of its cells; a language at one number of steps draws no line."""
    wanted = DRAWN.get(item, {})
    records = [record | {"key": ""} for record in made.of(item) if record.get("language") != "paper-hmm"]
    explorer = Explorer(Results(points(records if wanted else [])))
    return [(one, explorer.drawn(one, **wanted[one.name])) for one in explorer.figures if one.name in wanted]


def _item(name: str, own: Found, drawn: Sequence[tuple[Figure, Definition]]) -> str:
    shown = [
        frame.figure(f"{name}-{one.name}".replace(".", "-"), one.title, one.under, one.caption, definition, definition)
        for one, definition in drawn
    ]
    above = f'<div class="figures">\n{"".join(shown)}\n</div>' if shown else ""
    claims = "\n".join(_claim(claim, finding) for claim, finding in own)
    return f'<h2 id="{name}">{name}</h2>\n<p class="note">{frame.text(ITEMS[name].about)}</p>\n{above}\n{claims}'


def _claim(claim: Claim, finding: Finding) -> str:
    """A claim that opens for its measurements; it is open where it differs."""
    ours = "".join(f"<tr><th>{frame.text(name)}</th><td>{frame.text(_plain(e))}</td></tr>" for name, e in finding.ours)
    theirs = f'<p class="note">The paper\'s figure: {frame.text(claim.figure)}</p>' if claim.figure else ""
    return f"""<details class="claim {finding.verdict}" id="{claim.name}"{" open" * (finding.verdict == "differs")}>
<summary><b>{finding.verdict}</b> {frame.text(claim.words)} <small>{frame.text(claim.where)}</small></summary>
{theirs}
{f'<div class="table"><table class="words">{ours}</table></div>' if ours else ""}
<p>{frame.text(finding.why)}</p>
<p><code>{frame.text(claim.command)}</code></p>
</details>"""


def markdown(made: Reproduction, origin: Mapping[str, Any], source: str) -> str:
    """The document, from the same records; source: their file."""
    found = made.findings()
    whole = totals(made)
    command = shlex.join(["unmask", *origin["command"][1:]])
    lines = ["# The paper, claim by claim", "", *_filled(" ".join(INTRODUCTION.split())), ""]
    verdicts = ", ".join(f"{count} {SENTENCES[verdict][0]}" for verdict, count in whole.items())
    lines += _filled(
        f"**{sum(whole.values())} claims: {verdicts}.** A claim that is not tested needs weights, a GPU or more rows. "
        f"Size {made.size}, {made.seconds:.0f} seconds of work on {origin['machine']} by the code {origin['code']}, "
        f"with `{command}`. Generated from {source} by `unmask paper report`."
    )
    lines += ["", f"| item | {' | '.join(VERDICTS)} |", "|---|---|---|---|"]
    for name, own in counts(found).items():
        lines.append(f"| [{name}](#{_anchor(name)}) | {' | '.join(str(own[verdict]) for verdict in VERDICTS)} |")
    if differing := _differs(found):
        lines += ["", "Where it differs:", ""]
    for claim, finding in differing:
        lines += _filled(f"- [{claim.where}](#{_anchor(_heading(claim))})", "  ")
        lines += [
            f"  {line}"
            for part in (f"- Paper: {claim.words}", f"- Here: {finding.why}")
            for line in _filled(part, "  ")
        ]
    for name, own_claims in found.items():
        lines += ["", f"## {name}", "", *_filled(f"{ITEMS[name].about}."[:1].upper() + f"{ITEMS[name].about}."[1:])]
        for claim, finding in own_claims:
            lines += ["", f"### {_heading(claim)}", ""]
            theirs = f" The paper's figure: {claim.figure}." if claim.figure else ""
            lines += _filled(f"*{finding.verdict}*: {claim.words}{theirs}")
            if finding.ours:
                lines.append("")
            for what, estimate in finding.ours:
                lines += _filled(f"- {what}: {_plain(estimate)}", "  ")
            lines += ["", *_filled(finding.why), "", *_filled(f"`{claim.command}`")]
    return "\n".join(lines) + "\n"


def _heading(claim: Claim) -> str:
    return f"{claim.name}: {claim.where}"


def _plain(estimate: Estimate) -> str:
    """Without an interval that is a point."""
    return f"{estimate.value:.4g}" if not estimate.exact and estimate.low == estimate.high else str(estimate)


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _anchor(heading: str) -> str:
    """The anchor that GitHub and Sphinx give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def listing(made: Reproduction) -> list[dict[str, Any]]:
    """For programs: each claim with its verdict, our values and the command."""
    fields = ("name", "where", "words", "command", "figure")
    return [
        {name: getattr(claim, name) for name in fields} | {"item": item} | finding.to_dict()
        for item, own in made.findings().items()
        for claim, finding in own
    ]
