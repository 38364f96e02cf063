"""The frontier: generative perplexity against entropy, for several temperatures of each sampler.

For the distribution p of a sampler and a judge r, in nats per sequence of L tokens (arXiv 2604.02718),

    KL(p || r) = E_p[-log r(x)] - H(p)              log generative perplexity minus entropy

so a lower perplexity can mean a better sampler, or one with a lower entropy. Only whole curves are comparable. With a
known language all three terms are known:

    -log r(x) = sum_j -log r(x_j | x_<j)            r = (1-w) q + w/V: the language with a smoothing w
    -log p(x | seed), H(p | seed) <= H(p)           probability of the path (generation/teaching.py), for samplers that
                                                    have one; equal if p does not depend on the random seed: AR,
                                                    fixed orders, and rules that draw no random numbers
    unigram                                         entropy of the token frequencies within a row, the usual substitute
                                                    for an unknown H(p)

The judge gives impossible sequences a finite loss, about log(V/w) nats per error, as a network would. With w = 0 it is
the language itself, and one error makes the perplexity infinite. `naive` beats perplexity and unigram entropy without a
model (arXiv 2606.08417 has such samplers; this rule is new).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, exactly, mean, proportion
from unmask.denoisers import Denoiser, Sharpened, as_marginals
from unmask.diagnosis.texts import token_entropy
from unmask.generation import Generation, generate
from unmask.generation.teaching import Unbounded, read, teach_sampler
from unmask.ideal import Ideal, Perturbed
from unmask.languages import Language, LanguageLike, load
from unmask.samplers import SAMPLERS, Sampler
from unmask.schedules import deltas

USUAL = ("autoregressive", "ancestral", "entropy", "low-confidence")
TEMPERATURES = (0.3, 0.5, 0.7, 0.85, 1.0, 1.15)
SMOOTHING = 1e-3
LANGUAGE, NAIVE = "language", "naive"
PENALTIES = (0.0, *(2.0**k / 64 for k in range(10)))  # nats per earlier occurrence of a symbol in the row
NEAR = 1e-9
PROBES = 32  # sequences of the language that test whether the random seed changes p(x | seed)


@dataclass(frozen=True)
class Point:
    """A distribution of sequences compared with the judge, in nats per token."""

    sampler: str
    setting: float | None  # temperature, for `naive` the penalty, for the language None
    cross_entropy: Estimate  # log generative perplexity
    entropy: Estimate | None  # H(p | seed) / L; None if p is unknown
    divergence: Estimate | None  # KL(p || judge) / L: the mean over random seeds
    exact: bool  # p does not depend on the seed: then these are H(p) and KL(p || judge)
    unigram: Estimate
    ser: Estimate
    model_calls: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def frontier(
    language: LanguageLike,
    length: int = 128,
    samplers: Sequence[str] = USUAL,
    *,
    temperatures: Sequence[float] = TEMPERATURES,
    steps: int = 16,
    rows: int = 400,
    seed: int = 0,
    smoothing: float = SMOOTHING,
) -> list[Point]:
    """Points of the language, of each sampler by temperature, and of `naive` by penalty."""
    language = load(language)
    if language.end is not None:
        raise UnmaskError(f"{language.kind} varies in length; expected a language of fixed length")
    language.check_length(length)
    arguments.number("smoothing", smoothing, 0, 1)
    judge = Perturbed(language, "mix", smoothing)
    by_name = {name: SAMPLERS.make(name) for name in samplers}
    how = {"steps": steps, "length": length, "rows": rows, "seed": seed}
    for temperature in temperatures:
        if not arguments.number("temperature", temperature) > 0:
            raise UnmaskError("temperature is 0; expected above 0, since sampling at 0 is deterministic")
    points = [_own(language, length, judge, rows, seed)]
    with progress.track("frontier", len(by_name) * len(temperatures)) as advance:
        for name, sampler in by_name.items():
            distribution = distribution_of(sampler, language, length, deltas("linear", steps))
            for temperature in temperatures:
                points.append(_sampled(name, sampler, distribution, language, judge, temperature, how))
                advance(1)
    return points + naive(language, length, judge)


def price(judge: Denoiser, tokens: Tensor) -> Tensor:
    """(B): -log r(x) of tokens (B, L) in nats, from left to right."""
    return -read(judge, tokens).of(tokens.reshape(-1)).view_as(tokens).log().sum(1)


def distribution_of(sampler: Sampler, language: Language, length: int, delta: Tensor) -> bool | None:
    """Whether p(x | seed) = p(x), tested on sequences of the language; None if the sampler's paths do not show it."""
    if sampler.distribution == "causal":
        return True
    truth = language.sample(PROBES, length)
    blank, rows = language.blank(PROBES, length), torch.arange(PROBES)
    try:
        one, other = (
            teach_sampler(Ideal(language), blank, truth, sampler, delta, Randomness(seed, rows)).sum(1)
            for seed in (0, 1)
        )
    except Unbounded:
        return None
    return torch.allclose(one, other)


def path_nats(sampler: Sampler, generation: Generation, denoiser: Denoiser) -> Tensor:
    """(B): -log p(x | seed) of generated sequences, if `distribution_of` is not None."""
    return (
        price(denoiser, generation.tokens) if sampler.distribution == "causal" else -generation.probability.log().sum(1)
    )


def _own(language: Language, length: int, judge: Perturbed, rows: int, seed: int) -> Point:
    tokens = language.sample(rows, length, seed=seed)
    nats, paid = -language.log_prob(tokens), price(judge, tokens)
    entropy = language.entropy(length, rows=rows, seed=seed).map(lambda value: value / length)
    return Point(
        sampler=LANGUAGE,
        setting=None,
        cross_entropy=_mean(paid / length),
        entropy=entropy,
        divergence=_mean((paid - nats) / length),
        exact=True,
        unigram=_mean(token_entropy(tokens)),
        ser=exactly(0.0),
        model_calls=0.0,
    )


def _sampled(
    name: str,
    sampler: Sampler,
    distribution: bool | None,
    language: Language,
    judge: Perturbed,
    temperature: float,
    how: Mapping[str, Any],
) -> Point:
    generation = generate(language, sampler=sampler, temperature=temperature, **how)
    length, tokens = generation.tokens.shape[1], generation.tokens
    paid = price(judge, tokens)
    own = None if distribution is None else path_nats(sampler, generation, Sharpened(Ideal(language), temperature))
    return Point(
        sampler=name,
        setting=temperature,
        cross_entropy=_mean(paid / length),
        entropy=None if own is None else _mean(own / length),
        divergence=None if own is None else _mean((paid - own) / length),
        exact=bool(distribution),
        unigram=_mean(token_entropy(tokens)),
        ser=proportion(int((~language.supports(tokens)).sum()), len(tokens)),
        model_calls=float(generation.model_calls.double().mean()),
    )


def _mean(values: Tensor) -> Estimate:
    """Mean; infinite if the judge gives a row probability 0."""
    return mean(values) if bool(values.isfinite().all()) else exactly(math.inf, "a row is impossible")


def naive(
    language: Language, length: int, judge: Perturbed, penalties: Sequence[float] = PENALTIES, slip: bool = True
) -> list[Point]:
    """A sampler without a model, with exact values: p is uniform over V rows, one for each first symbol.

    Each next symbol has the highest probability under the judge after a frequency penalty: `penalty` nats per earlier
    occurrence in the row. So the perplexity is low, and the penalty sets the unigram entropy.
    slip: in the second half insert one impossible symbol, at the first position with one, so the row is impossible.
    """
    symbols = language.vocabulary
    tokens = _walks(judge, length, penalties, slip)
    paid, entropy = price(judge, tokens), token_entropy(tokens)
    wrong = (~language.supports(tokens)).double()
    points = []
    for number, penalty in enumerate(penalties):
        here = slice(number * symbols, (number + 1) * symbols)
        nats, own = float(paid[here].mean()) / length, math.log(symbols) / length
        points.append(
            Point(
                sampler=NAIVE,
                setting=penalty,
                cross_entropy=exactly(nats),
                entropy=exactly(own),
                divergence=exactly(nats - own),
                exact=True,
                unigram=exactly(float(entropy[here].mean())),
                ser=exactly(float(wrong[here].mean())),
                model_calls=0.0,
            )
        )
    return points


def _walks(judge: Perturbed, length: int, penalties: Sequence[float], slip: bool) -> Tensor:
    """(penalties V, L): rows of each penalty, ordered by first symbol."""
    symbols = judge.vocabulary
    rows = len(penalties) * symbols
    weight = torch.tensor(penalties, dtype=torch.float64).repeat_interleave(symbols).unsqueeze(1)
    reader = judge.causal(rows, length)
    reader.extend(torch.full((rows, 1), symbols))
    tokens = torch.full((rows, length), symbols)
    tokens[:, 0] = torch.arange(symbols).repeat(len(penalties))
    counts = torch.zeros((rows, symbols), dtype=torch.float64)
    due = torch.full((rows,), slip)
    for position in range(1, length):
        last = tokens[:, position - 1 : position]
        counts.scatter_add_(1, last, torch.ones_like(last, dtype=torch.float64))
        marginals = as_marginals(reader.extend(last)).dense()
        slips = due & (marginals.amin(1) <= judge.epsilon / symbols * (1 + NEAR)) & (position >= length // 2)
        tokens[:, position] = torch.where(slips, marginals.argmin(1), (marginals.log() - weight * counts).argmax(1))
        due &= ~slips
    return tokens


def beats(points: Sequence[Point]) -> Point | None:
    """The naive point that beats the language: lower perplexity, with a unigram entropy at least that of the language.

    Both metrics prefer it to the language itself. None if there is no such point.
    """
    own = next(point for point in points if point.sampler == LANGUAGE)
    sound = [p for p in points if p.sampler == NAIVE and p.unigram.value >= own.unigram.value]
    best = min(sound, key=lambda point: point.cross_entropy.value, default=None)
    return best if best is not None and best.cross_entropy.value < own.cross_entropy.value else None
