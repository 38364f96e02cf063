"""The vocabulary of a text: it counts the words of a sample that the text does not contain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from unmask.text.tokenizer import BREAK

LETTER = "(?:[^\\W\\d_]|\ufffd)"  # U+FFFD, an invalid byte, belongs to its word
WORD = re.compile(f"{LETTER}+(?:['\u2019-]{LETTER}+)*")


class Lexicon:
    """The words of documents, in lower case; digits do not form words."""

    def __init__(self, documents: Iterable[str]) -> None:
        self.words = {word for document in documents for word in _words(document)}

    def unknown(self, documents: Sequence[str]) -> tuple[int, int]:
        """Return (unknown words, words) of a sequence, without words that its ends may have cut."""
        text = BREAK.join(documents)
        words = [match for match in WORD.finditer(text.lower()) if match.start() > 0 and match.end() < len(text)]
        return sum(match[0] not in self.words for match in words), len(words)


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())
