"""Log-likelihood of texts under a sampler that chooses positions before it draws: along the path that leads to a text.

    log p_tau(x) = sum_k sum_{i in F(z_k)} log c(x_i | z_k)         F(z_k): the positions of step k, given its text z_k

Without random choices tau, one path leads to a text, and this is exact (arXiv 2603.01367). With them, such as a random
order, p(x) = E_tau p_tau(x), and the mean of log p_tau is a lower bound: the ELBO, measured on some draws.

A text is read by the loop that writes: draws return its tokens. So scores, ties and steps are those of generation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.chance import Randomness, Stream, check_seed
from unmask.core.errors import UnmaskError
from unmask.core.threads import over_blocks
from unmask.denoisers import Canvas, Denoiser, Marginals
from unmask.denoisers.denoiser import checked
from unmask.languages.base import as_tokens
from unmask.samplers import Sampler, Session, fill
from unmask.samplers.contract import CANVAS, as_sampler
from unmask.samplers.making import fit_of, reshaped
from unmask.samplers.schedules import ScheduleLike, deltas

AT_ONCE = 512  # rows of a forward pass, if the denoiser does not limit them
DRAWS = 16


class SamplerLikelihood(NamedTuple):
    """Log-likelihoods of B texts, (B) each."""

    nats: Tensor  # float64: log p, or the mean of log p_tau over draws
    error: Tensor  # standard error of the mean, 0 if exact
    model_calls: Tensor  # int64
    exact: bool  # no random number besides those of tokens


class Paths(NamedTuple):
    """Texts that were read along one path each."""

    nats: Tensor  # (R) float64
    order: Tensor  # (R, L): the step that revealed each token
    model_calls: Tensor  # (R)
    random: bool  # whether the path used random numbers


def likelihood(
    denoiser: Denoiser,
    sampler: str | Sampler,
    texts: Any,
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
    """Log-likelihood of texts (B, L) under a sampler.

    given: tokens that the sampler continues, (L) or (B, L), V where it writes. (default: it writes all)
    steps: number of steps N. (default for a named schedule: L) draws: random choices per text, if there are any.
    temperature, top_p, top_k, guidance: as in `generate`; a token that they leave out has probability 0.
    """
    used = checked_sampler(sampler)
    denoiser = reshaped(checked(denoiser), temperature, top_p, top_k, guidance)
    texts, start = _texts(denoiser, texts, given)
    if steps is None and isinstance(schedule, str):
        steps = texts.shape[1]
    language = denoiser.language
    delta = deltas(schedule, steps, None if language is None else fit_of(used, language, texts.shape[1]))
    draws, seed = arguments.whole("draws", draws, 2), check_seed(seed)
    once = follow(denoiser, used, texts, start, delta, torch.arange(len(texts)), seed)
    if not once.random:
        return SamplerLikelihood(once.nats, torch.zeros_like(once.nats), once.model_calls, True)
    copies = torch.arange(len(texts)).repeat(draws - 1)
    more = follow(denoiser, used, texts[copies], start[copies], delta, len(texts) + torch.arange(len(copies)), seed)
    nats, calls = (
        torch.cat([first, others]).view(draws, len(texts))
        for first, others in ((once.nats, more.nats), (once.model_calls, more.model_calls))
    )
    return SamplerLikelihood(nats.mean(0), nats.std(0) / draws**0.5, calls.sum(0), False)


def checked_sampler(sampler: str | Sampler) -> Sampler:
    """The sampler; raise an error if it has no likelihood along a path."""
    used = as_sampler(sampler)
    expected = "expected a sampler that chooses positions first, such as entropy. Pass another --sampler"
    if used.reads != CANVAS:
        raise UnmaskError(f"sampler {used.spec} reads an AR model; {expected}")
    if used.revises:
        raise UnmaskError(f"sampler {used.spec} re-masks tokens, so its texts have many paths; {expected}")
    if not used.chooses_before_drawing:
        raise UnmaskError(f"sampler {used.spec} chooses positions by drawn tokens; {expected}")
    return used


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


@torch.no_grad()
def follow(
    denoiser: Denoiser, sampler: Sampler, texts: Tensor, start: Tensor, delta: Tensor, numbers: Tensor, seed: int
) -> Paths:
    """Read texts (R, L) along the sampler's path from their start (R, L); numbers (R): of the rows' random numbers."""

    def read(part: slice) -> Paths:
        session = ReadSession(denoiser, start[part], Noted(seed, numbers[part]), delta, f"sampler {sampler.spec}")
        session.text = texts[part]
        fill(sampler, session)
        nats = torch.where(session.hidden, session.canvas.nats, 0.0).sum(1)
        return Paths(nats, session.order, session.account().model_calls, bool(session.noted.used))

    rows, length = texts.shape
    block = min(denoiser.rows_at_once(length) or AT_ONCE, rows)
    slices = (slice(first, first + block) for first in range(0, rows, block))
    parts: list[Paths] = []
    with progress.track("reading", rows) as advance:
        for part in over_blocks(read, rows, block) if denoiser.concurrent else map(read, slices):
            parts.append(part)
            advance(len(part.nats))
    nats, order, calls, random = zip(*parts, strict=True)
    return Paths(torch.cat(nats), torch.cat(order), torch.cat(calls), any(random))


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
