"""What published decoders write: each is run unchanged, with exact logits in place of a language model.

  python -m benchmarks.engines                              engines that are installed by pip
  python -m benchmarks.engines --checkouts DIR              and those that you have cloned into DIR
  python -m benchmarks.engines --only LLaDA --seconds 5     one of them, quickly
  python -m benchmarks.engines --card FILE --only SDAR      a report card from the results in FILE

Nothing is downloaded. An engine that is not here is listed with the command that fetches it. For each setting: the
verdict of the audit; the rows that were compared with the distribution enumerated on a tiny language; and the fraction
of a token that the model gives probability 0.2 at each of 32 independent positions. The last line is JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.engines import adapters
from benchmarks.engines.cases import Case
from benchmarks.engines.found import Missing
from benchmarks.engines.measuring import MOST_ROWS, Result, measure
from unmask.core.files import origin, write_json


def main(arguments: list[str] | None = None) -> int:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.engines", description=__doc__, formatter_class=raw)
    parser.add_argument("--checkouts", type=Path, help="Folder with clones of repositories")
    parser.add_argument("--only", nargs="+", default=[""], help="Parts of the names of engines")
    parser.add_argument("--seconds", type=float, default=60, help="CPU seconds of rows per setting (default: 60)")
    parser.add_argument("--out", type=Path, help="JSON file; engines in it that are not run are kept")
    parser.add_argument("--json", action="store_true", help="Print only the last line")
    parser.add_argument("--table", type=Path, help="Print the table of a JSON file, and run nothing")
    parser.add_argument("--page", type=Path, help="With --table: write the table into this page instead")
    parser.add_argument("--card", type=Path, help="Print a report card of each engine of a JSON file, and run nothing")
    chosen = parser.parse_args(arguments)
    kept = chosen.table or chosen.card
    if kept is not None:
        records = [
            record for record in json.loads(kept.read_text())["engines"] if wanted(record["engine"], chosen.only)
        ]
        lines = table(records) if chosen.table is not None else cards(records)
        if chosen.page is not None:
            text = chosen.page.read_text()
            before, _, rest = text.partition("| engine | setting |")
            after = rest.partition("\n\n")[2]
            chosen.page.write_text(before + "\n".join(lines) + "\n\n" + after)
            return 0
        print("\n".join(lines))
        return 0
    records: list[dict[str, Any]] = []
    made = origin(seconds=chosen.seconds) | {"command": ["python", "-m", "benchmarks.engines"]}
    for record in run(chosen.checkouts, chosen.only, chosen.seconds):
        records.append(record)
        if not chosen.json:
            print(shown(record), flush=True)
        if chosen.out is not None:  # after each, so that an interruption loses one
            write_json(chosen.out, {"origin": made, "engines": merged(chosen.out, records)})
    print(json.dumps({"engines": records}))
    return 0


def merged(path: Path, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The new records, and those of other engines that the file has."""
    fresh = {record["engine"] for record in records}
    kept = json.loads(path.read_text())["engines"] if path.exists() else []
    both = [record for record in kept if record["engine"] not in fresh] + records
    return sorted(both, key=lambda record: record["engine"].lower())


def run(checkouts: Path | None, only: list[str], seconds: float) -> Iterator[dict[str, Any]]:
    """A record of each setting of each engine; of an engine that could not be run, the reason."""
    for found in pkgutil.iter_modules(adapters.__path__):
        adapter = importlib.import_module(f"{adapters.__name__}.{found.name}")
        if not wanted(adapter.NAME, only):
            continue
        try:
            version, cases = adapter.cases(checkouts)
        except Missing as reason:
            yield {"engine": adapter.NAME, "not_run": str(reason)}
            continue
        for case in cases:
            about = {"engine": adapter.NAME, "version": version, "setting": case.setting}
            try:
                yield about | described(case, measure(case, seconds, MOST_ROWS))
            except Exception as error:  # of the engine
                traceback.print_exc(file=sys.stderr)
                yield about | {"not_run": f"it stops with {type(error).__name__}: {error}"}


def wanted(name: str, only: list[str]) -> bool:
    return any(part.lower() in name.lower() for part in only)


def described(case: Case, result: Result) -> dict[str, Any]:
    return result.to_dict() | {"sampler": str(case.sampler), "why": case.why, "meant": case.meant}


def table(records: list[dict[str, Any]]) -> list[str]:
    """Lines of Markdown."""
    columns = ["engine", "setting", "verdict", ".20 is written with", ".04 of 997 tokens"]
    head = [*columns, "rows", "p, as stated", "p, its code", "s"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return lines + [f"| {' | '.join(cells(record))} |" for record in records]


def cards(records: list[dict[str, Any]]) -> list[str]:
    """A page of Markdown: for each engine its version, its settings, their verdicts, and what .20 is written with."""
    lines = []
    for name in dict.fromkeys(record["engine"] for record in records):
        mine = [record for record in records if record["engine"] == name]
        run = [record for record in mine if "not_run" not in record]
        stated = sum(not record["differs"] for record in run)
        lines += [
            f"# {name}",
            "",
            f"Version {mine[0].get('version', '-')}; exact logits, enumerated distributions.",
            "",
        ]
        lines += [f"**{stated} of {len(mine)} settings are as stated.**", "", *table(mine), ""]
        lines += [f"- {record['setting']}: {record['verdict']}" for record in run] + [""]
    return lines


def cells(record: dict[str, Any]) -> list[str]:
    name, setting = record["engine"], record.get("setting", "-")
    if "not_run" in record:
        return [name, setting, f"not run: {record['not_run'].rstrip('.: ')}", *"------"]
    rare, meant = record["rare"], record["meant"] and f" ({record['meant']})"
    size, tail = (in_numbers(part) for part in (rare, record.get("tail")))
    verdict = f"**differs**: {record['why']}" if record["differs"] else f"as stated{meant}"
    stated, code = (p_value(record[name]) for name in ("p_law", "p_code"))
    return [name, setting, verdict, size, tail, f"{record['rows']:,}", stated, code, f"{record['seconds']:.0f}"]


def in_numbers(estimate: dict[str, Any] | None) -> str:
    return "-" if estimate is None else "{value:.4f} [{low:.4f}, {high:.4f}]".format(**estimate)


def p_value(p: float | None) -> str:
    return "-" if p is None else "< 1e-4" if p < 1e-4 else f"{p:.2g}"


def shown(record: dict[str, Any]) -> str:
    name = f"{record['engine']}, {record.get('setting', '-')} [{record.get('version', '-')}]"
    if "not_run" in record:
        return f"{name}: not run: {record['not_run']}"
    rare = record["rare"]
    sizes = {".20 as": rare, "the tail of .04 as": record.get("tail")}
    size = "".join(f"  {name} {in_numbers(part)}; " for name, part in sizes.items() if part is not None)
    agrees = "confirmed" if record["confirmed"] else "NOT CONFIRMED"
    p_code = "" if record["p_code"] is None else f", of its code {record['p_code']:.2g}"
    lines = [
        f"  audit      {record['verdict']}",
        f"  enumerated p = {record['p_law']:.2g}{p_code}, {record['rows']} rows, {agrees}, TV {record['distance']:.3f}",
        f"{size}  {record['seconds']:.0f} s",
    ]
    return "\n".join([name, *lines])


if __name__ == "__main__":
    sys.exit(main())
