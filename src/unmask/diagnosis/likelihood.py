"""Log-likelihood of texts under a sampler, along the path that leads to the text; and `score`, of samples.

A sampler that chooses positions before it draws has

    log p_tau(x) = sum_k sum_{i in F(z_k)} log c(x_i | z_k)         F(z_k): the positions of step k, given its text z_k

Without random choices tau, one path leads to a text, and this is exact (arXiv 2603.01367). With them, such as a random
order, p(x) = E_tau p_tau(x), and the mean of log p_tau is a lower bound: the ELBO, measured on some draws. A text is
read by the loop that writes: draws return its tokens. So scores, ties and steps are those of generation. A joint draw
J has the same marginals, so the same path, and log p_tau(x) = sum_k log J(x_F(z_k) | z_k).

Samplers that choose by drawn tokens, and with `every_path` random orders, have many paths to a text. Their log p is a
sum over sets of positions, exact or estimated (paths.py). Others, which hide tokens again or keep a memory, are
enumerated on tiny languages (enumeration.py). Then the value is log p itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask import metrics
from unmask.core import arguments, entries
from unmask.core.chance import Randomness, Stream, check_seed
from unmask.core.errors import UnmaskError
from unmask.core.means import interval, skewed_mean
from unmask.core.samples import read_tokens
from unmask.core.threads import tracked
from unmask.denoisers import Denoiser, Ideal
from unmask.denoisers.denoiser import checked
from unmask.diagnosis import paths
from unmask.diagnosis.contexts import Contexts
from unmask.diagnosis.enumeration import enumerated
from unmask.languages import LanguageLike, load
from unmask.languages.base import as_tokens
from unmask.metrics import Score
from unmask.metrics.rows import CHANGED, changed
from unmask.samplers import Generation, Sampler, fill
from unmask.samplers.contract import CANVAS, as_sampler
from unmask.samplers.generation import fit_of, reshaped
from unmask.samplers.joint import Joint, as_joint
from unmask.samplers.schedules import ScheduleLike, deltas
from unmask.samplers.teaching import Lesson, Unbounded

ROWS = 512  # of a forward pass that reads a sampler's path, if the denoiser does not limit them
DRAWS = 16
RECORDED = ("sampler", "steps", "schedule", "temperature", "top_p", "top_k", "guidance", "draw")  # of a generation


class SamplerLikelihood(NamedTuple):
    """Log-likelihoods of B texts, (B) each."""

    nats: Tensor  # float64: log p, or the mean of log p_tau over draws; of many paths log of an unbiased estimate of p
    error: Tensor  # standard error, 0 if exact
    model_calls: Tensor  # int64; of an enumeration, contexts
    exact: bool  # no random number besides those of tokens
    interval: tuple[Tensor, Tensor] | None = None  # 95% ends of log p, of an unbiased estimate; infinite: too few draws


class Paths(NamedTuple):
    """Texts that were read along one path each."""

    nats: Tensor  # (R) float64
    order: Tensor  # (R, L): the step that revealed each token
    model_calls: Tensor  # (R)
    random: bool  # whether the path used random numbers


def of_sampler(
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
    draw: str | Joint = "product",
    every_path: bool = False,
) -> SamplerLikelihood:
    """Log-likelihood of texts (B, L) under a sampler.

    given: tokens that the sampler continues, (L) or (B, L), V where it writes. (default: it writes all)
    steps: number of steps N. (default for a named schedule: L) draws: random choices per text, if there are any.
    temperature, top_p, top_k, guidance, draw: as in `generate`; a token that they leave out has probability 0.
    every_path: log p of samplers with random orders too, not the mean of log p_tau. Its gradient is that of the
        denoiser's probabilities, if they have one.
    """
    used = as_sampler(sampler)
    many = every_path or (used.reads == CANVAS and (used.revises or not used.chooses_before_drawing))
    if not many:
        checked_sampler(used)
    denoiser = reshaped(checked(denoiser), temperature, top_p, top_k, guidance)

    texts, start = _texts(denoiser, texts, given)
    joint = as_joint(draw, used, denoiser, texts.shape[1])
    if steps is None and isinstance(schedule, str):
        steps = texts.shape[1]

    language = denoiser.language
    fit = None if language is None else fit_of(used, language, texts.shape[1])
    delta = deltas(schedule, steps, fit)
    draws = arguments.whole("draws", draws, 2)
    seed = check_seed(seed)

    if many and (joint is not None or not denoiser.time_free):
        problem = "a joint draw" if joint is not None else f"{denoiser.name}, which reads the time,"
        raise UnmaskError(f"{problem} has no likelihood under {used.spec}; expected a sampler that chooses first")
    if many:
        return _of_paths(denoiser, used, texts, start, delta, draws, seed)

    once = follow(denoiser, used, texts, start, delta, torch.arange(len(texts)), seed, joint)
    if not once.random:
        return SamplerLikelihood(once.nats, torch.zeros_like(once.nats), once.model_calls, True)

    # random choices: the mean over several draws of each text
    copies = torch.arange(len(texts)).repeat(draws - 1)
    numbers = len(texts) + torch.arange(len(copies))
    more = follow(denoiser, used, texts[copies], start[copies], delta, numbers, seed, joint)
    nats = torch.cat([once.nats, more.nats]).view(draws, len(texts))
    calls = torch.cat([once.model_calls, more.model_calls]).view(draws, len(texts))
    return SamplerLikelihood(nats.mean(0), nats.std(0) / draws**0.5, calls.sum(0), False)


def _of_paths(
    denoiser: Denoiser, sampler: Sampler, texts: Tensor, start: Tensor, delta: Tensor, draws: int, seed: int
) -> SamplerLikelihood:
    """log p of each text, from each pattern of hidden positions in turn."""
    nats = torch.zeros(len(texts), dtype=torch.float64)
    error = torch.zeros_like(nats)
    calls = torch.zeros_like(nats, dtype=torch.int64)
    exact = True
    ends = torch.stack([nats, nats])

    patterns, which = (start == denoiser.vocabulary).unique(dim=0, return_inverse=True)
    for number, hidden in enumerate(patterns):
        rows = (which == number).nonzero().squeeze(1)

        known = paths.rule_of(sampler, hidden, delta)
        if known is None:
            for begun in start[rows].unique(dim=0):
                contexts = Contexts.of(denoiser, begun)
                same = rows[(start[rows] == begun).all(1)]
                places = (contexts.texts == texts[same].unsqueeze(1)).all(2).int().argmax(1)
                nats = nats.index_put((same,), enumerated(contexts, sampler, delta)[places].log())
                calls[same] = len(contexts.tokens)
            continue

        rule, blocks = known
        count = sum(2 ** int(block.inside.sum()) for block in blocks)
        if count * len(rows) <= paths.MOST_CONTEXTS:
            nats = nats.index_put((rows,), paths.exact(denoiser, rule, blocks, texts[rows], start[rows]))
            calls[rows] = count
            continue

        # too many sets for a sum: importance sampling
        copies = rows.repeat_interleave(draws)
        generator = torch.Generator().manual_seed(seed)
        log = paths.estimated(denoiser, rule, blocks, texts[copies], start[copies], generator).view(-1, draws)
        mean = log.logsumexp(1) - math.log(draws)
        error[rows] = (log - mean.unsqueeze(1)).exp().nan_to_num(0.0).std(1).detach() / draws**0.5
        exact = False
        nats = nats.index_put((rows,), mean)
        calls[rows] = draws * sum(len(block.counts) for block in blocks)

        middle = mean.detach()
        around = list(map(_around, log.detach() - middle.unsqueeze(1)))
        ends[:, rows] = middle + torch.tensor(around, dtype=torch.float64).T

    low, high = torch.where(error > 0, ends, nats.detach()).clamp(max=0.0)
    return SamplerLikelihood(nats, error, calls, exact, None if exact else (low, high))


def _around(log: Tensor) -> tuple[float, float]:
    """The logarithms of the ends of the mean of e^log (n), which is 1."""
    mean = interval(log.exp().nan_to_num(0.0), least=0.0)
    return math.log(max(mean.low, 1e-300)) if mean.low > 0 else -math.inf, math.log(mean.high)


def checked_sampler(sampler: str | Sampler) -> Sampler:
    """The sampler; raise an error if it has no likelihood along a path."""
    used = as_sampler(sampler)
    for problem, there in (
        ("reads an AR model", used.reads != CANVAS),
        ("re-masks tokens, so its texts have many paths", used.revises),
        ("chooses positions by drawn tokens", not used.chooses_before_drawing),
    ):
        if there:
            raise UnmaskError(
                f"sampler {used.spec} {problem}",
                "expected a sampler that chooses positions first, such as entropy. Pass another --sampler",
            )
    return used


def _texts(denoiser: Denoiser, texts: Any, given: Tensor | None) -> tuple[Tensor, Tensor]:
    """(texts (B, L), tokens to start from (B, L)) after their checks."""
    texts = as_tokens(texts, "texts")
    if texts.dim() != 2 or not texts.numel():
        raise UnmaskError(f"texts have shape {tuple(texts.shape)}; expected (rows, length), neither of them 0")
    if bool((wrong := (texts < 0) | (texts >= denoiser.vocabulary)).any()):
        row = int(wrong.any(1).int().argmax())
        raise UnmaskError(
            f"row {row} of the texts has token {int(texts[wrong][0])}",
            f"expected 0 to {denoiser.vocabulary - 1}, the tokens of {denoiser.name}",
        )

    start = entries.chosen(given, torch.full_like(texts, denoiser.vocabulary)).expand(texts.shape)
    if bool((start != denoiser.vocabulary).all(1).any()):
        raise UnmaskError("a text is given as a whole; expected at least one position that the sampler writes")
    if bool(changed(texts, start, denoiser.vocabulary).any()):
        raise UnmaskError(CHANGED)
    return texts, start


@torch.no_grad()
def follow(
    denoiser: Denoiser,
    sampler: Sampler,
    texts: Tensor,
    start: Tensor,
    delta: Tensor,
    numbers: Tensor,
    seed: int,
    joint: Joint | None = None,
) -> Paths:
    """Read texts (R, L) along the sampler's path from their start (R, L); numbers (R): of the rows' random numbers."""

    def read(part: slice) -> Paths:
        rng = Noted(seed, numbers[part])
        name = f"sampler {sampler.spec}"
        session = Lesson(denoiser, start[part], rng, delta, texts[part], strict=False, name=name, joint=joint)
        try:
            fill(sampler, session)
        except Unbounded as problem:
            raise UnmaskError(f"{name} has no path to a text: {problem}. Pass another --sampler") from problem
        nats = -torch.where(session.hidden, session.canvas.nats, 0.0).sum(1)
        return Paths(nats, session.order, session.account().model_calls, bool(rng.used))

    rows, length = texts.shape
    block = min(denoiser.rows_at_once(length) or ROWS, rows)

    parts = tracked("reading", read, rows, block, threads=denoiser.concurrent)
    nats, order, calls, random = zip(*parts, strict=True)
    return Paths(torch.cat(nats), torch.cat(order), torch.cat(calls), any(random))


@dataclass(frozen=True)
class Noted(Randomness):
    """Randomness that notes its uses."""

    used: set[Stream] = field(default_factory=set)

    def uniform(self, stream: Stream, rows: Tensor, positions: Tensor, visits: Tensor | int = 0) -> Tensor:
        self.used.add(stream)
        return super().uniform(stream, rows, positions, visits)


def score(
    samples: Generation | Tensor | str | Path,
    language: LanguageLike,
    given: Tensor | None = None,
    *,
    chosen_among: int | None = None,
    likelihood: bool = False,
    **how: Any,
) -> Score:
    """Measure SER, generative perplexity and diversity of samples (B, L), or of a file of them, on a known language.

    given: the tokens (L) or (B, L) that they continue, V where hidden. (default: those of the Generation)
    chosen_among: consecutive rows that a joint draw chose among each other: only such groups are independent.
        (default: that of the Generation, or of the record of the file)
    likelihood: also the mean log-likelihood under a sampler with the language's exact denoiser. how: its sampler,
        steps, schedule and draws. (default: those of the Generation)
    """
    known = load(language)
    scored = metrics.score(samples, known, given, chosen_among)
    if isinstance(samples, str | Path):
        samples = read_tokens(Path(samples))

    if how and not likelihood:
        raise UnmaskError(f"{next(iter(how))} applies to a likelihood; expected likelihood=True with it")
    if not likelihood:
        return scored

    if isinstance(samples, Generation):
        tokens = samples.tokens
        if "sampler" not in how:
            how = entries.picked(samples.configuration, RECORDED) | how
        given = entries.chosen(given, samples.given)
    else:
        tokens = as_tokens(samples, "samples")

    how = entries.given(how)
    if str(how.get("draw", "")).startswith("Joint("):
        raise UnmaskError("the samples have a draw without a name; expected this draw. Pass it as draw=..")
    if "sampler" not in how:
        raise UnmaskError(
            "the samples have no record of their sampler",
            "expected a sampler for --likelihood. Pass --sampler and --steps",
        )

    likely = of_sampler(Ideal(known), texts=tokens, given=given, **how)
    there = likely.nats.isfinite()
    if not bool(there.any()):
        raise UnmaskError(f"all {len(there)} sequences have probability 0 under {how['sampler']}. Pass another")

    same = bool((tokens == tokens[0]).all())  # copies of one text do not show the others
    about = {
        "exact": likely.exact,
        **how,
        "model_calls": int(likely.model_calls.sum()),
        "left_out": int((~there).sum()),  # probability 0
        "nats": interval(likely.nats[there], seen=0.0) if same else skewed_mean(likely.nats[there]),
    }
    return replace(scored, likelihood=about)
