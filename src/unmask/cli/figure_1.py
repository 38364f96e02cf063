"""unmask figure-1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unmask.cli.options import Count, Counts, Languages, Switch


def command(
    *,
    out: Path = Path("figure-1"),
    quick: Switch = False,
    languages: Languages = (),
    steps: Counts = (),
    rows: Count = None,
    training_steps: Count = None,
    seed: int = 0,
    language_seed: int = 0,
    device: str = "auto",
    json: Switch = False,
) -> None:
    """Train networks on the languages, and hold them against the ideal denoiser.

    Examples:
        unmask figure-1 --quick
        unmask figure-1 --quick --languages paper-2gram --out one
        unmask figure-1 --device cuda --out paper

    SER and generative perplexity against the number of sampling steps, of the ideal
    denoiser and of a trained MDM, with AR at the end: what parallel sampling does
    wrong by itself, and what learning adds. --quick is six languages of 64 tokens,
    by the presets quick, thorough and sums: half an hour of two cores. Without it
    this is the paper's setting, 512 tokens and 25 million parameters, for a GPU.

    Ctrl-C once ends after the networks that are being trained, twice at once, and
    the same command goes on from there, also within a training. OUT/sweep holds the
    networks and the numbers: other steps or rows in the same OUT train nothing
    again, and `unmask sweep status OUT/sweep` says how far it is.

    Args:
        out: A directory for the page, the numbers and the networks; made if it is not there.
        quick: Small networks and short sequences.
        languages: Those of the paper, the sparse HMM for its own, unless told otherwise; with --quick two more.
        steps: Numbers of sampling steps N; from 8 to 2048 unless told otherwise, from 2 to 128 if quick.
        rows: Sequences of each; 2000 unless told otherwise, 1000 if quick.
        training_steps: Batches that each network learns from, instead of the recipe's.
        seed: The seed of networks and samples.
        language_seed: The seed of random presets.
        device: auto, cpu or cuda.
        json: Print one JSON object instead of tables.
    """
    from dataclasses import replace

    from unmask.cli.output import show_page
    from unmask.networks.model.checkpoints import choose_device
    from unmask.report.figure_1 import Settings, page
    from unmask.report.figure_1 import quick as brief
    from unmask.report.publishing import publish

    on_cuda = choose_device(device).type == "cuda"  # which processes would only wait for
    given: dict[str, Any] = {"languages": languages, "steps": steps, "rows": rows, "training_steps": training_steps}
    changes = {name: value for name, value in given.items() if value not in ((), None)}
    settings = replace(brief() if quick else Settings(), **changes, seed=seed, language_seed=language_seed)
    made = publish(page(device), settings, out, engine="here" if on_cuda else "local")
    show_page(made, json)
