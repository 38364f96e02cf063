"""Alarms and power of `assert_law`: correct loops in other people's style, and loops with a planted fault.

    python -m benchmarks.law_power --alarms 100                  each correct loop 100 times
    python -m benchmarks.law_power --power 3 --rows 200 400      each fault three times, by the number of rows
    python -m benchmarks.law_power --table                       the kept results as tables

Rows of the reference are the same in every fifth run: a run takes a second, and an alarm has the same probability.
Results are written after each run. Where a run is kept, it is not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.diagnosis.audit import remembering
from tests.diagnosis.audit.strangers import CORRECT, PLANTED, Case
from unmask.core.estimates import proportion
from unmask.core.files import origin, write_json
from unmask.diagnosis.audit import rare, verdict
from unmask.testing import assert_law

OUT = Path("results/law.json")
SIZES = (200, 400, 2000)
REFERENCES = 5  # sets of reference rows, each used by every fifth seed
UNNAMED = ("no known fault", "too small to name", "without a name")


def said(case: Case, rows: int, seed: int) -> str:
    """The first line of the failed test, or ""."""
    remembering.SEED = seed % REFERENCES
    try:
        assert_law(partial(case.loop, rows=rows), rows=rows, seed=seed, **case.how)
    except AssertionError as error:
        return str(error).splitlines()[0].removeprefix("the loop ")
    return ""


def judged(case: Case, text: str) -> str:
    """Whether the name of a fault is right."""
    if not text:
        return "passed"
    if case.words and any(words in text for words in case.words.split(" or ")):
        return "right"
    return "unnamed" if any(words in text for words in UNNAMED) else "wrong"


def alarms(kept: dict[str, Any], runs: int, rows: int, names: list[str], out: Path) -> None:
    """All correct loops with one seed, then with the next."""
    kept["rows"] = rows
    for seed in range(runs):
        for name in names or CORRECT:
            found = kept.setdefault("loops", {}).setdefault(name, {"runs": 0, "alarms": []})
            if seed < found["runs"]:
                continue
            text = said(CORRECT[name], rows, seed)
            found["alarms"] += [f"seed {seed}: {text}"] * bool(text)
            found["runs"] += 1
        kept["origin"] = made()
        written_to(out, alarms=kept)
        print(f"seed {seed}: {sum(len(found['alarms']) for found in kept['loops'].values())} alarms", flush=True)


def power(kept: dict[str, Any], runs: int, sizes: list[int], names: list[str], out: Path) -> None:
    """Each fault, by the number of rows."""
    for rows in sizes:
        for name in names or PLANTED:
            found = kept.setdefault("faults", {}).setdefault(name, {}).setdefault(str(rows), {"runs": 0, "texts": {}})
            found["texts"] = Counter(found["texts"])
            for seed in range(found["runs"], runs):
                text = said(PLANTED[name], rows, seed)
                found["texts"][text] += 1
                found["runs"] += 1
            print(rows, name, cell(name, found), *found["texts"], sep=" | ", flush=True)
            kept["origin"] = made()
            written_to(out, power=kept)


def written_to(out: Path, **part: Any) -> None:
    """Write one part of the file; another process may have written the other."""
    whole = json.loads(out.read_text()) if out.exists() else {}
    write_json(out, {"origin": made()} | whole | part)


def made() -> dict[str, Any]:
    return origin() | {"command": ["python", "-m", "benchmarks.law_power"]}


def tables(whole: dict[str, Any]) -> list[str]:
    """Lines of Markdown: the alarms, then found and named of each fault."""
    runs, wrong = ([found[key] for found in whole["alarms"]["loops"].values()] for key in ("runs", "alarms"))
    number = sum(map(len, wrong))
    many = proportion(number, sum(runs))
    lines = [f"{number} alarm{'s' * (number != 1)} in {sum(runs):,} tests of {len(runs)} correct loops: {many}", ""]
    sizes = [str(rows) for rows in SIZES]
    lines += ["| fault | " + " | ".join(f"{rows:,} sequences" for rows in SIZES) + " | its name |", "|---" * 5 + "|"]
    faults = whole["power"]["faults"]
    for name in (name for name in PLANTED if name in faults):
        found = faults[name]
        cells = [cell(name, found[rows]) if rows in found else "-" for rows in sizes]
        right = " or ".join(dict.fromkeys(part.partition(" (")[0] for part in PLANTED[name].words.split(" or ")))
        lines.append(f"| {name} | {' | '.join(cells)} | {right or '-'} |")
    return lines


def cell(name: str, found: dict[str, Any]) -> str:
    """Found of all, and the names."""
    counts = Counter[str]()
    for text, number in found["texts"].items():
        counts[judged(PLANTED[name], text)] += number
    others = [f"{counts[key]} {word}" for key, word in (("unnamed", "no name"), ("wrong", "wrong name")) if counts[key]]
    return f"{found['runs'] - counts['passed']} of {found['runs']}" + (f" ({', '.join(others)})" if others else "")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "benchmarks.law_power", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--alarms", type=int, default=0, metavar="RUNS", help="Tests of each correct loop")
    parser.add_argument("--power", type=int, default=0, metavar="RUNS", help="Tests of each fault and size")
    parser.add_argument("--rows", type=int, nargs="+", default=[], help="Sequences (default: 200; 200, 400 and 2,000)")
    parser.add_argument("--only", nargs="+", default=[], help="Names of loops or faults")
    parser.add_argument("--out", type=Path, default=OUT, help=f"JSON file of results (default: {OUT})")
    parser.add_argument("--table", action="store_true", help="Print the tables of the kept results, and run nothing")
    chosen = parser.parse_args(arguments)
    whole = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    if chosen.table:
        print("\n".join(tables(whole)))
        return
    torch.set_num_threads(1)
    verdict.Bench, rare.generate = remembering.remembered, remembering.remembered_rare
    if chosen.alarms:
        rows = chosen.rows[0] if chosen.rows else SIZES[0]
        alarms(whole.get("alarms", {}), chosen.alarms, rows, chosen.only, chosen.out)
    if chosen.power:
        power(whole.get("power", {}), chosen.power, chosen.rows or list(SIZES), chosen.only, chosen.out)


if __name__ == "__main__":
    sys.exit(main())
