"""One record a row, and the yardsticks, each a number a row: every score, tally and board is a reduction of these.

A yardstick is the mean over rows of a number that each row has, shown on a scale on which it may not add up:

    ser                     1[q(x | c) = 0]
    generative_perplexity   2^mean of -log2 q(x | c) / |x|      over the valid rows that had something to write
    evaluations             those that a row needed

and of languages with steps (languages/steps.py), the others having nothing to say of them:

    answer_error            1[the answer of x is not that of its question]
    lucky_answers           1[it is, and q(x | c) = 0]: right by wrong steps
    wrong_steps             the share of the steps of x that do not follow

Rows with one prompt are not independent, and intervals are over prompts (metrics/given.py). A yardstick more is an
entry more in YARDSTICKS: scores, sweeps and boards ask all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unmask.core.estimates import Estimate, mean, share
from unmask.generation import Generation
from unmask.languages import Language, LanguageLike, load
from unmask.languages.steps import Steps
from unmask.metrics.given import own_sizes, patterns, prompt_numbers


@dataclass(frozen=True)
class Rows:
    """B rows of L tokens as a language sees them; what a generation of ours knows beside is None of other samples."""

    language: Language
    tokens: Tensor  # (B, L)
    given: Tensor | None  # (B, L), V where hidden; None where nothing was given
    prompt: Tensor | None  # (B): rows with the same number continue one prompt
    valid: Tensor  # Bool (B): q(x | c) > 0
    bits: Tensor  # (B) -log2 q(x | c), infinite where a row is not valid
    size: Tensor  # (B) |x|: the tokens that had to be written
    evaluations: Tensor | None = None  # (B)
    impossible: Tensor | None = None  # (B): the evaluation that first met a context of probability zero, or 0

    def __repr__(self) -> str:
        return f"<Rows: {len(self)} of {self.tokens.shape[1]} tokens, {int((~self.valid).sum())} invalid>"

    @property
    def told(self) -> Tensor:
        """Bool (B): the valid rows, but for those that were given whole and have nothing to tell."""
        return self.valid & (self.size > 0)

    @property
    def bits_per_token(self) -> Tensor:
        """(B) -log2 q(x | c) / |x|; NaN of rows that are not told."""
        return torch.where(self.told, self.bits / self.size, torch.nan)

    @cached_property
    def steps(self) -> Steps | None:
        return self.language.steps(self.tokens)

    @property
    def ser(self) -> Estimate:
        return share(~self.valid, self.prompt)

    def estimate(self, yardstick: str) -> Estimate | None:
        return YARDSTICKS[yardstick].of(self)

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Yardstick:
    """values: (B) of Rows, NaN where a row has nothing to say, None where its rows do not know it."""

    values: Callable[[Rows], Tensor | None]
    events: bool = False  # the values are 0 and 1, and their mean is a probability
    shown: Callable[[float], float] = float  # nondecreasing
    cost: bool = False  # of making the rows, which is no part of their score

    def reduce(self, values: Tensor | None, prompt: Tensor | None = None) -> Estimate | None:
        """The estimate of values (n), whose rows they may be; None where there is none to say anything."""
        if values is None or not bool((said := ~values.isnan()).any()):
            return None
        groups = None if prompt is None else prompt[said]
        if self.events:
            return share(values[said] > 0, groups)
        return mean(values[said], groups=groups).map(self.shown)

    def of(self, made: Rows) -> Estimate | None:
        return self.reduce(self.values(made), made.prompt)


def _of_steps(made: Rows, what: Callable[[Steps], Tensor]) -> Tensor | None:
    return None if made.steps is None else what(made.steps).double()


YARDSTICKS = {
    "ser": Yardstick(lambda made: (~made.valid).double(), events=True),
    "generative_perplexity": Yardstick(lambda made: made.bits_per_token, shown=lambda bits: 2.0**bits),
    "answer_error": Yardstick(lambda made: _of_steps(made, lambda steps: ~steps.answer), events=True),
    "lucky_answers": Yardstick(lambda made: _of_steps(made, lambda steps: steps.answer & ~made.valid), events=True),
    "wrong_steps": Yardstick(lambda made: _of_steps(made, lambda steps: steps.wrong_share)),
    "evaluations": Yardstick(lambda made: None if made.evaluations is None else made.evaluations.double(), cost=True),
}


def rows(
    samples: Generation | Tensor, language: LanguageLike, *, given: Tensor | None = None, prompt: Tensor | None = None
) -> Rows:
    """What a known language says of each of samples (B, L), whoever made them.

    given: the tokens (L) or (B, L) that they continue, V where hidden; a generation of ours knows its own. Then all is
    conditional on it: a row that has changed a given token is invalid, and |x| counts the others. prompt (B): which
    prompt each row continues; different rows of given are different prompts, unless told otherwise.
    """
    made = samples if isinstance(samples, Generation) else None
    language = load(language)
    tokens = language.check_tokens(samples.tokens if isinstance(samples, Generation) else samples)
    language.check_length(tokens.shape[1])
    if given is None and made is not None and bool((made.order == 0).any()):
        given = made.given
    shown = None if given is None else patterns(language, given, *tokens.shape)
    if shown is not None and bool((shown == language.vocabulary).all()):
        shown = None  # nothing is given
    bits = -language.log_prob(tokens, shown) / math.log(2)
    return Rows(
        language=language,
        tokens=tokens,
        given=shown,
        prompt=prompt if prompt is not None else prompt_numbers(shown),
        valid=torch.isfinite(bits),
        bits=bits,
        size=own_sizes(language, tokens, shown),
        evaluations=None if made is None else made.evaluations,
        impossible=None if made is None else made.impossible,
    )
