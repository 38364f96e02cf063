"""Tokenizers by name; saved next to a network as plain JSON, and read without running code.

chars      the characters of the training documents; other characters are written as halves of bytes
bpe:N      N byte-level symbols, with merges learned from the training documents
FILE.json  a file of the package `tokenizers`, such as the tokenizer.json of a checkpoint
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError, cut, unknown
from unmask.core.reading import fit, read_json
from unmask.models.text import published
from unmask.models.text.chars import Chars
from unmask.models.text.tokenizer import FILE, MOST_SYMBOLS, Tokenizer

KINDS = ("chars", "bpe:N", "FILE.json")


class CharsFile(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="chars"):
    symbols: Annotated[str, msgspec.Meta(max_length=MOST_SYMBOLS)]


def check(name: str) -> None:
    """Raise an error for an unknown name, before a text is read."""
    arguments.of_kind("tokenizer", name, str, "a name")
    kind, _, option = name.partition(":")
    if kind == "bpe":
        published.size_of(option)
    elif name != Chars.name and not name.endswith(".json"):
        raise unknown("tokenizer", name, KINDS)


def make(name: str, documents: Sequence[str]) -> Tokenizer:
    """Return a tokenizer by its name, learned from training documents unless it is a file."""
    check(name)
    if isinstance(documents, str) or not all(
        isinstance(one, str) for one in arguments.of_kind("documents", documents, Sequence, "a list of texts")
    ):
        arguments.refuse("documents", documents, "a list of texts")
    if name.endswith(".json"):
        return published.read_file(name)
    kind, _, option = name.partition(":")
    return published.trained(name, published.size_of(option), documents) if kind == "bpe" else Chars.of(documents)


def load(directory: str | Path) -> Tokenizer | None:
    """Return the tokenizer in the directory of a network, or None."""
    path = Path(directory) / FILE
    if not os.path.exists(path):
        return None
    if not isinstance(content := read_json(path), dict) or "kind" not in content:
        return published.read(directory)
    file = fit(content, CharsFile, str(path))
    if list(file.symbols) != sorted(set(file.symbols)):
        raise UnmaskError(f"{cut(str(path))}: expected different symbols in the order of their codes")
    return Chars(file.symbols)
