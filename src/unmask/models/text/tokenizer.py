"""The interface of tokenizers, and a tokenizer of characters: from a text to tokens and back, byte for byte.

Each tokenizer has a separator after every document, which text never produces.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.core.errors import UnmaskError, shown
from unmask.core.files import write_json

FILE = "tokenizer.json"  # in the directory of a network
MOST_SYMBOLS = 2**20
BREAK = "\n\n"  # the text of the separator
HALVES = 16  # of a byte
NO_BYTE = b"\xff"  # stands for half a byte without the other half
Ints = NDArray[np.int32]


class Tokenizer(ABC):
    """V symbols, one of which is the separator."""

    name: str
    vocabulary: int
    separator: int

    @abstractmethod
    def _encode(self, text: str) -> Ints: ...

    @abstractmethod
    def _text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens without a separator; invalid bytes become U+FFFD."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]: ...

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}, {self.vocabulary} symbols>"

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def encode(self, text: str) -> Ints:
        """Return the tokens of a text; `decode` inverts it."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UnmaskError(f"{shown(text)} is not Unicode text at character {error.start}") from error
        return self._encode(text)

    def documents(self, tokens: Iterable[int]) -> list[str]:
        """Return the texts between separators; the first and the last may be partial or empty documents."""
        parts: list[list[int]] = [[]]
        for token in tokens:
            if token == self.separator:
                parts.append([])
            else:
                parts[-1].append(int(token))
        return list(map(self._text, parts))

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens: invalid bytes become U+FFFD, the separator a blank line."""
        return BREAK.join(self.documents(tokens))

    def written(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens in the middle of a sequence."""
        return self.decode(tokens)

    @cached_property
    def pieces(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """(the bytes of each token within a text, and at its start); none for control symbols.

        The text of tokens is that of their bytes together."""
        texts = (self.written([token]) for token in range(self.vocabulary))
        written = tuple(b"" if "\ufffd" in text else text.encode() for text in texts)
        return written, written

    def save(self, directory: str | Path) -> None:
        write_json(Path(directory) / FILE, self.to_dict())


class Chars(Tokenizer):
    """One symbol per known character, then 16 halves of bytes: two halves write a byte of any other character."""

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
        index = np.searchsorted(self._codes, codes)
        known = np.isin(codes, self._codes)
        parts = []
        begin = 0
        for at in np.flatnonzero(~known).tolist():
            halves = [half for byte in text[at].encode() for half in divmod(byte, HALVES)]
            parts += [index[begin:at], np.array(halves) + len(self.symbols)]
            begin = at + 1
        return np.concatenate([*parts, index[begin:]]).astype(np.int32)

    def _text(self, tokens: Sequence[int]) -> str:
        raw = bytearray()
        pending = -1  # half a byte, until the other half is read

        for token in tokens:
            half = int(token) - len(self.symbols)
            if half < 0:
                if pending >= 0:
                    raw += NO_BYTE
                raw += self.symbols[token].encode()
                pending = -1
            elif pending < 0:
                pending = half
            else:
                raw.append(HALVES * pending + half)
                pending = -1

        if pending >= 0:
            raw += NO_BYTE
        return raw.decode(errors="replace")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "chars", "symbols": self.symbols}
