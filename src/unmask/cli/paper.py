"""unmask paper, unmask paper list|report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Directory, File, Switch

if TYPE_CHECKING:
    from unmask.experiments.paper.kept import Reproduction

Items = Annotated[tuple[str, ...], "ITEM"]


def run(
    items: Items = (),
    *,
    quick: Switch = False,
    full: Switch = False,
    device: str = "auto",
    out: Directory = None,
    json: Switch = False,
) -> None:
    """Reproduce the paper claim by claim: all of it, or the named items.

    Examples:
        unmask paper run --quick
        unmask paper theorem-4.4 lemmas
        unmask paper --full --device cuda --out all

    Each figure, table, theorem, lemma and claim is compared with measurements and
    agrees, differs, or is not tested, because it needs weights, a GPU or more
    rows. Verdicts are computed from records. --quick, the default, needs no
    weights and about a quarter of an hour on two cores; --full uses the paper's
    sizes.

    Ctrl-C once ends after the current cell, twice at once; the same command
    resumes. OUT/sweep holds the numbers of all items: a cell that two of them
    need is measured once.

    Args:
        items: Names from `unmask paper list` (default: all).
        quick: Small networks, fewer rows (the default).
        full: The paper's networks and rows, for a GPU.
        device: Device of the networks: auto, cpu or cuda.
        out: Directory for the page, the records and the store (default: paper-quick or paper-full).
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show, show_tables
    from unmask.core.errors import UnmaskError
    from unmask.experiments.paper.items import chosen
    from unmask.experiments.paper.judge import Size
    from unmask.networks.model.checkpoints import choose_device
    from unmask.report import paper
    from unmask.report.publishing import publish

    if quick and full:
        raise UnmaskError("--quick and --full are two sizes; give one")
    chosen(items)
    chosen_device = choose_device(device)
    size = Size(full, str(chosen_device))
    on_cuda = chosen_device.type == "cuda"  # several processes would wait for one GPU
    directory = Path(f"paper-{size.name}") if out is None else out
    made = publish(paper.page(items), size, directory, engine="here" if on_cuda else "local")
    if json:
        show(_summary(made.measured, items) | {"seconds": made.seconds, "page": str(made.page)}, True)
        return
    show_tables(paper.tables(made.measured))
    _notes(made.measured, items)
    print(f"{made.page}\n{made.seconds:.0f} s")


def listed(*, json: Switch = False) -> None:
    """List the items of the paper, with the number of their claims.

    Examples:
        unmask paper list
        unmask paper list --json

    Args:
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show, show_lines
    from unmask.experiments.paper.items import ITEMS

    if json:
        claims = {name: {c.name: [c.where, c.words, c.command] for c in i.claims.values()} for name, i in ITEMS.items()}
        show({name: {"about": item.about, "claims": claims[name]} for name, item in ITEMS.items()}, True)
        return
    show_lines([(name, f"{item.about} ({len(item.claims)} claims)") for name, item in ITEMS.items()])


def report(
    *, out: Path = Path("paper-quick"), records: File = None, markdown: File = None, json: Switch = False
) -> None:
    """Judge recorded measurements again, and write the page or a document.

    Examples:
        unmask paper report --out paper-quick
        unmask paper report --records results/paper-quick.json --markdown r.md

    This command measures nothing; it judges records of any version of unmask.

    Args:
        out: Directory of an `unmask paper`, for the page; made if it does not exist.
        records: File of records (default: OUT/paper.json).
        markdown: Write a document to this file instead of the page.
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show, show_tables
    from unmask.core.files import atomic, check_writable
    from unmask.experiments.paper.kept import FILE, read
    from unmask.report import paper
    from unmask.report.frame import PAGE
    from unmask.report.publishing import check_directory, write

    target = out / PAGE if markdown is None else markdown
    if markdown is None:
        check_directory(out, PAGE)
    else:
        check_writable(markdown)
    source = out / FILE if records is None else records
    made, origin = read(source)
    if markdown is None:
        write(out, {PAGE: paper.drawn(made, origin)}, PAGE)
    else:
        with atomic(markdown) as file:
            file.write(paper.markdown(made, origin, source.name).encode())
    if json:
        show(_summary(made, ()) | {"file": str(target)}, True)
        return
    show_tables(paper.tables(made))
    print(target)


def _summary(made: Reproduction, items: tuple[str, ...]) -> dict[str, Any]:
    from unmask.report.paper import listing, totals

    claims = [claim for claim in listing(made) if not items or claim["item"] in items]
    failures = [{"metric": metric, "error": error} for metric, error in made.failures]
    return totals(made) | {"size": made.size, "claims": claims, "failures": failures}


def _notes(made: Reproduction, items: tuple[str, ...]) -> None:
    """The claims of the named items, or else those that differ, and failed cells."""
    from unmask.cli.output import say

    for name, own in made.findings().items():
        for claim, finding in own:
            if name in items or (not items and finding.verdict == "differs"):
                say(f"{finding.verdict}: {claim.name}, {claim.where}: {finding.why}")
    for metric, error in made.failures:
        say(f"not measured: {metric}: {error}")


command = {"run": run, "list": listed, "report": report}
