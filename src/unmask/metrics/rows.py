"""One record per row, and the metrics, each a number per row: scores, tallies and boards are computed from these.

A metric is the mean over rows of a number, shown on a scale on which it may not add up:

    ser                     1[q(x | c) = 0]
    generative_perplexity   2^mean of -log2 q(x | c) / |x|      over the valid rows with tokens to write
    model_calls             model calls of a row

and for languages with steps (languages/base.py):

    answer_error            1[the answer of x is not that of its question]
    right_by_wrong_steps    1[it is, and q(x | c) = 0]: right by wrong steps
    wrong_steps             the fraction of the steps of x that do not follow

Given tokens c are the prompt, and |x| counts the tokens to write. Rows with equal given tokens have one prompt, and
only prompts are independent: m samples each of K prompts have the variance (between prompts + within / m) / K. So are
only groups of rows that a joint draw chose among each other. To add a
metric, add an entry to METRICS: scores, sweeps and boards use all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, independent, share
from unmask.core.means import loss, mean
from unmask.languages import Language, LanguageLike, load
from unmask.languages.base import Steps
from unmask.samplers import Generation

CHANGED = "the texts differ from the given tokens; expected texts that continue them"


@dataclass(frozen=True)
class Rows:
    """B rows of L tokens with their probabilities under a language."""

    language: Language
    tokens: Tensor  # (B, L)
    given: Tensor | None  # (B, L), V where hidden; None without given tokens
    prompt: Tensor | None  # (B): rows with equal numbers continue one prompt
    valid: Tensor  # Bool (B): q(x | c) > 0
    bits: Tensor  # (B) -log2 q(x | c), infinite for rows that are not valid
    size: Tensor  # (B) |x|: number of tokens to write
    steps: Steps | None  # of reasoning
    model_calls: Tensor | None = None  # (B), of a Generation
    chosen: Tensor | None = None  # (B): rows with equal numbers were chosen among each other (samplers/joint/particles)

    def __repr__(self) -> str:
        return f"<Rows: {len(self)} of {self.tokens.shape[1]} tokens, {int((~self.valid).sum())} impossible>"

    @property
    def groups(self) -> Tensor | None:
        """(B): only rows with different numbers are independent; None if all are, as given one prompt."""
        several = self.prompt is not None and len(self.prompt.unique()) > 1
        return self.prompt if several else self.chosen

    @property
    def texts(self) -> Tensor:
        """(B): equal rows have equal numbers."""
        return torch.tensor([crc32(row.tobytes()) for row in self.tokens.numpy()])

    @property
    def ser(self) -> Estimate:
        return share(~self.valid, self.groups)

    def estimate(self, metric: str) -> Estimate | None:
        return METRICS[metric].of(self)

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Metric:
    """values: (B) of Rows, NaN for rows without a value, None if Rows lacks the data."""

    values: Callable[[Rows], Tensor | None]
    events: bool = False  # the values are 0 and 1, and their mean is a probability
    loss: bool = False  # from 0 up, and a few rows may carry the mean
    shown: Callable[[float], float] = float  # nondecreasing
    cost: bool = False  # of making the rows, not part of their score
    label: str = ""  # in the table of a score, which leaves out metrics without one
    fraction: bool = False  # shown there in percent, as events are

    def reduce(
        self, values: Tensor | None, prompt: Tensor | None = None, texts: Tensor | None = None
    ) -> Estimate | None:
        """The estimate from values (n), also of some rows; None without any value. texts: as in Rows, for losses."""
        if values is None or not bool((present := ~values.isnan()).any()):
            return None
        groups = None if prompt is None else prompt[present]
        if self.events:
            return share(values[present] > 0, groups)

        estimate = mean(values[present], groups=groups)
        if self.loss and texts is not None:
            copies = len(texts[present].unique()) == 1
            estimate = loss(estimate, independent(values[present], groups), copies)
        return estimate.map(self.shown)

    def of(self, rows: Rows) -> Estimate | None:
        return self.reduce(self.values(rows), rows.groups, rows.texts if self.loss else None)


def bits_per_token(rows: Rows) -> Tensor:
    """(B) -log2 q(x | c) / |x| of valid rows with tokens to write; NaN for the others."""
    return torch.where(rows.valid & (rows.size > 0), rows.bits / rows.size, torch.nan)


METRICS = {
    "ser": Metric(lambda rows: (~rows.valid).double(), events=True),
    "generative_perplexity": Metric(bits_per_token, loss=True, shown=math.exp2),
    "answer_error": Metric(
        lambda rows: rows.steps and (~rows.steps.answer).double(), events=True, label="incorrect answers"
    ),
    "right_by_wrong_steps": Metric(
        lambda rows: rows.steps and (rows.steps.answer & ~rows.valid).double(),
        events=True,
        label="right answer, wrong steps",
    ),
    "wrong_steps": Metric(lambda rows: rows.steps and rows.steps.wrong_share, label="wrong steps", fraction=True),
    "model_calls": Metric(attrgetter("model_calls"), cost=True),
}


def rows(
    samples: Generation | Tensor,
    language: LanguageLike,
    *,
    given: Tensor | None = None,
    prompt: Tensor | None = None,
    chosen_among: int | None = None,
) -> Rows:
    """The probabilities of samples (B, L) from any source under a known language.

    given: the tokens (L) or (B, L) that they continue, V where hidden. (default: those of the Generation) Then all is
    conditional on it: a row that has changed a given token is invalid, and |x| counts the others. If all rows have, it
    is not theirs: an error. prompt (B): number of the prompt that each row continues. (default: one prompt for each
    distinct row of given) chosen_among: as in `score`
    """
    tokens: Any = samples
    calls = None
    if isinstance(samples, Generation):
        tokens, calls = samples.tokens, samples.model_calls
        if chosen_among is None:
            chosen_among = samples.chosen_among
        if given is None and bool((samples.order == 0).any()):
            given = samples.given

    language = load(language)
    tokens = language.check_tokens(tokens)
    language.check_length(tokens.shape[1])
    size = language.sizes(tokens)
    if given is not None:
        given = patterns(language, given, *tokens.shape)
        if bool((given == language.vocabulary).all()):
            given = None  # no token is given
        else:
            if bool(changed(tokens, given, language.vocabulary).all()):
                raise UnmaskError(CHANGED)
            size = own_sizes(language, tokens, given)
            if prompt is None:
                prompt = prompt_numbers(given)

    together = arguments.whole("chosen_among", entries.chosen(chosen_among, 1))

    bits = -language.log_prob(tokens, given) / math.log(2)
    return Rows(
        language=language,
        tokens=tokens,
        given=given,
        prompt=prompt,
        valid=torch.isfinite(bits),
        bits=bits,
        size=size,
        steps=language.steps(tokens),
        model_calls=calls,
        chosen=None if together == 1 else torch.arange(len(tokens)) // together,
    )


def changed(tokens: Tensor, given: Tensor, vocabulary: int) -> Tensor:
    """Bool (B): rows (B, L) that differ from their given tokens, V where hidden."""
    return ((given != vocabulary) & (given != tokens)).any(1)


def patterns(language: Language, given: Tensor, rows: int, length: int) -> Tensor:
    """(rows, L) given tokens with V where hidden, from one pattern for all or one per row."""
    return language.check_given(given, rows, length).expand(rows, length)


def prompt_numbers(given: Tensor) -> Tensor:
    """(rows): number of the prompt that each row continues."""
    return given.unique(dim=0, return_inverse=True)[1]


def several_prompts(given: Tensor) -> Tensor | None:
    """(rows): number of the prompt that each row continues; None given one prompt, as then rows are independent."""
    numbers = prompt_numbers(given)
    return numbers if bool(numbers.any()) else None


def own_sizes(language: Language, tokens: Tensor, given: Tensor) -> Tensor:
    """|x| of each row (B): its tokens up to and including the first end, without given ones."""
    inside = torch.arange(tokens.shape[1]) < language.sizes(tokens).unsqueeze(1)
    return (inside & (given == language.vocabulary)).sum(1)
