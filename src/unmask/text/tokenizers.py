"""Tokenizers by name; saved next to a network as plain JSON, and read without running code.

chars           the characters of the training documents; other characters are written as halves of bytes
bpe:N           N byte-level symbols, with merges learned from the training documents (bpe.py)
gpt2, smollm2   the symbols of these models, from packages or from files: gpt2:DIR, smollm2:FILE.gguf
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
from unmask.text import bpe, checkpoint
from unmask.text.chars import Chars
from unmask.text.tokenizer import FILE, MOST_SYMBOLS, Tokenizer

KINDS = ("chars", "bpe:N", "gpt2", "smollm2")


class CharsFile(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="chars"):
    symbols: Annotated[str, msgspec.Meta(max_length=MOST_SYMBOLS)]


def check(name: str) -> None:
    """Raise an error for an unknown name, before a text is read."""
    arguments.of_kind("tokenizer", name, str, "a name")
    kind, _, option = name.partition(":")
    if kind == "bpe":
        bpe.size_of(option)
    elif kind not in ("gpt2", "smollm2") and name != Chars.name:
        raise unknown("tokenizer", name, KINDS)


def make(name: str, documents: Sequence[str]) -> Tokenizer:
    """Return a tokenizer by its name, learned from training documents."""
    check(name)
    if isinstance(documents, str) or not all(
        isinstance(one, str) for one in arguments.of_kind("documents", documents, Sequence, "a list of texts")
    ):
        arguments.refuse("documents", documents, "a list of texts")
    kind, _, option = name.partition(":")
    match kind:
        case "bpe":
            return bpe.trained(name, bpe.size_of(option), documents)
        case "gpt2":
            return bpe.gpt2(option)
        case "smollm2":
            return bpe.smollm2(option)
    return Chars.of(documents)


def load(directory: str | Path) -> Tokenizer | None:
    """Return the tokenizer in the directory of a network, or None."""
    path = Path(directory) / FILE
    if not os.path.exists(path):
        return None
    if not isinstance(content := read_json(path), dict) or "kind" not in content:
        return checkpoint.read(directory)
    file = fit(content, CharsFile, str(path))
    if list(file.symbols) != sorted(set(file.symbols)):
        raise UnmaskError(f"{cut(str(path))}: expected different symbols in the order of their codes")
    return Chars(file.symbols)
