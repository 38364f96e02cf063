"""unmask theory exact|table|figure|list|show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Counts, Name, Switch

if TYPE_CHECKING:
    from unmask.diagnosis.table import Record
    from unmask.languages import Language

STEPS = (8, 32, 128, 512, 2048)


def exact(
    *,
    language: Name,
    length: int = 512,
    steps: int,
    schedule: str = "linear",
    json: Switch = False,
) -> None:
    """What ancestral sampling does with the ideal denoiser, exactly.

    Examples:
        unmask theory exact --language interval-5 --length 510 --steps 737
        unmask theory exact --language paper-2gram --steps 64 --schedule optimal

    SER; TER and the NLL that the language gives valid samples, in bits a token (two
    to the power of them are error rate and perplexity); KL(q || p) in nats, and the
    mean over orders of KL(q || p_order), which is no less. What is not known
    exactly is left out, and a note says why and what comes nearest.

    Args:
        language: A preset with options, "sparse-hmm(seed=3, pruned=False)", or a language file.
        length: Tokens a sequence.
        steps: Rounds N.
        schedule: How much is revealed at each round; `unmask list schedules` has them.
        json: Print one JSON object instead of a table.
    """
    from unmask import languages
    from unmask.cli.output import show
    from unmask.schedules import Fit, deltas
    from unmask.theory.known import exact as values

    found = languages.load(language)
    result = values(found, length, deltas(schedule, steps, Fit(found, length))).to_dict()
    if json:
        show(result, True)
        return
    notes = result.pop("notes")
    show(result | {f"note {number}": note for number, note in enumerate(notes, 1)}, False)


@dataclass(frozen=True)
class Question:
    """Of which language, at which numbers of rounds.

    Args:
        language: A preset with options, "sparse-hmm(seed=3, pruned=False)", or a language file.
        length: Tokens a sequence.
        steps: Numbers of rounds N; 8 32 128 512 2048 unless told otherwise.
        schedule: How much is revealed at each round; `unmask list schedules` has them.
        rows: Sequences for each measured value; 0 measures nothing.
        seed: The seed of the sequences.
    """

    language: Name
    length: int = 512
    steps: Counts = ()
    schedule: str = "linear"
    rows: int = 200
    seed: int = 0

    def answer(self) -> tuple[Language, list[Record]]:
        from unmask import languages
        from unmask.diagnosis.table import table

        found = languages.load(self.language)
        return found, table(found, self.length, self.schedule, self.steps or STEPS, rows=self.rows, seed=self.seed)

    @property
    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("language", "length", "schedule", "rows", "seed")}


def table(*, asked: Question, json: Switch = False, csv: Switch = False) -> None:
    """Bounds, exact values and measurements of SER and TER, side by side.

    Examples:
        unmask theory table --language paper-2gram --length 512
        unmask theory table --language interval-5 --length 510 --rows 0 --csv

    A line for each statement, a column for each number of rounds N. Bounds say <=
    or >=; what is neither is known exactly, or measured. A bound of an SER that is
    above 1 says nothing and is shown as 1; that of theorem 4.2 is for the schedule
    of the theorem, not the one that is given.

    Args:
        json: Print one JSON object with all records instead of tables.
        csv: Print the records as CSV instead of tables.
    """
    from unmask.cli.output import show

    _, records = asked.answer()
    if json:
        show(asked.settings | {"records": records}, True)
    elif csv:
        import pandas as pd

        print(pd.DataFrame(records).to_csv(index=False), end="")
    else:
        _print(records)


def figure(*, asked: Question, out: Path = Path("theory"), json: Switch = False) -> None:
    """Draw the table, SER and TER against N, and the information curve.

    A page, and each figure as SVG and PNG. If they are known, also when masked
    diffusion is faster than AR (theory-crossover), and the divergence by order
    (theory-orders).

    Example:
        unmask theory figure --language paper-2gram --out theory

    Args:
        out: A directory for figures and numbers (JSON, CSV); made if it is not there.
        json: Print one JSON object instead of the names of the files.
    """
    from unmask.cli.output import show
    from unmask.report.theory import check, publish

    check(out)
    language, records = asked.answer()
    files = [str(path) for path in publish(out, language, asked.length, records, asked.settings)]
    if json:
        show({"files": files}, True)
    else:
        print("\n".join(files))


def listed(*, json: Switch = False) -> None:
    """List the statements of the theory, which `unmask theory show` holds against a case.

    Each with its kind (an upper or a lower bound, or exact), its origin (of the paper,
    reconstructed from it, or ours), what it says, and under which assumptions.

    Examples:
        unmask theory list
        unmask theory list --json

    Args:
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show as print_result
    from unmask.cli.output import show_lines
    from unmask.theory.listed import catalogue

    if json:
        print_result(catalogue(), True)
        return
    form = "{kind}; {origin}: {about} [{assumption}]"
    show_lines([(name, form.format(**said)) for name, said in catalogue().items()])


def show(
    names: Annotated[tuple[str, ...], "NAME"] = (),
    *,
    language: Name = "interval-5",
    length: int = 512,
    steps: int = 64,
    schedule: str = "linear",
    learning: float = 0.0,
    json: Switch = False,
) -> None:
    """What lemmas and theorems say of a language, a length and a schedule.

    Examples:
        unmask theory show theorem-4.3 theorem-4.4 --length 510
        unmask theory show lemma-b9 "theorem-4.2(eps=0.1)" --language paper-2gram
        unmask theory show "lemma-c6(coarse=True)" --learning 0.0078125 --json

    A line each: the quantity, its bound, where that stands, whose it is (of the paper,
    reconstructed from its proof, or ours), and under which assumptions. Without a name
    all are shown, and what has nothing to say of the case says why. Nothing is clipped:
    a bound on a probability may exceed 1.

    Args:
        names: Statements, with options (see `unmask theory list`); all unless told otherwise.
        language: A preset with options, "sparse-hmm(seed=3, pruned=False)", or a language file.
        length: Tokens a sequence.
        steps: Rounds N.
        schedule: How much is revealed at each round; `unmask generate --help` lists them.
        learning: The learning error in nats a token, epsilon of Assumption 4.1.
        json: Print one JSON object instead of lines.
    """
    from dataclasses import asdict

    from unmask import languages
    from unmask.cli.output import show as print_result
    from unmask.schedules import Fit, deltas
    from unmask.theory.listed import Case, shown

    found = languages.load(language)
    found.check_length(length)
    said = shown(names, Case(found, length, deltas(schedule, steps, Fit(found, length)), learning))
    if json:
        records = [{"name": n, "note": s} if isinstance(s, str) else {"name": n} | asdict(s) for n, s in said]
        print_result({"language": language, "length": length, "steps": steps, "statements": records}, True)
        return
    for name, statement in said:
        print(f"{name}: {statement}")


def _print(records: Sequence[Record]) -> None:
    from unmask.cli.output import show_grid
    from unmask.diagnosis.table import QUANTITIES

    steps = sorted({record["steps"] for record in records})
    for quantity, title in QUANTITIES.items():
        rows = []
        of = [record for record in records if record["quantity"] == quantity]
        for name in dict.fromkeys(record["name"] for record in of):
            cells = {record["steps"]: _cell(record) for record in of if record["name"] == name}
            rows.append([name, *(cells.get(count, "-") for count in steps)])
        show_grid(title, ["", *(f"N = {count}" for count in steps)], rows)


def _cell(record: Record) -> str:
    sign = {"upper": "<= ", "lower": ">= "}.get(record["kind"], "")
    ends = (record["low"], record["high"])
    spread = f" [{ends[0]:.5g}, {ends[1]:.5g}]" if None not in ends and ends[0] != ends[1] else ""
    return f"{sign}{record['value']:.5g}{spread}"


command = {"exact": exact, "table": table, "figure": figure, "list": listed, "show": show}
