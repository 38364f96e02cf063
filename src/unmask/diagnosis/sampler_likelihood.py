"""Log-likelihood of texts under a sampler: the probability that it writes exactly these tokens.

    duel     the positions of each step are a function F of the partial text z, so one path leads to a text:
                 log p(x) = sum_k sum_{i in F(z_k)} log c(x_i | z_k),   exact, a model call per step (arXiv 2603.01367)
    drawn    rules that draw before they choose: p(x) = the sum over all paths of prod_k r(S_k, x_{S_k} | z_k), exact
             for short blocks (drawn.py)
    bracket  any of both, and random choices tau: p(x) = E_tau p_tau(x). With K draws of p_tau in each block, on average
                 lower   log (1/K) sum_k p_k <= log p;        ELBO   (1/K) sum_k log p_k
                 upper   (1/K) sum_k [log psi_k + p_k / psi_k - 1] >= log p  (TUBE, arXiv 2605.24292):
                         the tangent of log at psi_k, here the mean of the K - 1 other draws; infinite if they are all
                         0, since a text with p > 0 may have such draws
             A text is the product of its blocks given the earlier ones, and their random numbers are independent: the
             bounds add up over blocks, so their width is that of a block. It grows fast with its length.

A text is read by the loop that writes: draws return its tokens. So scores, ties and steps are those of generation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.chance import Randomness, Stream, check_seed
from unmask.core.errors import UnmaskError
from unmask.core.threads import over_blocks
from unmask.denoisers import Canvas, Denoiser, Marginals
from unmask.denoisers.denoiser import checked
from unmask.diagnosis import drawn as closed
from unmask.diagnosis.reveal import batched
from unmask.generation.making import fit_of, reshaped
from unmask.languages.base import as_tokens
from unmask.samplers import Sampler, Session, fill
from unmask.samplers.contract import CANVAS, Choice, as_sampler, inner_of
from unmask.samplers.low_confidence import LowConfidence
from unmask.samplers.memory import numbered
from unmask.samplers.view import View
from unmask.schedules import ScheduleLike, deltas

KINDS = ("duel", "drawn", "bracket")
MOST = 12  # positions of a block whose paths are all added up
MOST_NUMBERS = 2**24  # probabilities that one step holds at once
AT_ONCE = 512  # rows of a forward pass, if the denoiser does not limit them
DRAWS = 16
RANDOM_CHOICES = {
    Stream.TIE: "breaks ties by chance",
    Stream.ORDER: "draws its order",
    Stream.ACCEPT: "accepts by chance",
}


@dataclass(frozen=True)
class SamplerLikelihood:
    """Log-likelihoods of B texts in nats, (B) float64 each: lower = upper where they are exact."""

    lower: Tensor
    upper: Tensor
    elbo: Tensor  # mean of log p over random choices
    error: Tensor  # standard error of `lower` from its random choices
    model_calls: Tensor  # (B) int64
    kind: str

    @property
    def exact(self) -> bool:
        return self.kind != "bracket"


class Paths(NamedTuple):
    """Texts that were read along one path each."""

    nats: Tensor  # (R, L) float64: log-probability of each token; 0 where given
    order: Tensor  # (R, L): the step that revealed it
    blocks: Tensor  # (R, L): the block that it belongs to, -1 where given
    model_calls: Tensor  # (R)
    random: frozenset[Stream]  # uses of random numbers on the way


def likelihood(
    denoiser: Denoiser,
    sampler: str | Sampler,
    texts: Any,
    kind: str = "bracket",
    *,
    given: Tensor | None = None,
    schedule: ScheduleLike = "linear",
    steps: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    guidance: float = 0.0,
) -> SamplerLikelihood:
    """Log-likelihood of texts (B, L) under a sampler; kind: one of KINDS.

    given: tokens that the sampler continues, (L) or (B, L), V where it writes. (default: it writes all)
    steps: number of steps N. (default for a named schedule: L) draws: random choices per text, for the bracket.
    temperature, top_p, top_k, guidance: as in `generate`; a token that they leave out has probability 0.
    """
    used = checked_sampler(sampler, kind)
    denoiser = reshaped(checked(denoiser), temperature, top_p, top_k, guidance)
    texts, start = _texts(denoiser, texts, given)
    if steps is None and isinstance(schedule, str):
        steps = texts.shape[1]
    language = denoiser.language
    delta = deltas(schedule, steps, None if language is None else fit_of(used, language, texts.shape[1]))
    if kind == "duel":
        return _duel(denoiser, used, texts, start, delta)
    if kind == "drawn":
        return _drawn(denoiser, used, texts, start, delta)
    return _bracket(denoiser, used, texts, start, delta, arguments.whole("draws", draws, 2), check_seed(seed))


def checked_sampler(sampler: str | Sampler, kind: str) -> Sampler:
    """The sampler; raise an error if it has no likelihood of this kind."""
    arguments.word("likelihood", kind, KINDS)
    used = as_sampler(sampler)
    rule = _rule(used)
    expected = "expected a sampler that chooses first, or low-confidence. Pass another --sampler"
    if used.reads != CANVAS:
        raise UnmaskError(f"sampler {used.spec} reads an AR model; {expected}")
    if used.revises:
        raise UnmaskError(f"sampler {used.spec} re-masks tokens, so its texts have many paths; {expected}")
    chooses_first = used.chooses_before_drawing and rule is None
    if not chooses_first and (rule is None or getattr(used, "first", None) is not None):
        raise UnmaskError(f"sampler {used.spec} writes tokens by a rule without a closed form; {expected}")
    if kind == "duel" and not chooses_first:
        problem = f"sampler {used.spec} chooses positions by drawn tokens, so DUEL is not its likelihood"
        raise UnmaskError(f"{problem}; expected a sampler that chooses first. Use the likelihood drawn or bracket")
    if kind == "drawn" and rule is None:
        problem = f"sampler {used.spec} chooses before it draws"
        raise UnmaskError(f"{problem}; expected low-confidence for the likelihood drawn. Use duel or bracket")
    if rule is not None and rule.ties == "topk":
        problem = f"ties of {used.spec} is 'topk', whose order of equal scores is undocumented"
        raise UnmaskError(f"{problem}; expected 'position' or 'chance' for a likelihood. Pass ties='position'")
    if kind == "drawn" and rule is not None and (rule.ties == "chance" or rule.noise):
        problem = f"sampler {used.spec} uses random numbers besides its tokens'"
        raise UnmaskError(f"{problem}; expected ties='position' and no noise for the likelihood drawn. Use bracket")
    return used


def _rule(sampler: Sampler) -> LowConfidence | None:
    """The innermost sampler, if it is low-confidence with its own scores: its closed form is known."""
    while getattr(sampler, "inner", None) is not None:
        sampler = inner_of(sampler)
    own = isinstance(sampler, LowConfidence) and type(sampler).score is LowConfidence.score
    return sampler if own and isinstance(sampler, LowConfidence) else None


def _texts(denoiser: Denoiser, texts: Any, given: Tensor | None) -> tuple[Tensor, Tensor]:
    """(texts (B, L), tokens to start from (B, L)) after their checks."""
    texts = as_tokens(texts, "texts")
    if texts.dim() != 2 or not texts.numel():
        raise UnmaskError(f"texts have shape {tuple(texts.shape)}; expected (rows, length), neither of them 0")
    if bool((wrong := (texts < 0) | (texts >= denoiser.vocabulary)).any()):
        row = int(wrong.any(1).int().argmax())
        problem = f"row {row} of the texts has token {int(texts[wrong][0])}"
        raise UnmaskError(f"{problem}; expected 0 to {denoiser.vocabulary - 1}, the tokens of {denoiser.name}")
    start = torch.full_like(texts, denoiser.vocabulary) if given is None else given.expand(texts.shape)
    if bool((start != denoiser.vocabulary).all(1).any()):
        raise UnmaskError("a text is given as a whole; expected at least one position that the sampler writes")
    if bool(((start != denoiser.vocabulary) & (start != texts)).any()):
        raise UnmaskError("the texts differ from the given tokens; expected texts that continue them")
    return texts, start


def _duel(denoiser: Denoiser, sampler: Sampler, texts: Tensor, start: Tensor, delta: Tensor) -> SamplerLikelihood:
    read = follow(denoiser, sampler, texts, start, delta, torch.arange(len(texts)), 0)
    for stream in sorted(read.random):
        problem = f"sampler {sampler.spec} {RANDOM_CHOICES.get(stream, 'chooses by chance')}"
        advice = "Pass ties='position', or use" if stream == Stream.TIE else "Use"
        raise UnmaskError(f"{problem}; expected a function of the text for DUEL. {advice} the likelihood bracket")
    nats = read.nats.sum(1)
    return SamplerLikelihood(nats, nats, nats, torch.zeros_like(nats), read.model_calls, "duel")


def _bracket(
    denoiser: Denoiser, sampler: Sampler, texts: Tensor, start: Tensor, delta: Tensor, draws: int, seed: int
) -> SamplerLikelihood:
    proposing, copies = proposal(sampler), torch.arange(len(texts)).repeat_interleave(draws)
    numbers = torch.arange(len(copies))
    read = follow(denoiser, proposing, texts[copies], start[copies], delta, numbers, seed)
    blocks = int(read.blocks.max()) + 1
    nats = torch.zeros((len(copies), blocks + 1), dtype=torch.float64).scatter_add_(1, read.blocks + 1, read.nats)
    parts = nats[:, 1:].view(len(texts), draws, blocks)
    lower, upper = bounds(parts)
    calls = read.model_calls.view(len(texts), draws).sum(1)
    return SamplerLikelihood(lower.sum(1), upper.sum(1), parts.mean(1).sum(1), _error(parts, lower), calls, "bracket")


def bounds(nats: Tensor) -> tuple[Tensor, Tensor]:
    """(lower, upper) (B, ..) of log p from log p_k (B, K, ..): the log of the mean, and TUBE with psi of the others."""
    draws = nats.shape[1]
    lower = nats.logsumexp(1) - math.log(draws)
    others = torch.stack([_without(nats, k).logsumexp(1) for k in range(draws)], 1) - math.log(draws - 1)
    ratio = (nats - others).exp()
    tangent = torch.where(others == -torch.inf, torch.inf, others + ratio - 1)
    return lower, tangent.mean(1)


def _without(nats: Tensor, k: int) -> Tensor:
    return torch.cat([nats[:, :k], nats[:, k + 1 :]], 1)


def _error(nats: Tensor, lower: Tensor) -> Tensor:
    """(B): standard error of the sum over blocks of log mean_k p_k, by the delta method."""
    relative = torch.where(lower.unsqueeze(1) == -torch.inf, 0.0, (nats - lower.unsqueeze(1)).exp())
    return (relative.var(1) / nats.shape[1]).sum(1).sqrt()


def _drawn(denoiser: Denoiser, sampler: Sampler, texts: Tensor, start: Tensor, delta: Tensor) -> SamplerLikelihood:
    """All paths: mass over the sets of revealed positions of a block, from the empty set to all of it."""
    rule = _rule(sampler)
    assert rule is not None
    if not denoiser.time_free:
        problem = f"{denoiser.name} depends on the time"
        raise UnmaskError(f"{problem}; expected one that does not for the likelihood drawn. Use bracket")
    plan = follow(denoiser, proposal(sampler), texts, start, delta, torch.arange(len(texts)), 0)
    widest = max(int((plan.blocks == block).sum(1).max()) for block in range(int(plan.blocks.max()) + 1))
    if widest > MOST:
        problem = f"a block has {widest} positions to write"
        raise UnmaskError(f"{problem}; expected at most {MOST} for the likelihood drawn. Use bracket")
    nats, calls = torch.zeros(len(texts), dtype=torch.float64), torch.zeros(len(texts), dtype=torch.int64)
    with progress.track("adding up paths", len(texts)) as advance:
        for row, (text, order, blocks) in enumerate(zip(texts, plan.order, plan.blocks, strict=True)):
            for block in range(int(blocks.max()) + 1):
                places = (blocks == block).nonzero().squeeze(1)
                if len(places):
                    counts = order[places].unique(return_counts=True)[1].tolist()
                    context = torch.where(blocks >= block, denoiser.vocabulary, text)
                    total, contexts = _paths(denoiser, rule, text, context, places, counts)
                    nats[row] += total
                    calls[row] += contexts * denoiser.calls
            advance(1)
    return SamplerLikelihood(nats, nats, nats, torch.zeros_like(nats), calls, "drawn")


def _paths(
    denoiser: Denoiser, rule: LowConfidence, text: Tensor, context: Tensor, places: Tensor, counts: list[int]
) -> tuple[float, int]:
    """(log of the sum over all paths through a block, number of contexts); counts: positions that each step reveals."""
    mass, contexts = {frozenset[int](): 0.0}, 0
    at_once = min(denoiser.rows_at_once(len(text)) or AT_ONCE, MOST_NUMBERS // (len(places) * denoiser.vocabulary))
    for count in counts:
        after: dict[frozenset[int], float] = {}
        for some in batched(mass, max(at_once, 1)):
            tokens = context.repeat(len(some), 1)
            for state, revealed in enumerate(some):
                at = places[sorted(revealed)]
                tokens[state, at] = text[at]
            rows, which = (tokens[:, places] == denoiser.vocabulary).nonzero(as_tuple=True)
            marginals = Canvas(denoiser, tokens, Randomness(0, torch.arange(len(tokens)))).at(rows, places[which])
            for state, revealed in enumerate(some):
                left = which[rows == state]
                step = _draws(rule, marginals[rows == state], text[places[left]][None], places[left].double()[None])
                for members, nats in closed.subsets(step, 0, count):
                    joined = revealed | set(left[members].tolist())
                    after[joined] = float(np.logaddexp(after.get(joined, -math.inf), mass[revealed] + nats))
        contexts += len(mass)
        mass = after
    (total,) = mass.values()
    return total, contexts


def _draws(
    rule: LowConfidence, marginals: Marginals, tokens: Tensor, second: Tensor, noise: Tensor | None = None
) -> closed.Draws:
    """The draws at tokens (B, m) from marginals of their B m positions, row by row; second, noise (B, m)."""
    shape = (*tokens.shape, marginals.vocabulary)
    scores = closed.score_table(rule, marginals.dense().double()).view(shape)
    if noise is not None:
        scores = scores + noise.unsqueeze(2)
    chances = marginals.sharpened(rule.temperature).dense().double().view(shape)
    return closed.draws(chances, scores, second, tokens, marginals.resolution)


def proposal(sampler: Sampler) -> Sampler:
    """The sampler, with low-confidence replaced by sets drawn in proportion to r."""
    rule, outer = _rule(sampler), cast(Any, sampler)
    if rule is None:
        return sampler
    return Proposal(rule) if rule is sampler else cast(Sampler, replace(outer, inner=proposal(outer.inner)))


@dataclass(frozen=True)
class Proposal(Sampler):
    """Sets S of a text that is read, with probability r / Z; the log-probability of the step's tokens is log Z."""

    rule: LowConfidence
    chooses_before_drawing = True

    def choose(self, view: View) -> Choice:
        canvas, reveal = view.canvas, torch.zeros_like(view.hidden)
        assert isinstance(canvas, ReadCanvas)
        hidden = view.hidden.sum(1)
        kinds, kind = torch.stack([hidden, torch.minimum(view.count, hidden)], 1).unique(dim=0, return_inverse=True)
        for number, (size, count) in enumerate(kinds.tolist()):
            if count:
                rows = (kind == number).nonzero().squeeze(1)
                for part in rows.split(max(MOST_NUMBERS // (size * canvas.vocabulary), 1)):
                    at = part.unsqueeze(1), view.hidden[part].nonzero()[:, 1].view(-1, size)
                    chosen, total = self._sets(view, canvas.text, at, count)
                    reveal[at] = chosen
                    canvas.nats[at] = (total / count).unsqueeze(1).expand(-1, size)
        return Choice(reveal, canvas.text)

    def _sets(self, view: View, text: Tensor, at: tuple[Tensor, Tensor], count: int) -> tuple[Tensor, Tensor]:
        """(Bool (B, m), log Z (B)) of the rows and hidden positions at (B, 1) and (B, m)."""
        rule, places = self.rule, at[1]
        by_chance = rule.ties == "chance" or rule.noise > 0
        tie = view.rng(Stream.TIE)[at] if by_chance else places.double()
        noise = -rule.noise * (-tie.log()).log() if rule.noise else None
        second = tie if rule.ties == "chance" else places.double()
        marginals = view.marginals[(numbered(view)[at] - 1).reshape(-1)]
        step = _draws(rule, marginals, text[at], second, noise)
        last = view.rng(Stream.RESIDUAL)[at][:, :1]
        return closed.draw_sets(step, count, torch.cat([view.rng(Stream.ACCEPT)[at], last], 1))


@torch.no_grad()
def follow(
    denoiser: Denoiser, sampler: Sampler, texts: Tensor, start: Tensor, delta: Tensor, numbers: Tensor, seed: int
) -> Paths:
    """Read texts (R, L) along the sampler's path from their start (R, L); numbers (R): of the rows' random numbers."""

    def read(part: slice) -> Paths:
        session = ReadSession(denoiser, start[part], Noted(seed, numbers[part]), delta, f"sampler {sampler.spec}")
        session.text = texts[part]
        fill(sampler, session)
        nats = torch.where(session.hidden, session.canvas.nats, 0.0)
        calls = session.account().model_calls
        return Paths(nats, session.order, session.blocks, calls, frozenset(session.noted.used))

    rows, length = texts.shape
    block = min(denoiser.rows_at_once(length) or AT_ONCE, rows)
    slices = (slice(first, first + block) for first in range(0, rows, block))
    parts: list[Paths] = []
    with progress.track("reading", rows) as advance:
        for part in over_blocks(read, rows, block) if denoiser.concurrent else map(read, slices):
            parts.append(part)
            advance(len(part.nats))
    nats, order, blocks, calls, random = zip(*parts, strict=True)
    return Paths(torch.cat(nats), torch.cat(order), torch.cat(blocks), torch.cat(calls), frozenset().union(*random))


class ReadCanvas(Canvas):
    """A canvas whose draws are the tokens of a text; nats (B, L): their log-probabilities, NaN where not drawn."""

    text: Tensor
    nats: Tensor

    def draw(self, marginals: Marginals, rows: Tensor, positions: Tensor) -> Tensor:
        tokens = self.text[rows, positions]
        self.nats[rows, positions] = marginals.of(tokens).double().nan_to_num(0.0).log()
        return tokens

    def follow(self, order: Tensor) -> Tensor | None:
        return None  # the kernel would draw the tokens


class ReadSession(Session):
    """A session that reads a text: it writes the text's tokens, whatever their probability."""

    canvas_kind = ReadCanvas
    text: Tensor

    def __init__(self, denoiser: Denoiser, given: Tensor, rng: Noted, *arguments: Any, **options: Any) -> None:
        self.noted = rng
        super().__init__(denoiser, given, rng, *arguments, **options)

    @cached_property
    def canvas(self) -> ReadCanvas:
        canvas = super().canvas
        assert isinstance(canvas, ReadCanvas)
        canvas.text, canvas.nats = self.text, torch.full(self.text.shape, torch.nan, dtype=torch.float64)
        return canvas

    def put(self, rows: Tensor, positions: Tensor, tokens: Tensor, probability: Tensor, steps: Tensor | int) -> None:
        nats = self.canvas.nats
        if bool(((tokens != self.text[rows, positions]) | nats[rows, positions].isnan()).any()):
            problem = f"{self.name} writes tokens that it did not draw"
            raise UnmaskError(f"{problem}; expected draws from the marginals alone. Pass another --sampler.")
        super().put(rows, positions, tokens, torch.ones_like(probability), steps)
        nats[self.canvas.hidden] = torch.nan


@dataclass(frozen=True)
class Noted(Randomness):
    """Randomness that notes its uses."""

    used: set[Stream] = field(default_factory=set)

    def uniform(self, stream: Stream, rows: Tensor, positions: Tensor, visits: Tensor | int = 0) -> Tensor:
        self.used.add(stream)
        return super().uniform(stream, rows, positions, visits)

    def grid(self, stream: Stream, length: int, visits: Tensor | int = 0) -> Tensor:
        self.used.add(stream)
        return super().grid(stream, length, visits)
