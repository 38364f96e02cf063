"""A judge that anybody can check: an n-gram of characters, interpolated over all shorter contexts (Witten and Bell).

    p(c | h) = (count(h c) + kinds(h) p(c | h')) / (count(h) + kinds(h)),   h' being h without its first character,

kinds(h) being how many characters have followed h. Below the empty context all are equally likely: those of the text,
the end of a document, and one that stands for all others. So p(. | h) sums to 1, and what is judged is its windows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from unmask.core import arguments

ORDER = 5
MOST_ORDER = 12
END = "\ud800"  # of a document: half of a pair, which no text holds
OTHER = "\ud801"  # for what the text does not have


class NGramJudge:
    """Of documents; it knows nothing of what wrote a text, nor of its tokens."""

    def __init__(self, documents: Sequence[str], order: int = ORDER) -> None:
        self.order = arguments.whole("order", order, 1, MOST_ORDER)
        line = "".join(document + END for document in documents)
        self.symbols = {*line, END, OTHER}
        self._counts: Counter[str] = Counter()
        for size in range(1, self.order + 1):
            self._counts.update(line[at : at + size] for at in range(len(line) - size + 1))
        self._followed: Counter[str] = Counter()  # count(h), and kinds(h): what the fractions are over
        self._kinds: Counter[str] = Counter()
        for gram, count in self._counts.items():
            self._followed[gram[:-1]] += count
            self._kinds[gram[:-1]] += 1

    def probability(self, symbol: str, context: str) -> float:
        """p(c | h), h being what stands before it, of which the last n - 1 characters count."""
        found = 1 / len(self.symbols)
        context = context[max(len(context) - self.order + 1, 0) :]
        for begin in range(len(context), -1, -1):
            seen = context[begin:]
            kinds = self._kinds.get(seen)
            if kinds is None:  # nor has any longer one been seen
                break
            found = (self._counts[seen + symbol] + kinds * found) / (self._followed[seen] + kinds)
        return found

    def nats(self, documents: Sequence[str]) -> tuple[float, int]:
        """(-log p, characters) of a row: what stands between the ends of documents, these ends included."""
        text = "".join(c if c in self.symbols else OTHER for c in END.join(documents))
        memory = self.order - 1
        paid = [math.log(self.probability(c, text[max(at - memory, 0) : at])) for at, c in enumerate(text)]
        return -math.fsum(paid), len(text)
