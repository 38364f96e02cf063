"""Tables of answers: each sequence of the language is listed, with its weight."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream, categorical, uniform
from unmask.core.errors import UnmaskError
from unmask.core.memory import fits
from unmask.languages.base import LANGUAGES, MESSAGE_BYTES, Language, Tokens, as_tokens

LN_2 = math.log(2)


@LANGUAGES.register("answers")
class Answers(Language):
    """The listed sequences of one length, with probabilities in proportion to their weights (default: equal).

    answers: (M, L) distinct sequences. end: the token that ends and pads sequences, if they vary in length.
    """

    kind: ClassVar[str] = "answers"

    def __init__(
        self,
        answers: Tokens,
        vocabulary: int | None = None,
        weights: Sequence[float] | None = None,
        end: int | None = None,
    ) -> None:
        self.answers = as_tokens(answers, "answers")
        self.answers = as_tokens(answers, "answers")
        if self.answers.dim() != 2 or not self.answers.numel():
            raise UnmaskError(f"answers have shape {tuple(self.answers.shape)}; expected (answers, length)")

        if vocabulary is None:
            vocabulary = int(self.answers.max()) + 1
        self.vocabulary = arguments.whole("vocabulary", vocabulary)
        self.check_tokens(self.answers)
        if len(self.answers.unique(dim=0)) < len(self.answers):
            raise UnmaskError("answers contain a sequence twice; expected distinct ones. Add its weights.")

        self.weights = _weights(weights, len(self.answers))
        if end is not None:
            self.end = arguments.whole("end", end, 0, self.vocabulary - 1)
        fits(self.vocabulary, f"symbols of {len(self.answers)} answers", 8 * len(self.answers))

    def parameters(self) -> dict[str, Any]:
        content = {"answers": self.answers.tolist(), "vocabulary": self.vocabulary}
        if (self.weights != 1).any():
            content["weights"] = self.weights.tolist()
        if self.end is not None:
            content["end"] = self.end
        return content

    def possible_lengths(self, longest: int) -> np.ndarray:
        return super().possible_lengths(longest) & (np.arange(longest + 1) == self.answers.shape[1])

    def _agreeing(self, tokens: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of rows, with the weights (rows, M) of the answers that agree with their revealed tokens, else 0."""
        block = max(MESSAGE_BYTES // (8 * len(self.answers)), 1)
        for start in range(0, len(tokens), block):
            rows = slice(start, min(start + block, len(tokens)))
            agrees = torch.ones(len(tokens[rows]), len(self.answers), dtype=torch.bool)
            for shown, column in zip(tokens[rows].T, self.answers.T, strict=True):
                if (shown != self.vocabulary).any():
                    agrees &= (shown.unsqueeze(1) == column) | (shown == self.vocabulary).unsqueeze(1)
            yield rows, agrees * self.weights

    def log_evidence(self, tokens: Tensor) -> Tensor:
        held = [weights.sum(1) for _, weights in self._agreeing(tokens)]
        return (torch.cat(held) / self.weights.sum()).log()

    def _posterior(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The sum of weights (rows, M) times the one-hot tokens (M, V) of a position."""
        out = torch.zeros((*positions.shape, self.vocabulary), dtype=torch.float64)
        for rows, weights in self._agreeing(tokens):
            places = positions[rows]
            for position in places.unique().tolist():
                row, column = (places == position).nonzero(as_tuple=True)
                out[rows.start + row, column] = weights[row] @ self.one_hot(position)
        return normalised(out, tokens.gather(1, positions))

    def one_hot(self, position: int) -> Tensor:
        """(M, V), 1 at the token of each answer."""
        return (self.answers[:, position, None] == torch.arange(self.vocabulary)).double()

    def _sample(self, row_ids: Tensor, given: Tensor, seed: int) -> Tensor:
        """Draw one answer per row, of those that agree with the given tokens."""
        u = uniform(seed, Stream.LANGUAGE, row_ids, torch.tensor(0))
        drawn = torch.empty_like(row_ids)
        for rows, weights in self._agreeing(given.expand(len(row_ids), -1)):
            drawn[rows] = categorical(weights, u[rows])
        return self.answers[drawn]

    def _entropy(self, given: Tensor) -> float:
        (_, held), *_ = self._agreeing(given.unsqueeze(0))
        return float(torch.special.entr(held / held.sum()).sum())

    def facts(self) -> dict[str, Any]:
        length = self.answers.shape[1]
        return {"answers": len(self.answers), "length": length, "entropy_bits": self.entropy(length).value / LN_2}


def _weights(weights: Sequence[float] | None, count: int) -> Tensor:
    if weights is None:
        return torch.ones(count, dtype=torch.float64)
    try:
        checked = torch.as_tensor(weights, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnmaskError(f"weights are not numbers: {error}. Give one positive number per answer.") from error
    if checked.shape != (count,) or not bool(((checked > 0) & (checked < torch.inf)).all()):
        raise UnmaskError(
            f"weights have shape {tuple(checked.shape)}, or one is not positive and finite",
            f"expected ({count},) positive numbers, one per answer",
        )
    if not bool(checked.sum() < torch.inf):
        raise UnmaskError("the sum of the weights is infinite; expected a finite one. Divide the weights by a number.")
    return checked


def normalised(masses: Tensor, shown: Tensor) -> Tensor:
    """(B, K, V) distributions from masses: one-hot where a token is revealed; uniform in impossible contexts."""
    vocabulary = masses.shape[-1]
    total = masses.sum(-1, keepdim=True)
    distribution = torch.where(total > 0, masses / total, 1 / vocabulary)
    one_hot = (torch.arange(vocabulary) == shown.unsqueeze(-1)).double()
    return torch.where(shown.unsqueeze(-1) == vocabulary, distribution, one_hot)
