"""The interface of tokenizers: from a text to tokens and back, byte for byte.

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
        return [self._text(part) for part in parts]

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens: invalid bytes become U+FFFD, the separator a blank line."""
        return BREAK.join(self.documents(tokens))

    def written(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens in the middle of a sequence."""
        return self.decode(tokens)

    def save(self, directory: str | Path) -> None:
        write_json(Path(directory) / FILE, self.to_dict())
