"""What each figure shows, axis by axis, in the words of a caption."""

from __future__ import annotations

from unmask.report.plan import LARGE, Settings

ACROSS = (
    "Across: the number of sampling steps N, doubling from tick to tick; AR, which takes no such steps, stands at the "
    "right end."
)
BARS = "bars: 95% intervals"


def caption(figure: str, settings: Settings) -> str:
    """HTML."""
    s = settings
    rows = f"{s.rows} sequences a point" + (
        f", {s.small_rows} of {' and '.join(LARGE)}" if s.small_rows != s.rows else ""
    )
    captions = {
        "correctness": f"{ACROSS} Up: the share of sampled sequences that the language cannot produce ({rows}; "
        f"{BARS}). The curves of interval-5 and paper-2gram are theory, drawn without looking at the points; the other "
        "lines join points. Click a name to single it out.",
        "fluency": f"{ACROSS} Up: TER by its definition, divided by the language's own TER. interval-5 is exact; "
        "for the others it is the upper bound <code>ter_upper</code>, for all N from one pass over "
        f"{s.profile_rows} sequences ({BARS}). The curves of interval-5 and paper-2gram are theory. This is not "
        "what the paper plots: where its plots say TER they show generative perplexity, another quantity "
        "(<code>--generative-perplexity</code>).",
        "generative-perplexity": f"{ACROSS} Up: what the paper plots as TER, 2 to the mean bits a token of "
        f"{s.perplexity_rows} <em>sampled</em> sequences under the language, divided by the language's own TER "
        f"({BARS}). It needs languages without impossible strings (nothing pruned), where SER is 0 by construction, "
        "and it can be low for a sampler that repeats itself.",
        "lengths": "Across: the length L. Up: the number of steps N; both axes are logarithmic. Solid: until "
        f"{s.ser:.0%} of the sequences are wrong (SER); dashed: until TER is within {s.excess:.0%} of the language's "
        "own (by <code>ter_upper</code>, except for interval-5). interval-5 is exact; others are measured "
        f"({s.small_rows} sequences at each of three N for SER, {s.profile_rows} for TER; {BARS}). Dotted: as many "
        "steps as tokens, which is what AR takes.",
    }
    return captions[figure]
