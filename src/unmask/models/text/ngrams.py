"""Scores of a text without a network: an n-gram of characters, and the words that a text does not contain.

The n-gram is interpolated over shorter contexts (Witten, Bell):

    p(c | h) = (count(h c) + kinds(h) p(c | h')) / (count(h) + kinds(h)),   h' being h without its first character,

kinds(h) being the number of different characters that followed h. Below the empty context all symbols are equally
likely: the characters of the text, the end of a document, and one symbol for all other characters. So p(. | h) sums
to 1.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from unmask.core import arguments
from unmask.models.text.tokenizer import BREAK

ORDER = 5
MOST_ORDER = 12
END = "\ud800"  # of a document: half of a surrogate pair, which no text contains
OTHER = "\ud801"  # for characters that the text does not have
LETTER = "(?:[^\\W\\d_]|\ufffd)"  # U+FFFD, an invalid byte, belongs to its word
WORD = re.compile(f"{LETTER}+(?:['\u2019-]{LETTER}+)*")


class NGramJudge:
    """An n-gram model of documents; it depends neither on the writer of a text nor on its tokens."""

    def __init__(self, documents: Sequence[str], order: int = ORDER) -> None:
        self.order = arguments.whole("order", order, 1, MOST_ORDER)
        line = "".join(document + END for document in documents)
        self.symbols = {*line, END, OTHER}
        self._counts: Counter[str] = Counter()
        for size in range(1, self.order + 1):
            self._counts.update(line[at : at + size] for at in range(len(line) - size + 1))
        self._followed: Counter[str] = Counter()  # count(h), and kinds(h): the denominators
        self._kinds: Counter[str] = Counter()
        for gram, count in self._counts.items():
            self._followed[gram[:-1]] += count
            self._kinds[gram[:-1]] += 1

    def probability(self, symbol: str, context: str) -> float:
        """Return p(c | h), h being the last n - 1 characters of the context."""
        p = 1 / len(self.symbols)
        context = context[max(len(context) - self.order + 1, 0) :]
        for begin in range(len(context), -1, -1):
            seen = context[begin:]
            kinds = self._kinds.get(seen)
            if kinds is None:  # longer contexts were not seen either
                break
            p = (self._counts[seen + symbol] + kinds * p) / (self._followed[seen] + kinds)
        return p

    def nats(self, documents: Sequence[str]) -> tuple[float, int]:
        """Return (-log p, characters) of a sequence of documents, with the ends between them."""
        text = END.join(documents)
        text = text.translate(dict.fromkeys(map(ord, {*text} - self.symbols), OTHER))
        memory = self.order - 1
        paid = [math.log(self.probability(c, text[max(at - memory, 0) : at])) for at, c in enumerate(text)]
        return -math.fsum(paid), len(text)


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
