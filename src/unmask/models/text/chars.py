"""A tokenizer of characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from unmask.models.text.tokenizer import Ints, Tokenizer

HALVES = 16


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
        known = self._codes[np.minimum(index, len(self._codes) - 1)] == codes if len(self._codes) else codes < 0
        parts, begin = [], 0
        for at in np.flatnonzero(~known).tolist():
            halves = [half for byte in text[at].encode() for half in divmod(byte, HALVES)]
            parts += [index[begin:at], np.array(halves) + len(self.symbols)]
            begin = at + 1
        return np.concatenate([*parts, index[begin:]]).astype(np.int32)

    def _text(self, tokens: Sequence[int]) -> str:
        raw, pending = bytearray(), -1
        for token in tokens:
            half = int(token) - len(self.symbols)
            if half < 0:
                raw += self.symbols[token].encode() if pending < 0 else b"\xff" + self.symbols[token].encode()
                pending = -1
            elif pending < 0:
                pending = half
            else:
                raw.append(HALVES * pending + half)
                pending = -1
        whole = raw if pending < 0 else raw + b"\xff"  # half a byte is not a byte
        return whole.decode(errors="replace")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "chars", "symbols": self.symbols}
