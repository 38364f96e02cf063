"""unmask language new|show|fit|list."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def new(
    preset: str, /, *, out: Path, seed: int = 0, unpruned: bool = False, normalise: bool = False, json: bool = False
) -> None:
    """Write a standard language, or a checked copy of a file, as JSON.

    Examples:
        unmask language new paper-2gram --seed 3 --out language.json
        unmask language new exported.json --normalise --out language.json

    Args:
        preset: A preset (see `unmask language list`), or a language file.
        out: The JSON file to write.
        seed: The seed of a random preset.
        unpruned: Keep every transition, so that no string is impossible.
        normalise: Divide each row of a file's tables by its sum.
        json: Print one JSON object instead of a table.
    """
    from unmask import languages
    from unmask.cli.output import show as print_result
    from unmask.files import check_writable

    check_writable(out)
    language = languages.load(preset, seed=seed, pruned=not unpruned, normalise=normalise)
    language.save(out)
    print_result({"file": str(out)} | language.describe(), json)


def show(
    language: str,
    /,
    *,
    length: int = 64,
    steps: tuple[int, ...] = (),
    schedule: str = "linear",
    rows: int = 100,
    seed: int = 0,
    unpruned: bool = False,
    json: bool = False,
) -> None:
    """Describe a language: its size, entropy, mixing, how rare its strings are; and, with --steps, its fluency bounds.

    Examples:
        unmask language show paper-2gram
        unmask language show sparse-hmm --length 512 --steps 8 64 512

    Args:
        language: A preset, or a language file.
        length: The length of the sequences that the entropy and the bounds are about.
        steps: Numbers of rounds N for which to print ter_upper, and what it says of KL and SER.
        schedule: The schedule of those rounds.
        rows: Sequences that the bounds are measured on.
        seed: The seed of a random preset.
        unpruned: Keep every transition of a random preset.
        json: Print one JSON object instead of a table.
    """
    import math

    from unmask import languages, metrics
    from unmask.cli.output import show as print_result
    from unmask.schedules import deltas

    found = languages.load(language, seed=seed, pruned=not unpruned)
    entropy = found.entropy(length)
    result = found.describe() | {
        "length": length,
        "entropy_bits": entropy.map(lambda nats: nats / math.log(2)).to_dict(),
        "ter": entropy.map(lambda nats: 2.0 ** (nats / length / math.log(2))).to_dict(),
        "example": found.render(found.sample(1, length, seed=seed)[0]),
    }
    if steps:
        delta = {count: deltas(schedule, count) for count in steps}
        profile = metrics.profile(found, length, rows, seed)
        result["rounds"] = {
            str(count): {
                "ter_upper": profile.ter_upper(delta[count]).to_dict(),
                "divergence_upper_nats": profile.divergence(delta[count]).to_dict(),
                "ser_upper": profile.ser_upper(delta[count]).to_dict(),
            }
            for count in steps
        }
    print_result(result, json)


def fit(
    text: Path,
    /,
    *,
    out: Path,
    order: int = 3,
    tokens: Literal["characters", "whitespace"] = "characters",
    smoothing: float = 0.0,
    max_vocabulary: int | None = None,
    json: bool = False,
) -> None:
    """Fit an n-gram to a text of your own.

    Example:
        unmask language fit corpus.txt --order 3 --max-vocabulary 64 --out corpus.json

    Args:
        text: A UTF-8 text file.
        out: The JSON file to write.
        order: n: each token depends on the n-1 before it.
        tokens: What a token is.
        smoothing: Added to every count; 0 keeps the support to what the text has shown.
        max_vocabulary: Turn the rarest tokens into one unknown.
        json: Print one JSON object instead of a table.
    """
    from unmask import languages
    from unmask.cli.output import show as print_result
    from unmask.files import check_writable, read_text

    check_writable(out)
    language = languages.NGram.fit(read_text(text), order, tokens, smoothing, max_vocabulary)
    language.save(out)
    print_result({"file": str(out)} | language.describe(), json)


def list_(*, json: bool = False) -> None:
    """List the standard languages.

    Args:
        json: Print one JSON object instead of a table.
    """
    from unmask import languages
    from unmask.cli.output import show as print_result

    print_result({name: entry.about for name, entry in languages.PRESETS.items()}, json)


command = {"new": new, "show": show, "fit": fit, "list": list_}
