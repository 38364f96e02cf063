"""Three measurements of a case: the audit, the comparison with enumerated distributions, the share of a rare token."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from scipy.stats import binomtest
from torch import Tensor

from benchmarks.engines.cases import Case
from benchmarks.engines.networks import LENGTH, POSITIONS, RARE, TAIL, Independent, Network, Tailed, Tiny
from unmask import oracle
from unmask.core.estimates import Estimate, bounded_mean, proportion
from unmask.diagnosis.audit import Audit, audit
from unmask.diagnosis.audit.statistics import against_distribution

LANGUAGE, AUDITED_LENGTH, AUDITED_STEPS = "paper-2gram", 16, 8
AUDITED_ROWS, FEWEST = 400, 200  # FEWEST: of a loop without batches
MOST_ROWS = 1_000_000
STEPS = 2  # of the tiny language
ALARM = 1e-4
RARE_ROWS = 2000
TAIL_ROWS, TAIL_BATCH = 20_000, 500


@dataclass(frozen=True)
class Result:
    verdict: str  # the audit's sentence
    fault: str | None
    rare: Estimate | None  # the fraction of tokens that the model gives RARE, as written
    tail: Estimate | None  # the fraction of 997 tokens that share .04, as written
    rows: int  # that were compared with the enumerated distribution
    p_law: float  # that it should write
    p_code: float | None  # that its code writes
    distance: float  # total variation between these two, or between the law and the rows
    seconds: float
    p_tail: float = 1.0  # of the tail: .04
    p_tail_code: float = 1.0  # of the tail that its code writes

    @property
    def differs(self) -> bool:
        return self.p_law < ALARM or self.p_tail < ALARM

    @property
    def confirmed(self) -> bool:
        """Whether the enumeration agrees with the rows, and with what this case states."""
        agrees = self.p_law if self.p_code is None else self.p_code
        return agrees >= ALARM and self.p_tail_code >= ALARM and (self.p_code is None or self.differs)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"confirmed": self.confirmed, "differs": self.differs}


def measure(case: Case, seconds: float, rows: int = MOST_ROWS) -> Result:
    """seconds: CPU seconds, at most, of the rows that are compared with the enumeration."""
    torch.manual_seed(0)
    began = time.process_time()
    tiny = Tiny(case.noise)
    counts, done = counted(case, tiny, seconds, rows)
    law = case.law(tiny, LENGTH, STEPS)
    code = None if case.code is None else case.code(tiny, LENGTH, STEPS)
    other = counts / counts.sum() if code is None else code
    verdict = audited(case) if case.audited else None
    tail = None if case.tail is None else written_tail(case)
    p_tails = [1.0, 1.0]
    if tail is not None and case.tail is not None:
        p_tails = [float(binomtest(round(tail.value * TAIL_ROWS), TAIL_ROWS, p).pvalue) for p in (TAIL, case.tail)]
    return Result(
        "not audited" if verdict is None else verdict.sentence,
        None if verdict is None else verdict.fault,
        written_rare(case, seconds / 3) if case.sized else None,
        tail,
        done,
        against_distribution(counts, law),
        None if code is None else against_distribution(counts, code),
        float((law - other).abs().sum() / 2),
        time.process_time() - began,
        *p_tails,
    )


def counted(case: Case, network: Network, seconds: float, rows: int) -> tuple[Tensor, int]:
    """How often each sequence of the tiny language was written, and the number of rows."""
    counts = torch.zeros(network.vocabulary**LENGTH)
    end, done = time.process_time() + seconds, 0
    while done < rows and time.process_time() < end:
        tokens = case.loop(network, min(case.rows, rows - done), LENGTH, STEPS)
        codes = tokens @ network.vocabulary ** torch.arange(LENGTH - 1, -1, -1)
        counts += torch.bincount(codes, minlength=len(counts))
        done += len(tokens)
    return counts, done


def written_rare(case: Case, seconds: float) -> Estimate:
    """The fraction of the rarer token at independent positions, with one step for each position."""
    network, end = Independent(RARE, case.noise), time.process_time() + seconds
    fractions: list[Tensor] = []
    while sum(map(len, fractions)) < RARE_ROWS and (time.process_time() < end or len(fractions) < 20):
        tokens = case.loop(network, min(case.rows, RARE_ROWS), POSITIONS, POSITIONS)
        fractions.append(tokens.double().mean(1))
    return bounded_mean(torch.cat(fractions))


def written_tail(case: Case) -> Estimate:
    """The fraction of the tail at one position, in one step."""
    network = Tailed()
    parts = [case.loop(network, TAIL_BATCH, 1, 1) for _ in range(TAIL_ROWS // TAIL_BATCH)]
    return proportion(int((torch.cat(parts) >= 3).sum()), TAIL_ROWS)


def audited(case: Case) -> Audit:
    """The audit of the loop on a language of eight symbols; the oracle is its network."""
    options: dict[str, Any] = {"noise": "uniform", "level": "given" if case.level else "prior"} if case.noise else {}
    model = oracle(LANGUAGE, **options)
    parts: list[Tensor] = []
    rows = AUDITED_ROWS if case.rows > FEWEST else FEWEST
    while sum(map(len, parts)) < rows:
        parts.append(case.loop(model, min(case.rows, rows), AUDITED_LENGTH, AUDITED_STEPS))
    known = model if case.record and not case.noise else model.language
    return audit(torch.cat(parts), known, sampler=case.sampler, steps=AUDITED_STEPS, alarm=ALARM, filters=case.filters)
