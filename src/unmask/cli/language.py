"""unmask language new|fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from unmask.cli.options import Answer, Count, Name, Switch


def new(
    language: Name,
    /,
    *,
    out: Path,
    normalise: Switch = False,
) -> Answer:
    """Write a standard language, or a checked copy of a file, as JSON.

    Examples:
        unmask language new "paper-2gram(seed=3)" --out language.json
        unmask language new exported.json --normalise --out language.json

    Args:
        out: JSON file to write.
        normalise: Divide each row of a file's tables by its sum.
    """
    from unmask import languages
    from unmask.core.files import check_writable

    check_writable(out)
    loaded = languages.load(language, normalise=normalise)
    result = {"file": str(out)} | loaded.describe()
    loaded.save(out)
    return Answer(result)


def fit(
    text: Annotated[Path, "TEXT"],
    /,
    *,
    out: Path,
    order: int = 3,
    tokens: Literal["characters", "whitespace"] = "characters",
    smoothing: float = 0.0,
    max_vocabulary: Count = None,
) -> Answer:
    """Fit an n-gram language to your own text.

    Example:
        unmask language fit corpus.txt --order 3 --max-vocabulary 64 --out my.json

    Args:
        text: UTF-8 text file.
        out: JSON file to write.
        order: Order n of the n-gram: each token depends on the n-1 before it.
        tokens: Tokens of the text: characters, or words between whitespace.
        smoothing: Number added to every count. At 0, only n-grams of the text are possible.
        max_vocabulary: Largest number of tokens; the rarest become one unknown token. (default: all)
    """
    from unmask import languages
    from unmask.core.files import check_writable
    from unmask.core.reading import read_text

    check_writable(out)
    fitted = languages.NGram.fit(read_text(text), order, tokens, smoothing, max_vocabulary)
    result = {"file": str(out)} | fitted.describe()
    fitted.save(out)
    return Answer(result)


command = {"new": new, "fit": fit}
