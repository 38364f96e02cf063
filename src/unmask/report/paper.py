"""The paper claim by claim, as a page and as a document: what it says, our figure beside it, and an honest word."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from unmask.core.estimates import Estimate
from unmask.experiments.board.table import Table
from unmask.experiments.jobs.recipe import Recipe
from unmask.experiments.paper.claims import VERDICTS, Claim, Finding, Size
from unmask.experiments.paper.items import ITEMS, chosen, recipe
from unmask.experiments.paper.kept import FILE, Reproduction, of_sweep
from unmask.report import frame
from unmask.report.explorer.chosen import State
from unmask.report.explorer.figure import Figure
from unmask.report.explorer.fragment import Explorer
from unmask.report.frame import PAGE, Definition, Sentence
from unmask.report.publishing import Made, Page
from unmask.report.results import Results, points

SAY = {"agrees": "agree", "differs": "differ", "needs": "need"}
MEANS = {
    "agrees": "What is measured is as the paper says",
    "differs": "What is measured is otherwise, and why stands beside it",
    "needs": "What decides is not here: weights, a GPU, or more rows",
}
INTRODUCTION = """
"The paper" is Feng et al., "Theoretical Benefit and Limitation of Diffusion Language Model" (arXiv 2502.09622, NeurIPS
2025), with its poster and the rebuttals of its reviews; no code of it is public. Each of its claims stands here in
short, with what `unmask` measures beside it, whether that agrees, and the command that makes it. Verdicts are computed
from records, none is written by hand; where nothing is said of the denoiser it is the ideal one. Our copy of the paper
has lost its inline formulas: what is reconstructed says so.
"""
DRAWN: dict[str, dict[str, State]] = {  # of an item: which figures of the explorer, and what is chosen there
    "figure-1": {"ser-by-language": {}, "generative-perplexity-by-language": {"setting": "pruned=False"}},
    "length": {"lengths": {}},
    "figure-2-left": {"generative-perplexity-absolute-by-language": {}},
    "figure-2-right": {"answer-error-by-language": {}},
    "theorem-4.4": {"lengths": {}},
}
WIDE = 116  # characters of a line of the document
Told = list[tuple[Claim, Finding]]


def page(names: Sequence[str]) -> Page[Size, Reproduction]:
    """What `publish` walks; names: the items that are measured, all where there is none."""
    return Page(PAGE, partial(_recipe, names), of_sweep, contents)


def _recipe(names: Sequence[str], size: Size) -> Recipe:
    return recipe(chosen(names), size)


def contents(made: Reproduction, size: Size, about: Made) -> dict[str, bytes]:
    """All files by name."""
    return {FILE: made.to_json(dict(about.origin)), PAGE: drawn(made, about.origin)}


def counts(told: Mapping[str, Told]) -> dict[str, Counter[str]]:
    """Of each item how many of its claims agree, differ and need."""
    return {name: Counter(finding.verdict for _, finding in own) for name, own in told.items()}


def tables(made: Reproduction) -> list[Table]:
    """One, of the counts."""
    found = counts(made.findings())
    rows = [(name, [(f"{own[verdict]}", "") for verdict in VERDICTS]) for name, own in found.items()]
    return [Table("Claims by item", ["item", *VERDICTS], rows)]


def totals(made: Reproduction) -> dict[str, int]:
    whole = sum(counts(made.findings()).values(), Counter())
    return {verdict: whole[verdict] for verdict in VERDICTS}


def drawn(made: Reproduction, origin: Mapping[str, Any]) -> bytes:
    """The page."""
    sentences = [Sentence(f"{count} {SAY[verdict]}", f"{MEANS[verdict]}.") for verdict, count in totals(made).items()]
    return frame.page(
        "unmask paper: claim by claim",
        "paper.html",
        origin,
        [FILE],
        sentences,
        tables(made),
        differing=_differing(made),
        items="\n".join(_item(name, told, figures(made, name)) for name, told in made.findings().items()),
        size=made.size,
        seconds=f"{made.seconds:.0f}",
    )


def _differs(made: Reproduction) -> list[Claim]:
    return [claim for told in made.findings().values() for claim, finding in told if finding.verdict == "differs"]


def _differing(made: Reproduction) -> str:
    entries = [f'<li><a href="#{c.name}">{c.name}</a>: {frame.text(c.words)}</li>' for c in _differs(made)]
    return "\n".join(["<h2>Where it differs</h2>", "<ul>", *entries, "</ul>"]) if entries else ""


def figures(made: Reproduction, item: str) -> list[tuple[Figure, Definition]]:
    """What is drawn of an item, each figure with what was measured for it."""
    wanted = DRAWN.get(item, {})
    explorer = Explorer(Results(points([record | {"key": ""} for record in made.of(item)] if wanted else [])))
    return [(one, explorer.drawn(one, **wanted[one.name])) for one in explorer.figures if one.name in wanted]


def _item(name: str, told: Told, drawn: Sequence[tuple[Figure, Definition]]) -> str:
    shown = [
        frame.figure(f"{name}-{one.name}".replace(".", "-"), one.title, one.under, one.caption, definition, definition)
        for one, definition in drawn
    ]
    above = f'<div class="figures">\n{"".join(shown)}\n</div>' if shown else ""
    claims = "\n".join(_claim(claim, finding) for claim, finding in told)
    return f'<h2 id="{name}">{name}</h2>\n<p class="note">{frame.text(ITEMS[name].about)}</p>\n{above}\n{claims}'


def _claim(claim: Claim, finding: Finding) -> str:
    ours = "".join(f"<tr><th>{frame.text(name)}</th><td>{frame.text(_plain(e))}</td></tr>" for name, e in finding.ours)
    theirs = f'<p class="note">The paper: {frame.text(claim.figure)}</p>' if claim.figure else ""
    return f"""<section class="claim {finding.verdict}" id="{claim.name}">
<h3><span>{finding.verdict}</span> {frame.text(claim.where)}</h3>
<p>{frame.text(claim.words)}</p>
{theirs}
{f'<div class="table"><table class="words">{ours}</table></div>' if ours else ""}
<p>{frame.text(finding.why)}</p>
<p><code>{frame.text(claim.command)}</code></p>
</section>"""


def markdown(made: Reproduction, origin: Mapping[str, Any], source: str) -> str:
    """The document, from the same records; source: the file that keeps them."""
    found = made.findings()
    whole = totals(made)
    command = shlex.join(["unmask", *origin["command"][1:]])
    lines = ["# The paper, claim by claim", "", *_filled(" ".join(INTRODUCTION.split())), ""]
    lines += _filled(
        f"**{sum(whole.values())} claims: {whole['agrees']} agree, {whole['differs']} differ, {whole['needs']} need "
        f"weights, a GPU or more rows.** Size {made.size}, {made.seconds:.0f} seconds of work on {origin['machine']} "
        f"by the code {origin['code']}, with `{command}`. Generated from {source} by `unmask paper report`."
    )
    lines += ["", "| item | agrees | differs | needs |", "|---|---|---|---|"]
    for name, own in counts(found).items():
        lines.append(f"| [{name}](#{_anchor(name)}) | {own['agrees']} | {own['differs']} | {own['needs']} |")
    if differing := _differs(made):
        lines += ["", "Where it differs:", ""]
    for claim in differing:
        lines += _filled(f"- [{claim.name}](#{_anchor(claim.name)}): {claim.words}", "  ")
    for name, told in found.items():
        lines += ["", f"## {name}", "", *_filled(f"{ITEMS[name].about}."[:1].upper() + f"{ITEMS[name].about}."[1:])]
        for claim, finding in told:
            lines += ["", f"### {claim.name}", "", f"*{finding.verdict}*", ""]
            theirs = f" The paper's figure: {claim.figure}." if claim.figure else ""
            lines += _filled(f"{claim.where}: {claim.words}{theirs}")
            if finding.ours:
                lines.append("")
            for what, estimate in finding.ours:
                lines += _filled(f"- {what}: {_plain(estimate)}", "  ")
            lines += ["", *_filled(finding.why), "", *_filled(f"`{claim.command}`")]
    return "\n".join(lines) + "\n"


def _plain(estimate: Estimate) -> str:
    """An interval that is a point is left out."""
    return f"{estimate.value:.4g}" if not estimate.exact and estimate.low == estimate.high else str(estimate)


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _anchor(name: str) -> str:
    return name.replace(".", "").lower()


def listing(made: Reproduction) -> list[dict[str, Any]]:
    """For programs: each claim with its verdict, our figures and the command."""
    return [
        {name: value for name, value in asdict(claim).items() if name != "judge"} | {"item": item} | finding.to_dict()
        for item, told in made.findings().items()
        for claim, finding in told
    ]
