"""unmask language list|new|show|fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from unmask.cli.options import Count, Counts, Name, Switch

SHOWN = 60  # tokens of an example


def list_(*, json: Switch = False) -> None:
    """List the standard languages, and the kinds that languages are of.

    Examples:
        unmask language list
        unmask language list --json

    Other commands take a preset, a file of any kind, or a kind with its options,
    "modular-sum(modulus=7)". Kinds of installed packages are listed, too.

    Args:
        json: Print one JSON object: presets and kinds, each name to {about, options, ..}.
    """
    from unmask.cli.catalogue import show_names, summaries
    from unmask.cli.output import show as print_result
    from unmask.languages import LANGUAGES, PRESETS

    if json:
        print_result({"presets": summaries(PRESETS), "kinds": summaries(LANGUAGES)}, True)
        return
    show_names(PRESETS, False)
    print("\nkinds:")
    show_names(LANGUAGES, False)


def new(
    language: Name,
    /,
    *,
    out: Path,
    normalise: Switch = False,
    json: Switch = False,
) -> None:
    """Write a standard language, or a checked copy of a file, as JSON.

    Examples:
        unmask language new "paper-2gram(seed=3)" --out language.json
        unmask language new exported.json --normalise --out language.json

    Args:
        language: A preset with options, "sparse-hmm(seed=3, pruned=False)", or a language file.
        out: The JSON file to write.
        normalise: Divide each row of a file's tables by its sum.
        json: Print one JSON object instead of a table.
    """
    from unmask import languages
    from unmask.cli.output import show as print_result
    from unmask.core.files import check_writable

    check_writable(out)
    found = languages.load(language, normalise=normalise)
    result = {"file": str(out)} | found.describe()
    found.save(out)
    print_result(result, json)


def show(
    language: Name,
    /,
    *,
    length: Count = None,
    steps: Counts = (),
    schedule: str = "linear",
    rows: int = 100,
    seed: int = 0,
    json: Switch = False,
) -> None:
    """Describe a language: size, entropy, mixing; with --steps, its fluency bounds.

    Examples:
        unmask language show paper-2gram
        unmask language show sparse-hmm --length 512 --steps 8 64 512
        unmask language show hmm

    Entropy and TER are those of the language itself at the length: what perfect
    sampling has. The example is the beginning of one of its sequences, at most 60
    tokens. Of a kind that needs options, these are shown.

    Args:
        language: A preset (see `unmask language list`), a language file, or a kind.
        length: The length that the entropy and the bounds are about; 64 if not given, or the nearest possible one.
        steps: Numbers of rounds N for which to print ter_upper, and what it says of KL and SER.
        schedule: The schedule of those rounds; `unmask schedule list` has them.
        rows: Sequences that the bounds are measured on.
        seed: The seed of the example and of those sequences.
        json: Print one JSON object instead of a table.
    """
    import math

    from unmask import languages, metrics
    from unmask.cli.catalogue import show_entry
    from unmask.cli.output import show as print_result
    from unmask.core.arguments import whole
    from unmask.schedules import Fit, deltas
    from unmask.theory.sampled import information_curve

    if language in languages.LANGUAGES.names() and language not in languages.PRESETS.makers:
        show_entry(languages.LANGUAGES.entry(language), {}, json)
        return
    whole("rows", rows)
    found = languages.load(language)
    size = found.nearest_lengths(64)[-1] if length is None else length
    delta = {count: deltas(schedule, count, Fit(found, size)) for count in steps}
    entropy = found.entropy(size)
    result = found.describe() | {
        "length": size,
        "entropy_bits": entropy.map(lambda nats: nats / math.log(2)).to_dict(),
        "ter": None if found.end is not None else metrics.ter_autoregressive(found, size).to_dict(),
        "example": found.render(found.sample(1, size, seed=seed)[0, :SHOWN]),
    }
    if steps:
        curve = information_curve(found, size, rows=rows, seed=seed)
        result["rounds"] = {
            str(count): {
                "ter_upper": curve.ter_upper(share).to_dict(),
                "divergence_upper_nats": curve.divergence(share).to_dict(),
                "ser_upper": curve.ser_upper(share).to_dict(),
            }
            for count, share in delta.items()
        }
    print_result(result, json)


def fit(
    text: Annotated[Path, "TEXT"],
    /,
    *,
    out: Path,
    order: int = 3,
    tokens: Literal["characters", "whitespace"] = "characters",
    smoothing: float = 0.0,
    max_vocabulary: Count = None,
    json: Switch = False,
) -> None:
    """Fit an n-gram to a text of your own.

    Example:
        unmask language fit corpus.txt --order 3 --max-vocabulary 64 --out my.json

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
    from unmask.core.files import check_writable
    from unmask.core.reading import read_text

    check_writable(out)
    found = languages.NGram.fit(read_text(text), order, tokens, smoothing, max_vocabulary)
    result = {"file": str(out)} | found.describe()
    found.save(out)
    print_result(result, json)


command = {"list": list_, "new": new, "show": show, "fit": fit}
