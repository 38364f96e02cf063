"""unmask board run|compare."""

from __future__ import annotations

from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

from unmask.cli.options import Answer, Counts, Engine, Grid, Measuring, engine_on
from unmask.core.entries import column, present
from unmask.core.errors import plural
from unmask.experiments.board.settings import Comparing

Sampler = Annotated[str, "SAMPLER"]


def run(
    *,
    samplers: Annotated[tuple[str, ...], "SAMPLER"] = (),
    ground: Comparing,
    against: Sampler = "ancestral",
    steps: Counts = (),
    out: Path = Path("board"),
    by: Measuring = Measuring(),
) -> Answer:
    """Rank samplers on languages with exactly known probabilities.

    Examples:
        unmask board run --quick
        unmask board --samplers ancestral strided --languages sparse-hmm
        unmask board --model mdm --causal-model ar --quick
        unmask board --samplers "speculative(draft_length=[2, 4])" mine:Sampler

    The board shows the model calls that each sampler needs for an SER of 50%, 10%
    and 1%, and for the TER of the language; its accuracy under parallelism (AUP);
    and its diversity. Each sampler runs at several budgets: numbers of steps N, or
    a list of values of another option. The same command resumes.

    Args:
        samplers: Samplers with options, package.module:Name or file.py:Name. (default: all registered by unmask)
        against: Sampler to compare all others with, row by row.
        steps: Numbers of steps N of samplers that have a number of steps. (default: from L/32 to 8 L)
        out: Directory of the page, board.json, .csv and the store; created if missing.
    """
    from unmask.experiments.board import Settings
    from unmask.experiments.board.table import HOW_TO_READ, tables
    from unmask.report.publishing import BOARD, left_out, publish
    from unmask.report.results import STORE

    settings = Settings(**vars(ground), samplers=samplers, against=against, steps=steps)
    published = publish(BOARD, settings, out, **by.options(_place(ground)))
    board = published.measured
    files = list(map(str, published.files))
    seeds = plural(board.settings.seeds, "seed")
    text: list[Grid | str] = [
        *map(_grid, tables(board)),
        *HOW_TO_READ.format(against=against).splitlines(),
        *left_out(board),
        "",
        f"{seeds} with {board.settings.rows} sequences per budget; {board.seconds:.0f} s of compute.",
    ]
    if None in column(board.failures, "value"):
        text.append(f"`unmask sweep retry {out / STORE}` measures the skipped samplers again.")
    about = {
        "seconds": board.seconds,
        "files": files,
        "failures": list(map(asdict, board.failures)),
        "standings": [record for record in board.records if record["budget"] is None],
    }
    return Answer(about, [*text, *files])


def compare(
    first: Sampler,
    second: Sampler,
    /,
    *,
    ground: Comparing,
    store: Path = Path("board", "sweep"),
    engine: Engine = None,
) -> Answer:
    """Test which of two samplers writes more correct sequences for the same cost.

    Examples:
        unmask board compare strided ancestral --languages paper-2gram
        unmask board compare entropy-bounded threshold --quick
        unmask board compare mine:Sampler ancestral

    The verdict compares whole curves: the fraction of correct sequences, averaged
    over log2 of model calls. Two equal samplers are called different in at most 5%
    of comparisons, for each language (docs/samplers.md).

    Args:
        first: Sampler with its options.
        second: Another sampler, or the same with other options.
        store: Store of the sweep, created if missing; a board in OUT has OUT/sweep.
        engine: local, here, ray or module:Name, as in `unmask sweep run`.
    """
    from unmask.experiments.board import Settings
    from unmask.experiments.board.compare import versus

    settings = Settings(**vars(ground))
    verdicts = versus(first, second, settings, store=store, engine=engine_on(_place(ground), engine))
    text = [verdict.sentence(first, second) for verdict in verdicts]
    each = present(column(verdicts, "budgets"))
    for name, budgets in zip((first, second), zip(*each, strict=True), strict=True):
        text.append(f"Fixed budgets of {name}: {'; '.join(dict.fromkeys(budgets))}.")
    return Answer({"first": first, "second": second, "languages": list(map(asdict, verdicts))}, text)


def _grid(table: Any) -> Grid:
    """A table of the board without its intervals."""
    rows = [[name, *map(itemgetter(0), cells)] for name, cells in table.rows]
    return Grid(table.title, table.head, rows)


def _place(ground: Comparing) -> str:
    return "cpu" if ground.model is None else ground.device


command = {"run": run, "compare": compare}
