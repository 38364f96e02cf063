"""unmask.score(): the metrics of samples and, if wanted, their likelihood under a sampler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from unmask import metrics
from unmask.core.errors import UnmaskError
from unmask.core.estimates import mean
from unmask.core.samples import read_tokens
from unmask.denoisers import Ideal
from unmask.diagnosis.sampler_likelihood import likelihood as likelihood_of
from unmask.languages import LanguageLike, load
from unmask.metrics import Score
from unmask.samplers import Generation

RECORDED = ("sampler", "steps", "schedule", "temperature", "top_p", "top_k", "guidance")


def score(
    samples: Generation | Tensor | str | Path,
    language: LanguageLike,
    given: Tensor | None = None,
    *,
    likelihood: bool = False,
    **how: Any,
) -> Score:
    """Measure SER, generative perplexity and diversity of samples (B, L), or of a file of them, on a known language.

    given: the tokens (L) or (B, L) that they continue, V where hidden. (default: those of the Generation)
    likelihood: also the mean log-likelihood under a sampler with the language's exact denoiser
        (sampler_likelihood.py). how: its sampler, steps, schedule and draws. (default: those of the Generation)
    """
    known = load(language)
    if isinstance(samples, str | Path):
        samples = read_tokens(Path(samples))
    scored = metrics.score(samples, known, given)
    if not likelihood:
        if how:
            raise UnmaskError(f"{next(iter(how))} applies to a likelihood; expected likelihood=True with it")
        return scored
    tokens = samples
    if isinstance(samples, Generation):
        recorded = {name: samples.configuration.get(name) for name in RECORDED}
        how = (recorded if "sampler" not in how else {}) | how
        tokens, given = samples.tokens, samples.given if given is None else given
    how = {name: value for name, value in how.items() if value is not None}
    if "sampler" not in how:
        problem = "the samples have no record of their sampler"
        raise UnmaskError(f"{problem}; expected a sampler for --likelihood. Pass --sampler and --steps")
    likely = likelihood_of(Ideal(known), texts=tokens, given=given, **how)
    there = likely.nats.isfinite()
    if not bool(there.any()):
        raise UnmaskError(f"all {len(there)} sequences have probability 0 under {how['sampler']}. Pass another")
    about = {"exact": likely.exact, **how, "model_calls": int(likely.model_calls.sum())}
    about |= {"left_out": int((~there).sum())}  # probability 0
    return replace(scored, likelihood=about | {"nats": mean(likely.nats[there])})
