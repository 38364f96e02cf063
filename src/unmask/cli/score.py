"""unmask score."""

from __future__ import annotations

from pathlib import Path


def command(
    samples: Path,
    /,
    *,
    language: str,
    language_seed: int = 0,
    unpruned: bool = False,
    json: bool = False,
) -> None:
    """Measure anybody's samples against a language that is known exactly: SER, generative perplexity, diversity.

    Examples:
        unmask score samples.npy --language interval-5
        unmask score samples.jsonl --language language.json --json

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
