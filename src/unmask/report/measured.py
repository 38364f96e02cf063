"""The records of a demo: what its figures and tables show, from the cells of its sweep.

A record is one number: what was measured (`measure`) of what, and the Estimate's fields. `ter` is exact, `ter_upper`
its bound (theory.md 7.2); `_ratio` means relative to TER(q), the language's own. `steps` is the number of rounds N,
None where there are none (AR) or where they are the answer; `pruned` is False for languages that can say everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.experiments.board import Settings as BoardSettings
from unmask.experiments.board.run import measured
from unmask.experiments.board.standings import records as of_board
from unmask.experiments.jobs.run import Sweep
from unmask.experiments.measures.catalogue import Record

SHOWN = {"ser", "ter", "ter_ratio", "ter_upper", "ter_upper_ratio", "ser_predicted", "ter_ratio_predicted"}
SHOWN |= {"steps_for_ter", "steps_for_ser"}
ABOUT = ("language", "length", "pruned", "steps")


def records(sweep: Sweep) -> list[Record]:
    """All of a demo's, in the order of its cells."""
    rows = [row for row in sweep.rows() if row["metric"] != "curve"]
    found = [_record(row) for row in rows if row["pruned"] and row["measure"] in SHOWN]
    return found + list(_perplexity(rows)) + _of_samplers(sweep)


def _perplexity(rows: Sequence[Mapping[str, Any]]) -> Iterator[Record]:
    """What the paper plots as TER, itself and relative to the language's own, of languages that are not pruned."""
    rows = [row for row in rows if not row["pruned"]]
    own = {row["language"]: row["value"] for row in rows if row["measure"] == "ter"}
    for row in rows:
        if row["measure"] in ("ter", "generative_perplexity"):  # AR draws from the language itself
            yield _record(row) | {"measure": "generative_perplexity"}
            ends = {end: row[end] / own[row["language"]] for end in ("value", "low", "high")}
            yield _record(row) | {"measure": "generative_perplexity_ratio"} | ends


def _of_samplers(sweep: Sweep) -> list[Record]:
    curves, failures = measured(sweep)
    if failures:
        first = failures[0]
        raise UnmaskError(f"cannot compare {first.sampler} on {first.language}: {first.message}")
    shown = [record for record in of_board(curves, BoardSettings()) if record["measure"] in ("ser", "diversity")]
    return [r | {"pruned": True, "steps": r["budget"] if r["knob"] == "steps" else None} for r in shown]


def _record(row: Mapping[str, Any]) -> Record:
    about = {name: row.get(name) for name in ABOUT}
    estimate = {name: row[name] for name in Estimate.__dataclass_fields__}
    return {"measure": row["measure"]} | about | estimate | {"evaluations": row["evaluations"]}


def of_samplers(records: Sequence[Record]) -> list[Record]:
    """What the samplers' figure shows; the other figures are about ancestral sampling."""
    return [record for record in records if "sampler" in record]


def of_steps(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if "sampler" not in record]
