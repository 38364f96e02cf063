"""unmask score."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from unmask.cli.options import Name, Switch


def command(
    samples: Annotated[Path, tyro.conf.arg(metavar="SAMPLES")],
    /,
    *,
    language: Name,
    language_seed: int = 0,
    unpruned: Switch = False,
    json: Switch = False,
) -> None:
    """Measure anybody's samples against a language that is known exactly.

    Examples:
        unmask score samples.npy --language interval-5
        unmask score samples.jsonl --language language.json --json

    SER is the share of rows that the language cannot have made; the generative
    perplexity is that of the other rows, and low for samples that repeat
    themselves: read it beside the entropy of the bigrams. Impossible rows are
    known where `unmask generate` has left its account beside the samples.

    Args:
        samples: Tokens (rows, length): a .npy file of integers, or .jsonl with a list a line.
        language: A preset (see `unmask language list`), or a language file.
        language_seed: The seed of a random preset.
        unpruned: Keep every transition of a random preset.
        json: Print one JSON object instead of a table.
    """
    from unmask import languages, score
    from unmask.cli.output import show
    from unmask.samples import read_account, read_tokens

    tokens = read_tokens(samples)
    found = languages.load(language, seed=language_seed, pruned=not unpruned)
    result = score(tokens, found).to_dict()
    result["impossible_rows"] = read_account(samples, tokens).get("impossible_rows")
    show(result, json)
