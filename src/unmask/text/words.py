"""The support of a text, as far as its words say: which of the words somebody has written does it not have?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from unmask.text.tokenizer import BREAK

LETTER = "(?:[^\\W\\d_]|\ufffd)"  # what bytes are shown as that are no text belongs to the word they stand in
WORD = re.compile(f"{LETTER}+(?:['\u2019-]{LETTER}+)*")


class Lexicon:
    """The words of documents, whatever their capitals; digits make none."""

    def __init__(self, documents: Iterable[str]) -> None:
        self.words = {word for document in documents for word in _words(document)}

    def unknown(self, documents: Sequence[str]) -> tuple[int, int]:
        """(words that the text does not have, words) of a row; one that its ends may have cut is left out."""
        text = BREAK.join(documents)
        found = [match for match in WORD.finditer(text.lower()) if match.start() > 0 and match.end() < len(text)]
        return sum(match[0] not in self.words for match in found), len(found)


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())
