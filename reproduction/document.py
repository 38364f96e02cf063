"""Output for the claims: the table of verdicts, the findings in full, and reproduction/README.md."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from reproduction import beside
from reproduction.items import ITEMS
from reproduction.judge import VERDICTS, Claim, Finding, Item
from reproduction.records import Measured, Records
from unmask import Estimate

INTRODUCTION = """
"The paper" is Feng et al., "Theoretical Benefit and Limitation of Diffusion Language Model" (arXiv 2502.09622, NeurIPS
2025), with its poster and the rebuttals of its reviews; its code is not public. Each claim has a summary, a verdict and
its first measurements; `python -m reproduction NAME` prints all of them, and `python -m reproduction measure NAME`
measures again. Verdicts are computed from records. The denoiser is ideal unless a claim names another. Our copy of the
paper has lost its inline formulas; reconstructions are marked.
"""
RULE = {
    "*agrees* or *differs*": """something was measured or computed here on the claim's own terms: its quantity, its
condition, its setting. A miniature is a separate claim, named as one.""",
    "*consistent*": """arithmetic on figures that the paper prints, or counts by its own cost model. Nothing was
measured.""",
    "*not tested*": """the terms need weights, a GPU or more rows; the claim does not state them; or its text is
illegible, so that our reading would decide.""",
    "for all": "an upper bound that is not tight is not contradicted, and one finding is one claim.",
}
BESIDE = """
Numbers that the paper and its poster print, beside those of the exact denoiser, or of our clock on one GPU.
"""
WIDE = 116  # characters per line of the document
MOST = 2  # measurements of a claim in the document
MEASURED = " Measured on "
WORDS = {"agrees": "agree", "differs": "differ"}  # of several claims
Findings = Mapping[str, Sequence[tuple[Claim, Finding]]]


def findings(items: Mapping[str, Item], sources: Sequence[Measured]) -> Findings:
    """The claims of each item with the finding of the last source that decides a claim by other values."""
    records = [Records(source.records) for source in sources]

    def last(claim: Claim) -> Finding:
        finding = claim.finding(records[0])
        for source, own in zip(sources[1:], records[1:], strict=True):
            other = claim.finding(own)
            if other.verdict != "not tested" and other.ours != finding.ours:
                finding = replace(other, why=f"{other.why}{MEASURED}{machine(source)} ({source.name}).")
        return finding

    return {name: [(claim, last(claim)) for claim in item.claims.values()] for name, item in items.items()}


def machine(source: Measured) -> str:
    return str(source.origin.get("device") or source.origin.get("machine") or "this machine")


def counts(judged: Findings) -> dict[str, Counter[str]]:
    """For each item, the number of claims with each verdict."""
    return {name: Counter(finding.verdict for _, finding in own) for name, own in judged.items()}


def table(judged: Findings) -> str:
    """The counts, for the terminal."""
    rows = [(name, *(str(own[verdict]) for verdict in VERDICTS)) for name, own in counts(judged).items()]
    rows = [("item", *VERDICTS), *rows, ("all", *(str(n) for n in totals(judged).values()))]
    return "\n".join(f"{name:20}" + "".join(f" {cell:>10}" for cell in cells) for name, *cells in rows)


def totals(judged: Findings) -> dict[str, int]:
    whole = sum(counts(judged).values(), Counter[str]())
    return {verdict: whole[verdict] for verdict in VERDICTS}


def full(claim: Claim, finding: Finding) -> str:
    """A claim with all of its measurements, for the terminal."""
    theirs = f" The paper's value: {claim.figure}." if claim.figure else ""
    lines = [f"{claim.name}: {finding.verdict}", f"  {claim.where}: {claim.words}{theirs}"]
    lines += [f"    {label}: {number(estimate)}" for label, estimate in finding.ours]
    return "\n".join([*lines, f"  {finding.why}"])


def markdown(judged: Findings, sources: Sequence[Measured]) -> str:
    """reproduction/README.md, from these records."""
    whole, source = totals(judged), sources[0]
    text = ", ".join(f"{whole[verdict]} {WORDS.get(verdict, verdict)}" for verdict in VERDICTS)
    lines = ["# The paper, claim by claim", "", *_filled(" ".join(INTRODUCTION.split())), ""]
    lines += _filled(
        f"**{sum(whole.values())} claims: {text}.** Size {source.size}: {source.seconds:.0f} seconds of work on "
        f"{machine(source)}. Made from {' and '.join(one.name for one in sources)} in results by `python -m "
        "reproduction document`."
    )
    lines += ["", "## The rule of the verdicts", ""]
    lines += [line for name, rule in RULE.items() for line in _filled(f"- {name}: {' '.join(rule.split())}", "  ")]
    lines += ["", "## Numbers beside numbers", "", *_filled(BESIDE.strip()), "", *beside.markdown(beside.rows(sources))]
    for name, own in judged.items():
        lines += ["", f"## {name}", "", *_filled(f"{ITEMS[name].about}."[:1].upper() + f"{ITEMS[name].about}."[1:]), ""]
        for claim, finding in own:
            lines += _filled(_entry(name, claim, finding), "  ")
    return "\n".join(lines) + "\n"


def _entry(item: str, claim: Claim, finding: Finding) -> str:
    """A claim in a paragraph: its reason where it differs or was not tested, else its first measurements."""
    theirs = f" ({claim.figure})" if claim.figure else ""
    ours = "; ".join(f"{label}: {number(estimate)}" for label, estimate in finding.ours[:MOST])
    more = f"; {len(finding.ours) - MOST} more" if len(finding.ours) > MOST else ""
    measured = "".join(finding.why.partition(MEASURED)[1:])
    explained = finding.verdict in ("differs", "not tested") or not ours
    text = finding.why if explained else f"{ours}{more}.{measured}"
    name = claim.name.partition(f"{item}.")[2]
    return f"- `{name}` *{finding.verdict}*. {claim.where}: {claim.words}{theirs} **Here**: {text}"


def number(estimate: Estimate) -> str:
    """A constant without an interval, and else as it prints itself."""
    certain = estimate.low == estimate.high and not estimate.exact
    return f"{estimate.value:.5g}" if certain else str(estimate)


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
