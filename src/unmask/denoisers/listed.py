"""The engine of a table of answers: the number of revealed tokens that contradict each answer.

q(x_j = v | x_R)  ~  sum over answers m of  w_m [m_j = v] [m contradicts no token of R other than that at j]
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.denoisers.contracts import Engine
from unmask.languages.answers import Answers, normalised


class ListedEngine(Engine):
    """A change of one token costs one comparison per answer. The own token of a position is left out, so the engine is
    hollow."""

    hollow = True

    def __init__(self, language: Answers, tokens: Tensor) -> None:
        super().__init__(tokens)
        self.language = language
        self.vocabulary = language.vocabulary
        self.seen = torch.full_like(tokens, self.vocabulary)  # the tokens that are counted
        self.against = torch.zeros(len(tokens), len(language.answers), dtype=torch.int16)  # (B, M)
        rows, positions = (tokens != self.vocabulary).nonzero(as_tuple=True)
        self.renew(rows, positions)

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        for position in positions.unique().tolist():
            own = rows[positions == position].unique()
            new = self.tokens[own, position]
            before, after = (self._contradicts(tokens, position) for tokens in (self.seen[own, position], new))
            self.against[own] += after - before
            self.seen[own, position] = new

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        self.spend_on(rows)
        out = torch.empty((len(rows), self.vocabulary), dtype=torch.float64)
        agreeing = torch.where(self.against == 0, self.language.weights, 0.0)  # (B, M), for hidden positions
        for position in positions.unique().tolist():
            entries = (positions == position).nonzero().squeeze(1)
            which = rows[entries]
            held, own = agreeing[which], self.tokens[which, position]
            if bool((own != self.vocabulary).any()):
                others = self.against[which] - self._contradicts(own, position)
                held = torch.where(others == 0, self.language.weights, 0.0)
            out[entries] = held @ self.language.one_hot(position)
        return normalised(out, torch.full_like(rows, self.vocabulary))

    def dead(self) -> Tensor:
        return (self.against > 0).all(1)

    def _contradicts(self, tokens: Tensor, position: int) -> Tensor:
        """(K, M), 1 where a revealed token (K) contradicts an answer."""
        shown = tokens.unsqueeze(1)
        differs = (shown != self.vocabulary) & (shown != self.language.answers[:, position])
        return differs.to(torch.int16)
