"""score(): anybody's samples against a language that is known exactly."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from unmask.estimates import Estimate, mean, share
from unmask.generation import Generation
from unmask.languages import Interval, Language
from unmask.metrics.given import own_sizes, patterns, prompt_numbers
from unmask.metrics.interval import rao_blackwell_ser
from unmask.metrics.windows import Bigrams, bigrams


@dataclass(frozen=True)
class Score:
    """SER = P(q(x) = 0) and the generative perplexity 2^E[-log2 q(x)/|x|] of the valid rows, of B rows of length L.

    The perplexity is what the paper's plots call TER. It falls when a sampler repeats itself, so read it beside SER
    and the entropy of the bigrams (theory.md 2). `nll_bits_per_token` is its logarithm, the mean over rows; `_pooled`
    divides sums, which differs where sequences vary in length. Without a valid row all three are None.
    `impossible_rows` and the Rao-Blackwellised SER of the interval language are known for generations of ours only.
    """

    rows: int
    length: int
    ser: Estimate
    generative_perplexity: Estimate | None
    nll_bits_per_token: float | None
    nll_bits_per_token_pooled: float | None
    invalid_rows: int
    impossible_rows: int | None
    bigrams: Bigrams | None
    ser_rao_blackwell: Estimate | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def score(samples: Generation | Tensor, language: Language, given: Tensor | None = None) -> Score:
    """What a known language says of samples (B, L), whoever made them.

    given: the tokens (L) or (B, L) that they continue, V where hidden; a generation of ours knows its own. Then all is
    conditional on it: a row that has changed a given token is invalid, |x| counts the others, and intervals are over
    prompts, which are as many as there are different rows of it (metrics/given.py). `n` is their number.
    """
    made = samples if isinstance(samples, Generation) else None
    tokens = language.check_tokens(samples.tokens if isinstance(samples, Generation) else samples)
    language.check_length(tokens.shape[1])
    if given is None and made is not None and bool((made.order == 0).any()):
        given = made.given
    prompts = None if given is None else patterns(language, given, *tokens.shape)
    if prompts is not None and bool((prompts == language.vocabulary).all()):
        prompts = None  # nothing is given
    groups = prompt_numbers(prompts)
    bits = -language.log_prob(tokens, prompts) / math.log(2)
    valid = torch.isfinite(bits)
    sizes = own_sizes(language, tokens, prompts)
    told = valid & (sizes > 0)  # a row that was given whole has nothing to tell
    per_token = mean((bits / sizes)[told], groups=None if groups is None else groups[told]) if told.any() else None
    return Score(
        rows=len(tokens),
        length=tokens.shape[1],
        ser=share(~valid, groups),
        generative_perplexity=per_token.map(lambda value: 2.0**value) if per_token else None,
        nll_bits_per_token=per_token.value if per_token else None,
        nll_bits_per_token_pooled=float(bits[told].sum() / sizes[told].sum()) if told.any() else None,
        invalid_rows=int((~valid).sum()),
        impossible_rows=None if made is None else int((made.impossible > 0).sum()),
        bigrams=bigrams(tokens, language, prompts),
        ser_rao_blackwell=None if made is None else _by_order(made, language, groups),
    )


def _by_order(made: Generation, language: Language, groups: Tensor | None) -> Estimate | None:
    """What the orders alone say of SER: of the interval language's own ideal denoiser, in an order fixed beforehand."""
    match made.ideal, language:
        case Interval(width=filled), Interval(width=scored) if filled == scored and made.planned:
            return rao_blackwell_ser(made.order, language, groups)
    return None
