"""unmask demo."""

from __future__ import annotations

from pathlib import Path

from unmask.cli.options import Answer, Assignments, Languages, Measuring, Switch
from unmask.cli.report import measured


def command(
    *,
    out: Path = Path("demo"),
    languages: Languages = (),
    set: Assignments = (),
    by: Measuring = Measuring(),
    open: Switch = False,
) -> Answer:
    """Reproduce the paper's main result as a web page.

    Examples:
        unmask demo --open
        unmask demo --set rows=200 --out small
        unmask demo --languages interval-5 --out one

    An exact denoiser replaces the network. The fluency of masked diffusion (TER) is
    near its optimum after a few dozen steps at any length; its correctness (SER)
    needs steps in proportion to the length. Figures (SVG, PNG) and numbers (JSON,
    CSV) are next to the page. The same command resumes.

    Args:
        out: Directory of the page and its files; created if missing.
        languages: Languages of the recipe to use. (default: all five)
        set: Other values for the recipe `demo`, for example rows=200 or steps=[8,64].
    """
    return measured("demo", ("demo",), out, False, set, languages, None, open, by)
