"""The paper claim by claim, as a page and as a document: the claim, our measurement, and a verdict."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from unmask.core.estimates import Estimate
from unmask.experiments.board.table import Table
from unmask.experiments.paper.items import ITEMS, chosen, recipe
from unmask.experiments.paper.judge import VERDICTS, Claim, Finding, Size
from unmask.experiments.paper.reproduction import FILE, Reproduction, of_sweep
from unmask.report import frame
from unmask.report.explorer.figure import Figure
from unmask.report.explorer.fragment import Explorer
from unmask.report.frame import PAGE, Definition, Sentence
from unmask.report.publishing import Context, Page
from unmask.report.results import Results, points

SENTENCES = {  # verdict: (the words after its number, its meaning)
    "agrees": ("agree", "The measurements agree with the paper."),
    "differs": ("differ", "The measurements differ from the paper; each claim gives the reason."),
    "not tested": ("not tested", "These claims need weights, a GPU or more rows."),
}
INTRODUCTION = """
"The paper" is Feng et al., "Theoretical Benefit and Limitation of Diffusion Language Model" (arXiv 2502.09622, NeurIPS
2025), with its poster and the rebuttals of its reviews; its code is not public. For each claim this page gives a
summary, a verdict, our measurements, the reason, and a command that repeats the measurement. Verdicts are computed from
records. The denoiser is ideal unless a claim names another. Our copy of the paper has lost its inline formulas;
reconstructions are marked.
"""
DRAWN: dict[str, dict[str, bool]] = {  # the explorer's figures of an item; True: only OPEN languages
    "figure-1": {"ser-by-language": False, "generative-perplexity-by-language": True},
    "length": {"lengths": False},
    "figure-2-left": {"generative-perplexity-absolute-by-language": False},
    "figure-2-right": {"answer-error-by-language": False},
    "theorem-4.4": {"lengths": False},
}
OPEN = "pruned=False"  # part of a language without impossible strings
WIDE = 116  # characters per line of the document
Findings = list[tuple[Claim, Finding]]


def page(names: Sequence[str]) -> Page[Size, Reproduction]:
    """The page of the named items (default: all)."""
    return Page(PAGE, lambda size: recipe(chosen(names), size), of_sweep, contents)


def contents(reproduction: Reproduction, size: Size, about: Context) -> dict[str, bytes]:
    """All files by name."""
    return {FILE: reproduction.to_json(dict(about.origin)), PAGE: drawn(reproduction, about.origin)}


def counts(findings: Mapping[str, Findings]) -> dict[str, Counter[str]]:
    """For each item, the number of claims with each verdict."""
    return {name: Counter(finding.verdict for _, finding in own) for name, own in findings.items()}


def tables(reproduction: Reproduction) -> list[Table]:
    """The counts, for the terminal."""
    verdicts = counts(reproduction.findings)
    rows = [(name, [(f"{own[verdict]}", "") for verdict in VERDICTS]) for name, own in verdicts.items()]
    return [Table("Claims by item", ["item", *VERDICTS], rows)]


def totals(reproduction: Reproduction) -> dict[str, int]:
    whole = sum(counts(reproduction.findings).values(), Counter())
    return {verdict: whole[verdict] for verdict in VERDICTS}


def drawn(reproduction: Reproduction, origin: Mapping[str, Any]) -> bytes:
    """The page."""
    findings = reproduction.findings
    sentences = [Sentence(f"{n} {SENTENCES[name][0]}", SENTENCES[name][1]) for name, n in totals(reproduction).items()]
    return frame.page(
        "unmask paper: claim by claim",
        "paper.html",
        origin,
        [FILE],
        sentences,
        contents="\n".join(_entry(name, own) for name, own in counts(findings).items()),
        differing="\n".join(_differing(claim, finding) for claim, finding in _differs(findings)),
        items="\n".join(_item(name, own, figures(reproduction, name)) for name, own in findings.items()),
        size=reproduction.size,
        seconds=f"{reproduction.seconds:.0f}",
    )


def _entry(name: str, own: Counter[str]) -> str:
    """A line of the table of contents."""
    numbers = "".join(f"<td>{own[verdict] or ''}</td>" for verdict in VERDICTS)
    about = f'<a href="#{name}">{name}</a><small>{frame.text(ITEMS[name].about)}</small>'
    return f'<tr><th scope="row">{about}</th>{numbers}</tr>'


def _differs(findings: Mapping[str, Findings]) -> Findings:
    return [(claim, finding) for own in findings.values() for claim, finding in own if finding.verdict == "differs"]


def _differing(claim: Claim, finding: Finding) -> str:
    link = f'<a href="#{claim.name}">{frame.text(claim.where)}</a>'
    return f"<div><dt>{link}</dt><dd>Paper: {_text(claim.words)}</dd><dd>Here: {_text(finding.why)}</dd></div>"


def _text(words: str) -> str:
    """HTML of a text with `code`."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", frame.text(words))


def figures(reproduction: Reproduction, item: str) -> list[tuple[Figure, Definition]]:
    """The figures of an item. `paper-hmm` has one number of steps, so it has no line."""
    figures = []
    records = [record | {"key": ""} for record in reproduction.of(item) if record.get("language") != "paper-hmm"]
    for name, is_open in DRAWN.get(item, {}).items():
        own = [record for record in records if (OPEN in record.get("language", "")) == is_open]
        explorer = Explorer(Results(points(own)))
        figures += [(one, explorer.drawn(one)) for one in explorer.figures if one.name == name]
    return figures


def _item(name: str, own: Findings, drawn: Sequence[tuple[Figure, Definition]]) -> str:
    shown = [
        frame.figure(f"{name}-{one.name}".replace(".", "-"), one.title, one.under, one.caption, definition, definition)
        for one, definition in drawn
    ]
    above = f'<div class="figures">\n{"".join(shown)}\n</div>' if shown else ""
    claims = "\n".join(_claim(claim, finding) for claim, finding in own)
    return f'<h2 id="{name}">{name}</h2>\n<p class="note">{frame.text(ITEMS[name].about)}</p>\n{above}\n{claims}'


def _claim(claim: Claim, finding: Finding) -> str:
    """A claim with its measurements, open if it differs."""
    ours = "".join(f"<tr><th>{frame.text(name)}</th><td>{frame.text(_plain(e))}</td></tr>" for name, e in finding.ours)
    theirs = f'<p class="note">The paper\'s value: {_text(claim.figure)}</p>' if claim.figure else ""
    return f"""<details class="claim {finding.verdict}" id="{claim.name}"{" open" * (finding.verdict == "differs")}>
<summary><b>{finding.verdict}</b> Paper: {_text(claim.words)} <small>{frame.text(claim.where)}</small></summary>
{theirs}
{f'<div class="table"><table class="words">{ours}</table></div>' if ours else ""}
<p>{_text(finding.why)}</p>
<p><code>{frame.text(claim.command)}</code></p>
</details>"""


def markdown(reproduction: Reproduction, origin: Mapping[str, Any], source: str) -> str:
    """The document; source: the file of its records."""
    findings = reproduction.findings
    whole = totals(reproduction)
    command = shlex.join(["unmask", *origin["command"][1:]])
    lines = ["# The paper, claim by claim", "", *_filled(" ".join(INTRODUCTION.split())), ""]
    verdicts = ", ".join(f"{count} {SENTENCES[verdict][0]}" for verdict, count in whole.items())
    lines += _filled(
        f"**{sum(whole.values())} claims: {verdicts}.** A claim that is not tested needs weights, a GPU or more rows. "
        f"Size {reproduction.size}: {reproduction.seconds:.0f} seconds of work on {origin['machine']} by the code "
        f"{origin['code']}, with `{command}`. Generated from {source} by `unmask paper report`."
    )
    lines += ["", f"| item | {' | '.join(VERDICTS)} |", "|---|---|---|---|"]
    for name, own in counts(findings).items():
        lines.append(f"| [{name}](#{_anchor(name)}) | {' | '.join(str(own[verdict]) for verdict in VERDICTS)} |")
    if differing := _differs(findings):
        lines += ["", "Where the measurements differ:", ""]
    for claim, finding in differing:
        lines += _filled(f"- [{claim.where}](#{_anchor(_heading(claim))})", "  ")
        lines += [
            f"  {line}"
            for part in (f"- Paper: {claim.words}", f"- Here: {finding.why}")
            for line in _filled(part, "  ")
        ]
    for name, own_claims in findings.items():
        lines += ["", f"## {name}", "", *_filled(f"{ITEMS[name].about}."[:1].upper() + f"{ITEMS[name].about}."[1:])]
        for claim, finding in own_claims:
            lines += ["", f"### {_heading(claim)}", ""]
            theirs = f" The paper's value: {claim.figure}." if claim.figure else ""
            lines += _filled(f"*{finding.verdict}*. Paper: {claim.words}{theirs}")
            if finding.ours:
                lines.append("")
            for label, estimate in finding.ours:
                lines += _filled(f"- {label}: {_plain(estimate)}", "  ")
            lines += ["", *_filled(finding.why), "", *_filled(f"`{claim.command}`")]
    return "\n".join(lines) + "\n"


def _heading(claim: Claim) -> str:
    return f"`{claim.name}`: {claim.where}"


def _plain(estimate: Estimate) -> str:
    return f"{estimate.value:.4g}" if not estimate.exact and estimate.low == estimate.high else str(estimate)


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _anchor(heading: str) -> str:
    """The anchor that GitHub and Sphinx give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def listing(reproduction: Reproduction) -> list[dict[str, Any]]:
    """Each claim with its verdict, our values and the command, for programs."""
    fields = ("name", "where", "words", "command", "figure")
    return [
        {name: getattr(claim, name) for name in fields} | {"item": item} | finding.to_dict()
        for item, own in reproduction.findings.items()
        for claim, finding in own
    ]
