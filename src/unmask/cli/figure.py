"""unmask figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from unmask.cli.options import Answer, Assignments, Directory, Languages, Measuring, Switch

NAMES = ("figure-1", "figure-2", "reasoning", "growth", "growth-networks", "gap")


def command(
    name: Annotated[str, "NAME"],
    /,
    *,
    quick: Switch = False,
    out: Directory = None,
    set: Assignments = (),
    languages: Languages = (),
    device: str = "auto",
    open: Switch = False,
    by: Measuring = Measuring(),
) -> Answer:
    """Measure a recipe and draw its page: the paper's figures, growth and gap.

    Examples:
        unmask figure figure-1 --quick
        unmask figure figure-2 --set text=letters.txt --out letters
        unmask figure growth --languages paper-2gram --out one

    figure-1: SER and generative perplexity of the exact denoiser and of trained
    networks, next to AR. Half an hour on two cores with --quick, else a GPU.
    figure-2: perplexity, entropy and time of texts, next to an AR model. Half an
    hour, or five minutes with --quick. For --set, text is a file, a directory or
    kjv, and tokenizer is chars, bpe:N or a tokenizer.json.
    reasoning: Figure 2, right, on sums: incorrect answers and incorrect steps. A
    quarter of an hour, or five minutes.
    growth: the steps for an SER of 50%, 10% and 1% against the length, with masks
    and with uniform noise. 15 minutes, or one. growth-networks trains networks.
    gap: the gap, which needs no ground truth, next to the true loss. Half an hour,
    or a minute.

    Ctrl-C once ends after the current cells, twice at once; the same command
    resumes, also within a training. OUT/sweep is the store.

    Args:
        name: One of figure-1, figure-2, reasoning, growth, growth-networks and gap.
        quick: Use the recipe with -quick in its name: smaller networks, shorter trainings, fewer sequences.
        out: Directory of the page, the numbers and the networks, created if needed. (default: NAME)
        set: Other values for the recipe, for example steps=[2,8] or training_steps=100.
        languages: Only these languages of the recipe (default: all).
        device: Device of the networks: auto, cpu or cuda.
    """
    import webbrowser

    from unmask.cli.output import answer_of
    from unmask.core.errors import unknown
    from unmask.report.publishing import publish
    from unmask.report.whole import Selection, of_recipe

    if name not in NAMES:
        raise unknown("figure", name, NAMES)
    cells = Selection(f"{name}-quick" if quick else name, set, languages, device)
    published = publish(of_recipe(name), cells, out or Path(name), **by.options(device))
    if open:
        webbrowser.open(published.page.as_uri())
    return answer_of(published)
