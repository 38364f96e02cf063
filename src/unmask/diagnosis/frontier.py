"""The frontier: what generative perplexity and entropy say of a sampler together, and what neither says alone.

Of a sampler's law p and a judge r, in nats a sequence of L tokens (arXiv 2604.02718),

    KL(p || r) = E_p[-log r(x)] - H(p)              the log of generative perplexity, less an entropy

so that a lower perplexity may be a better sampler or one that says less, and what is comparable are curves: perplexity
against entropy, the temperature swept. With a known language all three are known:

    -log r(x) = sum_j -log r(x_j | x_<j)            r = (1-w) q + w/V: the language, read by a judge that errs as all do
    -log p(x | luck), H(p | luck) <= H(p)           the price of the path (generation/teaching.py), of samplers that
                                                    have one; equal where p does not depend on the luck: AR, orders,
                                                    and rules that look and draw no chance of their own
    unigram                                         H of the frequencies of a row's own tokens: what is read in place
                                                    of H(p) where nobody knows it

The judge gives impossible sequences a price, about log(V/w) nats a mistake, as any network does that is asked; w = 0 is
the language itself, by which the perplexity of whoever makes a mistake is infinite. `naive` is what beats these two
yardsticks without a model (arXiv 2606.08417 has such samplers; this rule is ours).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.chance import Luck
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, exactly, mean, proportion
from unmask.denoisers import Denoiser, Sharpened, as_marginals
from unmask.denoisers.marginals import Marginals
from unmask.denoisers.reshaped import Reshaped
from unmask.diagnosis.texts import token_entropy
from unmask.generation import Generation, generate
from unmask.generation.teaching import Unbounded, read, teach_sampler
from unmask.ideal import Ideal
from unmask.languages import Language, LanguageLike, load
from unmask.samplers import SAMPLERS, Sampler
from unmask.schedules import deltas

USUAL = ("autoregressive", "ancestral", "entropy", "low-confidence")
TEMPERATURES = (0.3, 0.5, 0.7, 0.85, 1.0, 1.15)
SMOOTHING = 1e-3
LANGUAGE, NAIVE = "language", "naive"
PENALTIES = (0.0, *(2.0**k / 64 for k in range(10)))  # of a symbol, nats for each time that a row has it
NEAR = 1e-9
TOLD = 32  # sequences of the language that a sampler is led to, to see whether its luck counts


@dataclass(frozen=True)
class Point:
    """A law of sequences against the judge, in nats a token."""

    sampler: str
    setting: float | None  # the temperature; of `naive` its penalty; None of the language
    cross_entropy: Estimate  # log generative perplexity
    entropy: Estimate | None  # H(p | luck) / L; None where the law is not known
    divergence: Estimate | None  # KL(p || judge) / L: the mean over the luck
    exact: bool  # whether the law does not depend on the luck: then these are H(p) and KL(p || judge)
    unigram: Estimate
    ser: Estimate
    evaluations: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Judge(Reshaped):
    """(1-w) p + w/V: as it was told, but nothing is impossible."""

    def __init__(self, inner: Denoiser, smoothing: float = SMOOTHING) -> None:
        arguments.number("smoothing", smoothing, 0, 1)
        super().__init__(inner)
        self.smoothing = smoothing

    def options(self) -> Mapping[str, Any]:
        return {"smoothing": self.smoothing}

    @property
    def least(self) -> float:
        """What an impossible symbol has."""
        return self.smoothing / self.vocabulary

    def reshape(self, marginals: Marginals, positions: Tensor) -> Tensor:
        return (1 - self.smoothing) * marginals.dense() + self.least


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
    """The language's own point, those of each sampler by temperature, and those of `naive` by its penalty."""
    language = load(language)
    if language.end is not None:
        raise UnmaskError(f"{language.kind} varies in length, and nats a token have no one L; take one of fixed length")
    language.check_length(length)
    judge = Judge(Ideal(language), smoothing)
    made = {name: SAMPLERS.make(name) for name in samplers}
    how = {"steps": steps, "length": length, "rows": rows, "seed": seed}
    for temperature in temperatures:
        if not arguments.number("temperature", temperature) > 0:
            raise UnmaskError("temperature is 0, at which nothing is left to draw; give temperatures above 0")
    points = [_own(language, length, judge, rows, seed)]
    with progress.track("frontier", len(made) * len(temperatures)) as advance:
        for name, sampler in made.items():
            law = law_of(sampler, language, length, deltas("linear", steps))
            for temperature in temperatures:
                points.append(_sampled(name, sampler, law, language, judge, temperature, how))
                advance(1)
    return points + naive(language, length, judge)


def price(judge: Denoiser, tokens: Tensor) -> Tensor:
    """(B) -log r(x) in nats of tokens (B, L), read from left to right."""
    return -read(judge, tokens).of(tokens.reshape(-1)).view_as(tokens).log().sum(1)


def law_of(sampler: Sampler, language: Language, length: int, delta: Tensor) -> bool | None:
    """Whether -log p(x | luck) is -log p(x), as the paths of sequences of the language tell; None where those of this
    sampler say nothing of it."""
    if sampler.law == "causal":
        return True
    truth = language.sample(TOLD, length)
    blank, rows = language.blank(TOLD, length), torch.arange(TOLD)
    try:
        one, other = (
            teach_sampler(Ideal(language), blank, truth, sampler, delta, Luck(seed, rows)).sum(1) for seed in (0, 1)
        )
    except Unbounded:
        return None
    return torch.allclose(one, other)


def path_nats(sampler: Sampler, made: Generation, denoiser: Denoiser) -> Tensor:
    """(B) -log p(x | luck) of what it has made, where `law_of` says that there is one."""
    return price(denoiser, made.tokens) if sampler.law == "causal" else -made.probability.log().sum(1)


def _own(language: Language, length: int, judge: Judge, rows: int, seed: int) -> Point:
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
        evaluations=0.0,
    )


def _sampled(
    name: str,
    sampler: Sampler,
    law: bool | None,
    language: Language,
    judge: Judge,
    temperature: float,
    how: Mapping[str, Any],
) -> Point:
    made = generate(language, sampler=sampler, temperature=temperature, **how)
    length, tokens = made.tokens.shape[1], made.tokens
    paid = price(judge, tokens)
    own = None if law is None else path_nats(sampler, made, Sharpened(Ideal(language), temperature))
    return Point(
        sampler=name,
        setting=temperature,
        cross_entropy=_mean(paid / length),
        entropy=None if own is None else _mean(own / length),
        divergence=None if own is None else _mean((paid - own) / length),
        exact=bool(law),
        unigram=_mean(token_entropy(tokens)),
        ser=proportion(int((~language.supports(tokens)).sum()), len(tokens)),
        evaluations=float(made.evaluations.double().mean()),
    )


def _mean(values: Tensor) -> Estimate:
    """Infinite where the judge holds a row for impossible."""
    return mean(values) if bool(values.isfinite().all()) else exactly(math.inf, "a row is impossible")


def naive(
    language: Language, length: int, judge: Judge, penalties: Sequence[float] = PENALTIES, slip: bool = True
) -> list[Point]:
    """A walk without a model of its own, all of it exact: p is uniform over V rows, one for each first symbol.

    Each next symbol is the likeliest of the judge's once every symbol has lost `penalty` nats for each time that the
    row has it (a frequency penalty, as decoders offer): so the judge is pleased, and the unigram entropy is a dial.
    slip: once, at the first place from the middle on where some symbol is impossible, it stands there: so is the row.
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
                evaluations=0.0,
            )
        )
    return points


def _walks(judge: Judge, length: int, penalties: Sequence[float], slip: bool) -> Tensor:
    """(penalties V, L): the rows of each penalty by their first symbol."""
    symbols = judge.vocabulary
    rows = len(penalties) * symbols
    weight = torch.tensor(penalties, dtype=torch.float64).repeat_interleave(symbols).unsqueeze(1)
    reader = judge.causal(rows, length)
    reader.extend(torch.full((rows, 1), symbols))
    tokens = torch.full((rows, length), symbols)
    tokens[:, 0] = torch.arange(symbols).repeat(len(penalties))
    counts = torch.zeros((rows, symbols), dtype=torch.float64)
    due = torch.full((rows,), slip)
    for place in range(1, length):
        last = tokens[:, place - 1 : place]
        counts.scatter_add_(1, last, torch.ones_like(last, dtype=torch.float64))
        said = as_marginals(reader.extend(last)).dense()
        slips = due & (said.amin(1) <= judge.least * (1 + NEAR)) & (place >= length // 2)
        tokens[:, place] = torch.where(slips, said.argmin(1), (said.log() - weight * counts).argmax(1))
        due &= ~slips
    return tokens


def beats(points: Sequence[Point]) -> Point | None:
    """The naive point of the least perplexity whose unigram entropy is at least the language's own, if it is less than
    the language's: both yardsticks prefer it to the language itself."""
    own = next(point for point in points if point.sampler == LANGUAGE)
    sound = [p for p in points if p.sampler == NAIVE and p.unigram.value >= own.unigram.value]
    best = min(sound, key=lambda point: point.cross_entropy.value, default=None)
    return best if best is not None and best.cross_entropy.value < own.cross_entropy.value else None
