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
    """Reproduce the paper claim by claim: all of it, or the items that are named.

    Examples:
        unmask paper run --quick
        unmask paper theorem-4.4 lemmas
        unmask paper --full --device cuda --out all

    Each figure, table, theorem, lemma and claim is held against what is measured
    here, and agrees, differs, or needs what this machine has not: weights, a GPU.
    Verdicts are computed from records. --quick, which is meant where nothing is
    said, needs no weights and a quarter of an hour of two cores; --full is the
    paper's sizes.

    Ctrl-C once ends after what is being measured, twice at once, and the same
    command goes on from there. OUT/sweep holds the numbers, for all items alike:
    what two of them need is measured once.

    Args:
        items: Names of `unmask paper list`; all unless told otherwise.
        quick: Small networks, fewer rows.
        full: The paper's networks and rows, for a GPU.
        device: Where networks run: auto, cpu or cuda.
        out: A directory for the page, the records and the store; paper-quick or paper-full if not given.
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show, show_tables
    from unmask.core.errors import UnmaskError
    from unmask.experiments.paper.claims import Size
    from unmask.experiments.paper.items import chosen
    from unmask.networks.model.checkpoints import choose_device
    from unmask.report import paper
    from unmask.report.publishing import publish

    if quick and full:
        raise UnmaskError("--quick and --full are two sizes; give one of them")
    chosen(items)
    chosen_device = choose_device(device)
    size = Size(full, str(chosen_device))
    on_cuda = chosen_device.type == "cuda"  # which processes would only wait for
    directory = Path(f"paper-{size.name}") if out is None else out
    made = publish(paper.page(items), size, directory, engine="here" if on_cuda else "local")
    if json:
        show(_summary(made.measured, items) | {"seconds": made.seconds, "page": str(made.page)}, True)
        return
    show_tables(paper.tables(made.measured))
    _say(made.measured, items)
    print(f"{made.page}\n{made.seconds:.0f} s")


def listed(*, json: Switch = False) -> None:
    """List the items of the paper, with how much is claimed in each.

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
    """Judge the claims again by records, and write the page, or a document.

    Examples:
        unmask paper report --out paper-quick
        unmask paper report --records results/paper-quick.json --markdown r.md

    Nothing is measured: what another version of unmask has measured is judged by
    this one.

    Args:
        out: The directory of an `unmask paper`, in which the page is written; made if it is not there.
        records: The records, where they are elsewhere than in OUT/paper.json.
        markdown: A document, in the place of the page.
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show, show_tables
    from unmask.core.files import atomic, check_writable
    from unmask.experiments.paper.kept import FILE, read
    from unmask.report import paper
    from unmask.report.frame import PAGE
    from unmask.report.publishing import check_directory, write

    if markdown is None:
        check_directory(out, PAGE)
        target = out / PAGE
    else:
        target = markdown
        check_writable(target)
    source = out / FILE if records is None else records
    made, origin = read(source)
    if markdown is None:
        write(out, {PAGE: paper.drawn(made, origin)}, PAGE)
    else:
        with atomic(target) as file:
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


def _say(made: Reproduction, items: tuple[str, ...]) -> None:
    from unmask.cli.output import say

    for name, told in made.findings().items():
        if items and name not in items:
            continue
        for claim, finding in told:
            if finding.verdict == "differs" or items:
                say(f"{finding.verdict}: {claim.name}, {claim.where}: {finding.why}")
    for metric, error in made.failures:
        say(f"not measured: {metric}: {error}")


command = {"run": run, "list": listed, "report": report}
