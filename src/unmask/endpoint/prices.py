"""The cost of requests, with prices of your own file: {"MODEL": {"in": 0.25, "out": 0.75}}, USD per million tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from unmask.core.errors import UnmaskError, cut, listed
from unmask.core.reading import read_json
from unmask.endpoint.client import Answer, Query

CHARACTERS = 4  # of a token, where a server does not report its tokens


class Prices(NamedTuple):
    """USD of a token."""

    prompt: float
    answer: float

    def of(self, answer: Answer, query: Query) -> float:
        """The cost of an answer, of tokens as the server reports them; reasoning tokens are among them."""
        known = answer.prompt_tokens, answer.tokens
        prompt, text = (_size(query), -(-len(answer.text) // CHARACTERS))
        return self.prompt * (prompt if known[0] is None else known[0]) + self.answer * (
            text if known[1] is None else known[1]
        )

    def most(self, queries: Sequence[Query], tokens: int) -> float:
        """An estimate of the cost of all requests, each with a whole budget of tokens."""
        return sum(self.prompt * _size(query) + self.answer * tokens for query in queries)


def _size(query: Query) -> int:
    text = query.prompt + "".join(message["content"] for message in query.messages)
    return -(-len(text) // CHARACTERS)


def read(path: Path, model: str | None) -> Prices:
    every = read_json(path, dict[str, dict[str, float]])
    own = every.get(model or "")
    if own is None or not {"in", "out"} <= own.keys() or min(own.values()) < 0:
        known = listed(every) or "none"
        raise UnmaskError(f'{cut(str(path))} has no prices "in" and "out" of model {model!r}; its models: {known}')
    return Prices(own["in"] / 1e6, own["out"] / 1e6)
