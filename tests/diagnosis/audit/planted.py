"""Twelve faults, planted in loops as strangers write them, and what the audit says with and without the record.

`python -m tests.diagnosis.audit.planted` prints the number of rows at which each is named, in some minutes of one core.
A fault that is named at some number of rows is not tried at more.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from tests.diagnosis.audit.loops import llada, mdlm
from unmask import audit, oracle

LOOPS = {"ancestral": (mdlm, 32, 16), "low-confidence": (llada, 16, 8)}  # each with its places and its rounds
TIES = "interval-5"  # where many scores are equal


class Fault(NamedTuple):
    named: str  # by the audit
    detail: str = ""  # a part of what it says
    sampler: str = "ancestral"
    bug: str = ""
    temperature: float = 1.0
    one_seed: bool = False
    language: str = "paper-2gram"


PLANTED = {
    "one step short": Fault("miscounted steps", "15 steps instead of 16", bug="one step short"),
    "a round too late": Fault("uneven steps", "step 15 of 16 reveals nothing", bug="an empty round"),
    "delta instead of rho": Fault("wrong reveal rate", bug="delta instead of rho"),
    "last step by argmax": Fault("greedy last step", "argmax", bug="final argmax"),
    "p^1.02 instead of p": Fault("temperature", "0.9", temperature=1 / 1.02),
    "noise in bfloat16": Fault("precision", "bfloat16", bug="bfloat16 noise"),
    "noise shared by places": Fault("reused noise", "at every position", bug="noise shared by positions"),
    "noise shared by rounds": Fault("reused noise", "in every step", bug="noise shared by rounds"),
    "two workers with one seed": Fault(
        "reused noise", "in several rows: 100 of 200 repeat an earlier one", one_seed=True
    ),
    "1% hidden again": Fault("remasking", "positions are hidden again", bug="hidden again"),
    "top-k over the batch": Fault(
        "batch-flattened choice", "positions of a row, not 2", "low-confidence", "flattened top-k"
    ),
    "ties by position": Fault(
        "ties", "equal scores in order of positions", "low-confidence", "lowest position", language=TIES
    ),
}


def run(fault: Fault, rows: int, batch: int = 100, seed: int = 7):
    """Tokens (rows, L) of a loop with this fault, and the oracle that it has asked."""
    loop, length, steps = LOOPS[fault.sampler]
    model = oracle(fault.language)
    torch.manual_seed(seed)
    parts = []
    for _ in range(rows // batch):
        if fault.one_seed:
            torch.manual_seed(seed)
        parts.append(loop(model, batch, length, steps, bug=fault.bug, temperature=fault.temperature))
    return torch.cat(parts), model


def said(fault: Fault, rows: int, batch: int = 100):
    """The audits of its tokens alone, and with the record."""
    samples, model = run(fault, rows, batch)
    steps = LOOPS[fault.sampler][2]
    return [audit(samples, known, sampler=fault.sampler, steps=steps) for known in (model.language, model)]


def main() -> None:
    open_ways = {(name, way) for name in PLANTED for way in range(2)}
    for rows in (200, 2000, 20_000):
        for name, fault in PLANTED.items():
            samples, model = run(fault, rows, rows // 2)
            for way, known in enumerate((model.language, model)):
                if (name, way) in open_ways:
                    found = audit(samples, known, sampler=fault.sampler, steps=LOOPS[fault.sampler][2])
                    if found.fault == fault.named:
                        open_ways.discard((name, way))
                    print(rows, name, ["tokens", "record"][way], found.sentence, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
