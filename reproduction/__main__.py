"""The paper's claims: list them, check them by recorded measurements, measure them again, write the document.

    python -m reproduction                             check all claims by the records in results
    python -m reproduction theorem-4.4 figure-1.ter    an item or a claim, with all of its measurements
    python -m reproduction list                        the items and their claims
    python -m reproduction measure lemmas              measure again, and check by the new records
    python -m reproduction document                    write reproduction/README.md

Measuring everything takes 15 minutes on two cores and needs no weights. An interrupted run goes on where it stopped.
--full is the size of the paper, for a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from reproduction import beside
from reproduction.document import findings, full, markdown, table
from reproduction.items import chosen
from reproduction.judge import Item, Size
from reproduction.records import Measured, measure, read
from unmask import UnmaskError

ROOT = Path(__file__).parents[1]
RECORDS = [ROOT / "results" / "paper-quick.json", ROOT / "results" / "gpu" / "timing.json"]  # on two cores, on a GPU
DOCUMENT = ROOT / "reproduction" / "README.md"
ACTIONS = ("list", "check", "measure", "document")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("reproduction", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="list, check, measure or document; items or claims")
    parser.add_argument("--records", nargs="+", type=Path, default=RECORDS, metavar="FILE", help="later files decide")
    parser.add_argument("--full", action="store_true", help="measure with the paper's networks and rows")
    parser.add_argument("--device", default="cpu", help="device of the networks: cpu or cuda (default: cpu)")
    parser.add_argument("--engine", default="local", help="local, here, ray or module:Name (default: local)")
    parser.add_argument("--address", help="address of the cluster of Ray (default: one on this machine)")
    parser.add_argument("--workers", type=int, help="processes that measure (default: one a core)")
    parser.add_argument("--out", type=Path, help="directory of the measurements (default: paper-quick or paper-full)")
    options = parser.parse_args(words)
    action, *names = options.names if options.names[:1] and options.names[0] in ACTIONS else ["check", *options.names]
    try:
        items = chosen(names)
        if action == "list":
            print(listed(items))
            return 0
        if action == "measure":
            size = Size(options.full, options.device)
            parts = [part for item in items.values() for part in item.cells(size)]
            how = {"engine": options.engine, "address": options.address, "workers": options.workers}
            sources = [measure(parts, size.name, options.out or Path(f"paper-{size.name}"), **how)]
        else:
            sources = [read(path) for path in options.records]
        if action == "document":
            DOCUMENT.write_text(markdown(findings(items, sources), sources))
            print(DOCUMENT, beside.html(beside.rows(sources)), sep="\n")  # the rows of report/views/demo.html
            return 0
        print(checked(items, sources, bool(names)))
    except UnmaskError as error:
        print(f"reproduction: error: {error}", file=sys.stderr)
        return 2
    return 0


def listed(items: Mapping[str, Item]) -> str:
    lines = []
    for name, item in items.items():
        lines.append(f"{name}: {item.about}")
        lines += [f"  {claim.name}: {claim.words}" for claim in item.claims.values()]
    return "\n".join(lines)


def checked(items: Mapping[str, Item], sources: list[Measured], whole: bool) -> str:
    """The table of verdicts; whole: also each claim in full."""
    judged = findings(items, sources)
    claims = [full(*one) for own in judged.values() for one in own] if whole else []
    return "\n\n".join([*claims, table(judged)])


if __name__ == "__main__":
    sys.exit(main())
