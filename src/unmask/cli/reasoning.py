"""unmask reasoning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unmask.cli.options import Count, Counts, Switch


def command(
    *,
    out: Path = Path("reasoning"),
    quick: Switch = False,
    steps: Counts = (),
    rows: Count = None,
    training_steps: Count = None,
    batch: Count = None,
    seed: int = 0,
    device: str = "auto",
    json: Switch = False,
) -> None:
    """Train an MDM and an AR model on sums, and judge their answers and their steps.

    Examples:
        unmask reasoning --quick
        unmask reasoning --rows 500 --steps 1 4 16 64 --out sums

    Questions, 1+2+3+4= with the working and the answer to be written, and chains of
    sums from nothing. Against the number of sampling steps, in random order, by
    confidence and from left to right: the share of right answers, that of the rows
    in which every step is right, and that of the answers that are right by wrong
    steps; and against time, with AR at the end. The ideal denoiser stands beside
    the chains; of a question it knows all in one round. A quarter of an hour on two
    cores; --quick is the questions alone, in five minutes.

    Ctrl-C once ends after the networks that are being trained, twice at once, and
    the same command goes on from there, also within a training. OUT/sweep holds the
    networks and the numbers: other steps or rows in the same OUT train nothing
    again, and `unmask sweep status OUT/sweep` says how far it is.

    Args:
        out: A directory for the page, the numbers and the networks; made if it is not there.
        quick: The questions alone, with fewer rows.
        steps: Numbers of sampling steps N; from 1 to 64 unless told otherwise.
        rows: Rows of each; 1000 unless told otherwise, 500 if quick.
        training_steps: Batches that each network learns from, instead of the recipe's.
        batch: Rows that are timed together; 16 unless told otherwise.
        seed: The seed of networks and samples.
        device: auto, cpu or cuda.
        json: Print one JSON object instead of tables.
    """
    from dataclasses import replace

    from unmask.cli.output import show_page
    from unmask.networks.model.checkpoints import choose_device
    from unmask.report.publishing import publish
    from unmask.report.reasoning import Settings, page
    from unmask.report.reasoning import quick as brief

    on_cuda = choose_device(device).type == "cuda"  # which processes would only wait for
    given: dict[str, Any] = {"steps": steps, "rows": rows, "training_steps": training_steps, "batch": batch}
    changes = {name: value for name, value in given.items() if value not in ((), None)}
    settings = replace(brief() if quick else Settings(), **changes, seed=seed)
    made = publish(page(device), settings, out, engine="here" if on_cuda else "local")
    show_page(made, json)
