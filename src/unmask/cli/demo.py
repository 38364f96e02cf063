"""unmask demo."""

from __future__ import annotations

from pathlib import Path

from unmask.cli.options import Languages, Switch


def command(
    *,
    out: Path = Path("demo"),
    rows: int = 2000,
    small_rows: int = 500,
    seed: int = 0,
    language_seed: int = 0,
    generative_perplexity: Switch = False,
    lengths: Languages = (),
    open: Switch = False,
    json: Switch = False,
) -> None:
    """Show the paper's central result, exactly, as a page.

    Examples:
        unmask demo
        unmask demo --rows 200 --small-rows 50 --out quick
        unmask demo --generative-perplexity --lengths sparse-hmm paper-3gram

    With the ideal denoiser in a network's place, the fluency of masked diffusion
    (TER) saturates after a few dozen steps whatever the length, while its
    correctness (SER) needs steps in proportion to the length. Opens without a
    network connection; figures (SVG, PNG) and numbers (JSON, CSV) lie beside it,
    and in OUT/sweep what `unmask sweep` reads. After an interruption the same
    command goes on where it was.

    Args:
        out: The directory of the page and its files; made if it is not there.
        rows: Sequences for each measured SER.
        small_rows: The same for the languages where a row is dear, and in the length panel.
        seed: The seed of the luck.
        language_seed: The seed of random presets.
        generative_perplexity: Add what the paper plots as TER, on languages without impossible strings.
        lengths: Languages to add to the length panel, which has paper-2gram and interval-5.
        open: Open the page in the browser.
        json: Print one JSON object instead of a table.
    """
    import webbrowser

    from unmask.cli.output import show_page
    from unmask.report.demo import PAGE, Settings
    from unmask.report.publishing import publish

    settings = Settings(
        rows=rows,
        small_rows=small_rows,
        seed=seed,
        language_seed=language_seed,
        generative_perplexity=generative_perplexity,
        lengths=lengths,
    )
    made = publish(PAGE, settings, out, engine="local")
    if open:
        webbrowser.open(made.page.as_uri())
    show_page(made, json)
