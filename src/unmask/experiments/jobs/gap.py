"""The jobs `gap` and `learned_gap`: the loss by parallel decoding (diagnosis/gap), of languages or trained networks.

On a known language each row also has its true loss, so these measure the divergence as well, over the possible rows:

    divergence_nats   E[log p(x | choices) - log q(x)], of samplers that choose before they draw
    gap_exact_nats    the same without samples, for ancestral sampling from first-order chains
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from unmask.core import arguments
from unmask.experiments.jobs.catalogue import JOBS, Record
from unmask.experiments.jobs.sources import Continued, Sampled, record
from unmask.experiments.jobs.standard import Modelled
from unmask.experiments.jobs.training import Taught

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate
    from unmask.denoisers import Denoiser
    from unmask.languages import Language
    from unmask.samplers import Generation

MEASURES = {
    "gap_nats": "sequence",
    "gap_nats_per_token": "token",
    "gap_changed_tokens": "changes",
    "gap_regret": "regrets",
    "gap_infinite": "infinite",
}


@dataclass(frozen=True, kw_only=True)
class Gapped(Continued, Sampled):
    """calls: one more context of each step, or chain: its tokens one by one."""

    calls: Literal["one", "chain"] = "one"

    def check(self) -> None:
        super().check()
        arguments.word("calls", self.calls, ("one", "chain"))

    def measured(self, q: Language, source: Language | Denoiser, length: int) -> list[Record]:
        from unmask.diagnosis.gap import gap

        given, _ = self.prompts(q, length)
        generation = self.generate(source, length, given=given, trace=True)
        measured = gap(source, generation, calls=self.calls, seed=self.seed)
        cost = float(generation.model_calls.double().mean())
        estimates = {name: getattr(measured, field) for name, field in MEASURES.items()}
        if measured.claim == "divergence":
            estimates |= {"divergence_nats": divergence(generation, q), "gap_exact_nats": self.exact(q, source)}
        return [record(name, estimate, cost) for name, estimate in estimates.items() if estimate is not None]

    def exact(self, q: Language, source: Language | Denoiser) -> Estimate | None:
        """The divergence by recursion on gaps (theory/gaps.py), where it is exact and quick."""
        from unmask.core.estimates import exactly
        from unmask.theory.chains import first_order
        from unmask.theory.gaps import order_loss
        from unmask.theory.known import LONGEST, MOST_WORK, work

        chain, delta = first_order(q), self.delta(self.steps)
        plain = source is q and (self.sampler, self.temperature, self.top_p, self.top_k) == ("ancestral", 1, 1, None)
        if chain is None or not plain or self.prompt_length or self.length > LONGEST:
            return None
        if work(chain, self.length, delta) > MOST_WORK:
            return None
        return exactly(float(order_loss(chain, self.length, delta)[1][-1]), "exact: recursion on gaps")


@JOBS.register("gap")
@dataclass(frozen=True, kw_only=True)
class FactorizationGap(Gapped, Modelled):
    """Nats and tokens lost by sampling several tokens in one step."""

    def measure(self) -> list[Record]:
        return self.measured(*self.source, self.length)


@JOBS.register("learned_gap")
@dataclass(frozen=True, kw_only=True)
class LearnedGap(Taught, Gapped):
    """The same for a trained network."""

    def measure(self, *, needed: tuple[Path, ...]) -> list[Record]:
        network = self.network(needed)
        return self.measured(self.q, network, network.length)


def divergence(generation: Generation, q: Language) -> Estimate | None:
    """Mean of log p(x | choices) - log q(x) over the possible rows; None if no row is possible."""
    from unmask.core.estimates import mean

    given, written = generation.given, generation.order > 0
    nats = torch.where(written, generation.probability, 1.0).double().log().sum(1)
    nats -= q.log_evidence(generation.tokens) - q.log_evidence(given)
    groups = given.unique(dim=0, return_inverse=True)[1] if bool((given != q.vocabulary).any()) else None
    there = nats.isfinite()
    return mean(nats[there], groups=None if groups is None else groups[there]) if bool(there.any()) else None
