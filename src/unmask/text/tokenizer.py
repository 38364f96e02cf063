"""From a text to tokens and back, every byte of it: what each tokenizer is asked.

Each has a symbol of its own that no text comes to: the separator, behind every document.
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
BREAK = "\n\n"  # how the separator is shown
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

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}, {self.vocabulary} symbols>"

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

    def written(self, tokens: Iterable[int]) -> str:
        """What tokens say that go on within a row."""
        return self.decode(tokens)

    def save(self, directory: str | Path) -> None:
        write_json(Path(directory) / FILE, self.to_dict())
