"""The job `gap`: the loss by parallel decoding, without ground truth (diagnosis/gap)."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.diagnosis.gap.choice import Estimator, check_calls
from unmask.experiments.jobs.catalogue import JOBS, Record
from unmask.experiments.jobs.sources import record
from unmask.experiments.jobs.standard import Modelled

MEASURES = {
    "gap_nats": "sequence",
    "gap_nats_per_token": "token",
    "gap_changed_tokens": "changes",
    "gap_regret": "regrets",
    "gap_infinite": "infinite",
    "order_gap_nats": "order_gap",
}


@JOBS.register("gap")
@dataclass(frozen=True, kw_only=True)
class FactorizationGap(Modelled):
    """Nats and tokens lost by sampling several tokens in one step, and the order gap beside it.

    calls: one, pair or chain, or model calls per row. (default: as many as the generation)
    """

    calls: str | int | None = None

    def check(self) -> None:
        super().check()
        _ = self.estimator

    @property
    def estimator(self) -> Estimator | int | None:
        return check_calls(self.calls)

    def measure(self) -> list[Record]:
        from unmask.diagnosis.gap import gap

        q, denoiser = self.source
        given, _ = self.prompts(q, self.length)
        generation = self.generate(denoiser, self.length, given=given, trace=True)
        measured = gap(denoiser, generation, calls=self.estimator, seed=self.seed)
        cost = float(generation.model_calls.double().mean())
        estimates = {name: getattr(measured, field) for name, field in MEASURES.items()}
        return [record(name, estimate, cost) for name, estimate in estimates.items() if estimate is not None]
