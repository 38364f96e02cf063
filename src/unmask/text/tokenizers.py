"""From a text to tokens and back, every byte of it; kept beside a network as plain JSON, and read without running code.

    chars           the characters of the training documents; another one is written by the halves of its bytes
    bpe:N           N symbols of bytes, merged as the training documents alone say (bpe.py)
    gpt2, smollm2   the symbols of these models, from packages or from files: gpt2:DIR, smollm2:FILE.gguf

Each has a symbol of its own that no text comes to: the separator, behind every document.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmask.core.errors import UnmaskError, cut, shown, unknown
from unmask.core.files import write_json
from unmask.core.reading import read_json

FILE = "tokenizer.json"  # in the directory of a network
MOST_SYMBOLS = 2**20
BREAK = "\n\n"  # how the separator is shown
HALVES = 16
KINDS = ("chars", "bpe:N", "gpt2", "smollm2")
Ints = NDArray[np.int32]


class Tokenizer(ABC):
    """V symbols, one of which is the separator."""

    name: str
    vocabulary: int
    separator: int

    @abstractmethod
    def _encode(self, text: str) -> Ints: ...

    @abstractmethod
    def _bytes(self, tokens: Sequence[int]) -> bytes:
        """Of tokens among which there is no separator."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]: ...

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def encode(self, text: str) -> Ints:
        """The tokens of a text, from which `decode` makes it again."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UnmaskError(f"{shown(text)} is not Unicode text at character {error.start}") from error
        return self._encode(text)

    def documents(self, tokens: Iterable[int]) -> list[str]:
        """What stands between separators; the first and the last may be parts of a document, and empty."""
        parts: list[list[int]] = [[]]
        for token in tokens:
            if token == self.separator:
                parts.append([])
            else:
                parts[-1].append(int(token))
        return [self._bytes(part).decode(errors="replace") for part in parts]

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens: bytes that are none are shown as U+FFFD, the separator as a blank line."""
        return BREAK.join(self.documents(tokens))

    def save(self, directory: str | Path) -> None:
        write_json(Path(directory) / FILE, self.to_dict())


class Chars(Tokenizer):
    """A symbol for each of some characters; then 16, by two of which a byte of any other character is written."""

    name = "chars"

    def __init__(self, symbols: str) -> None:
        self.symbols = symbols
        self.vocabulary = len(symbols) + HALVES + 1
        self.separator = self.vocabulary - 1
        self._codes = np.frombuffer(symbols.encode("utf-32-le"), np.uint32)

    @classmethod
    def of(cls, documents: Iterable[str]) -> Chars:
        return cls("".join(sorted(set().union(*documents))))

    def _encode(self, text: str) -> Ints:
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        place = np.searchsorted(self._codes, codes)
        known = self._codes[np.minimum(place, len(self._codes) - 1)] == codes if len(self._codes) else codes < 0
        found, begin = [], 0
        for at in np.flatnonzero(~known).tolist():
            halves = [half for byte in text[at].encode() for half in divmod(byte, HALVES)]
            found += [place[begin:at], np.array(halves) + len(self.symbols)]
            begin = at + 1
        return np.concatenate([*found, place[begin:]]).astype(np.int32)

    def _bytes(self, tokens: Sequence[int]) -> bytes:
        made, pending = bytearray(), -1
        for token in tokens:
            half = int(token) - len(self.symbols)
            if half < 0:
                made += self.symbols[token].encode() if pending < 0 else b"\xff" + self.symbols[token].encode()
                pending = -1
            elif pending < 0:
                pending = half
            else:
                made.append(HALVES * pending + half)
                pending = -1
        return bytes(made if pending < 0 else made + b"\xff")  # half a byte is none

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "chars", "symbols": self.symbols}


class CharsFile(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="chars"):
    symbols: Annotated[str, msgspec.Meta(max_length=MOST_SYMBOLS)]


class BytesFile(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="bpe"):
    name: Annotated[str, msgspec.Meta(max_length=100)]
    symbols: Annotated[list[Annotated[str, msgspec.Meta(max_length=2**12)]], msgspec.Meta(max_length=MOST_SYMBOLS)]
    merges: Annotated[
        list[Annotated[list[str], msgspec.Meta(min_length=2, max_length=2)]], msgspec.Meta(max_length=MOST_SYMBOLS)
    ]
    separator: Annotated[int, msgspec.Meta(ge=0)]
    split: Literal["words", "digits"]


def check(name: str) -> None:
    """Fail before a text is read, not after it."""
    from unmask.text import bpe

    kind, _, option = name.partition(":")
    if kind == "bpe":
        bpe.size_of(option)
    elif kind not in ("gpt2", "smollm2") and name != Chars.name:
        raise unknown("tokenizer", name, KINDS)


def make(name: str, documents: Sequence[str]) -> Tokenizer:
    """A tokenizer by its name, for documents that are trained on."""
    from unmask.text import bpe

    check(name)
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
    """The tokenizer that lies in the directory of a network; None where there is none."""
    from unmask.text import bpe

    path = Path(directory) / FILE
    if not os.path.exists(path):
        return None
    found = read_json(path, CharsFile | BytesFile)
    if isinstance(found, BytesFile):
        merges = [(left, right) for left, right in found.merges]
        return bpe.Bytes(found.name, found.symbols, merges, found.separator, found.split, str(path))
    if list(found.symbols) != sorted(set(found.symbols)):
        raise UnmaskError(f"{cut(str(path))}: symbols must be different characters in the order of their codes")
    return Chars(found.symbols)
