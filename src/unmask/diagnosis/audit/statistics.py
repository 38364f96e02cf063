"""What is counted in a row: numbers whose means over rows tell one law of rows from another.

Windows overlap and rows are long, so neighbouring windows are dependent and a chi-square over windows would raise false
alarms; rows are independent. Hence everything here is one number a row, and the tests of `compare` are over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unmask.languages import Language
from unmask.metrics import window_counts

MAX_WINDOWS = 4096  # the longest windows whose law is looked up: V^size at most this
LONGEST = 4
MAX_PAIRS = 2**20
CELLS = 64  # pairs are pooled, by how frequent they are, into at most so many
EXPECTED = 50  # of whatever is counted, in the samples: below, a mean is not yet normal at the alarm rates used here
PARTS = 16  # rounds, and places, are pooled into at most so many
BITS = 12  # classes of surprise: 0 to 1 bit, 1 to 2, ..., 12 and more, impossible


class Statistics:
    """Rows (B, L) -> (B, D): pairs, surprise, repetition and validity.

    The surprise of a token is -log2 q(x_j | the few before it), from the language's own law of short windows: its
    classes see a tail that is cut off or too heavy (precision, temperature), its last one the impossible windows, its
    square per row whether rows differ among themselves as they should. Repetition (the same token twice in a row,
    anywhere or at a distance) sees noise that positions share.

    Where rounds (B, L) are known, what each reveals and how surprising that was then, which places are early, and how
    often neighbours are revealed together.
    """

    def __init__(self, language: Language, reference: Tensor, rows: int, rounds: int = 1) -> None:
        length, vocabulary = reference.shape[1], language.vocabulary
        self.language, self.rounds = language, rounds
        self.size = max(s for s in range(1, LONGEST + 1) if s == 1 or (vocabulary**s <= MAX_WINDOWS and s <= length))
        law = language.window_law(self.size, length).view(-1, vocabulary)
        self.bits = -(law / law.sum(1, keepdim=True)).nan_to_num(0.0).log2().view(-1)
        self.pair_size = 2 if length > 1 and vocabulary**2 <= MAX_PAIRS else 1
        counts = window_counts(reference, vocabulary, self.pair_size)[0]
        cells = max(1, min(CELLS, rows * length // EXPECTED))
        by_count = counts.argsort(descending=True, stable=True)
        before = counts[by_count].cumsum(0) - counts[by_count]
        self.cells = torch.empty_like(by_count)
        self.cells[by_count] = (before / counts.sum() * cells).long().clamp(max=cells - 1)
        self.typical = float(self.surprise(reference)[0].sum(1).mean())

    def surprise(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(bits, impossible) of each window, (B, L-size+1): no bits where it is impossible."""
        bits = self.bits[_codes(tokens, self.language.vocabulary, self.size)]
        impossible = torch.isinf(bits)
        return torch.where(impossible, 0.0, bits), impossible

    def __call__(self, tokens: Tensor, order: Tensor | None = None, surprise: Tensor | None = None) -> Rows:
        """Of tokens (B, L); order: the round of each, surprise: -log p of it when it was revealed."""
        bits, impossible = self.surprise(tokens)
        classes = torch.where(impossible, BITS + 1, bits.long().clamp(max=BITS))
        pairs = self.cells[_codes(tokens, self.language.vocabulary, self.pair_size)]
        whole = bits.sum(1)
        valid = self.language.supports(tokens)
        counted = [
            _histogram(pairs, int(self.cells.max()) + 1),
            _histogram(classes, BITS + 2),
            *(
                (tokens[:, lag:] == tokens[:, :-lag]).sum(1, keepdim=True)
                for lag in range(1, 5)
                if lag < len(tokens[0])
            ),
            (~valid).unsqueeze(1),
        ]
        measured = [
            *(part.sum(1) for part in bits.tensor_split(min(4, bits.shape[1]), dim=1)),
            (whole - self.typical) ** 2,
            (_histogram(tokens, self.language.vocabulary) ** 2).sum(1),
            (counted[0] ** 2).sum(1),
            *([] if order is None or surprise is None else self._ordered(order, surprise)),
        ]
        columns = torch.cat([*counted, torch.stack(measured, 1)], 1).double()
        return Rows(tokens, columns, columns.shape[1] - len(measured), whole, ~valid)

    def _ordered(self, order: Tensor, surprise: Tensor) -> list[Tensor]:
        parts = min(PARTS, self.rounds)
        part = ((order - 1) * parts // self.rounds).clamp(max=parts - 1)
        surprises = torch.zeros((len(order), parts), dtype=torch.float64).scatter_add_(1, part, surprise.double())
        places = order.double().tensor_split(min(PARTS, order.shape[1]), dim=1)
        together = [(order[:, lag:] == order[:, :-lag]).sum(1) for lag in range(1, 5) if lag < order.shape[1]]
        return [*_histogram(part, parts).T, *surprises.T, *(rounds.mean(1) for rounds in places), *together]


@dataclass(frozen=True)
class Rows:
    """Some rows and their statistics."""

    tokens: Tensor  # (B, L)
    columns: Tensor  # (B, D)
    counted: int  # so many columns, the first ones, are counts; the last of them is `invalid`
    bits: Tensor  # (B): the surprise of a row
    invalid: Tensor  # (B): whether the language cannot have made it

    @cached_property
    def mean(self) -> Tensor:
        return self.columns.mean(0)

    @cached_property
    def scatter(self) -> Tensor:
        """(D, D): (n-1) S, what rows are apart from their mean; the samples' stands beside that of each specimen."""
        centred = self.columns - self.mean
        return centred.T @ centred

    def different(self) -> Rows:
        """Each sequence once."""
        _, which = self.tokens.unique(dim=0, return_inverse=True)
        first = torch.full((int(which.max()) + 1,), len(which)).scatter_reduce_(
            0, which, torch.arange(len(which)), "amin"
        )
        return Rows(self.tokens[first], self.columns[first], self.counted, self.bits[first], self.invalid[first])

    def __len__(self) -> int:
        return len(self.columns)


def _codes(tokens: Tensor, vocabulary: int, size: int) -> Tensor:
    return tokens.unfold(1, size, 1) @ (vocabulary ** torch.arange(size - 1, -1, -1))


def _histogram(codes: Tensor, size: int) -> Tensor:
    """(B, size) counts of codes (B, K)."""
    return torch.zeros((len(codes), size)).scatter_add_(1, codes, torch.ones(codes.shape))
