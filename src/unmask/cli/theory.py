"""unmask theory exact|table|list|show."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Counts, Grid, Name, Switch

if TYPE_CHECKING:
    from unmask.diagnosis.table import Record
    from unmask.languages import Language

STEPS = (8, 32, 128, 512, 2048)


def exact(*, language: Name, length: int = 512, steps: int, schedule: str = "linear") -> Answer:
    """Compute exact SER, TER and KL of ancestral sampling with the ideal denoiser.

    Examples:
        unmask theory exact --language interval-5 --length 510 --steps 737
        unmask theory exact --language paper-2gram --steps 64 --schedule optimal

    The output is SER; TER and the NLL of valid samples under the language, in bits
    per token (2 to their power are error rate and perplexity); KL(q || p) in nats,
    and its upper bound, the mean over orders of KL(q || p_order). For values that
    are not known exactly, a note gives the reason and the closest alternative.
    """
    from unmask import languages
    from unmask.core.tables import rows_of
    from unmask.samplers.schedules import Fit, deltas
    from unmask.theory.known import exact as values

    known = languages.load(language)
    result = values(known, length, deltas(schedule, steps, Fit(known, length))).to_dict()
    plain = {name: value for name, value in result.items() if name != "notes"}
    return Answer(result, rows_of(plain | {f"note {number}": note for number, note in enumerate(result["notes"], 1)}))


@dataclass(frozen=True)
class Question:
    """A language, a length and numbers of steps.

    Args:
        steps: Numbers of steps N. (default: 8 32 128 512 2048)
        rows: Number of sequences for each measured value; 0 measures nothing.
    """

    language: Name
    length: int = 512
    steps: Counts = ()
    schedule: str = "linear"
    rows: int = 200
    seed: int = 0

    def answer(self) -> tuple[Language, list[Record], dict[str, Any]]:
        """Return the language, the table, and the settings for its record."""
        from unmask import languages
        from unmask.diagnosis.table import table

        known = languages.load(self.language)
        settings = {name: value for name, value in asdict(self).items() if name != "steps"}
        how = {"rows": self.rows, "seed": self.seed}
        return known, table(known, self.length, self.schedule, self.steps or STEPS, **how), settings


def table(*, case: Question, csv: Switch = False) -> Answer:
    """Compare bounds, exact values and measurements of SER and TER.

    Examples:
        unmask theory table --language paper-2gram --length 512
        unmask theory table --language interval-5 --length 510 --rows 0 --csv

    The table has a line for each statement and a column for each number of steps N.
    Bounds begin with <= or >=; other values are exact or measured. A bound on SER
    above 1 is empty and is printed as 1. The bound of theorem 4.2 is for the
    theorem's own schedule, not for --schedule.

    Args:
        json: Print one JSON object with all records instead of tables.
        csv: Print the records as CSV instead of tables.
    """
    _, records, settings = case.answer()
    if not csv:
        return Answer(settings | {"records": records}, _grids(records))
    import io
    from csv import DictWriter

    out = io.StringIO()
    table = DictWriter(out, dict.fromkeys(name for record in records for name in record), lineterminator="\n")
    table.writeheader()
    table.writerows(records)
    return Answer(settings | {"records": records}, out.getvalue().splitlines())


def listed() -> Answer:
    """List the statements of the theory, which `unmask theory show` evaluates.

    Examples:
        unmask theory list
        unmask theory list --json

    `unmask theory show` evaluates them, with their assumptions and their origin.
    """
    from unmask.theory.listed import STATEMENTS

    about = STATEMENTS.about()
    return Answer(about, list(about.items()))


def show(
    names: Annotated[tuple[str, ...], "NAME"] = (),
    /,
    *,
    language: Name = "interval-5",
    length: int = 512,
    steps: int = 64,
    schedule: str = "linear",
    learning: float = 0.0,
) -> Answer:
    """Evaluate lemmas and theorems for a language, a length and a schedule.

    Examples:
        unmask theory show theorem-4.3 theorem-4.4 --length 510
        unmask theory show lemma-b9 "theorem-4.2(eps=0.1)" --language paper-2gram
        unmask theory show "lemma-c6(coarse=True)" --learning 0.0078125 --json

    Each line has the quantity, its bound, its reference, its origin (the paper,
    reconstructed from its proof, or ours) and its assumptions. A statement that
    does not apply gives the reason. No value is clipped: a bound on a probability
    may exceed 1.

    Args:
        names: Statements, with options (see `unmask theory list`). (default: all)
        learning: Learning error in nats per token, epsilon of Assumption 4.1.
    """
    from unmask import languages
    from unmask.samplers.schedules import Fit, deltas
    from unmask.theory.listed import Case, shown

    known = languages.load(language)
    known.check_length(length)
    statements = shown(names, Case(known, length, deltas(schedule, steps, Fit(known, length)), learning))
    records = [{"name": n, "note": s} if isinstance(s, str) else {"name": n} | asdict(s) for n, s in statements]
    result = {"language": language, "length": length, "steps": steps, "statements": records}
    return Answer(result, [f"{name}: {statement}" for name, statement in statements])


def _grids(records: list[Record]) -> list[Grid]:
    from unmask.diagnosis.table import QUANTITIES

    steps = sorted({record["steps"] for record in records})
    grids = []
    for quantity, title in QUANTITIES.items():
        of = [record for record in records if record["quantity"] == quantity]
        cells = {(record["name"], record["steps"]): _cell(record) for record in of}
        names = dict.fromkeys(record["name"] for record in of)
        rows = [[name, *(cells.get((name, count), "-") for count in steps)] for name in names]
        grids.append(Grid(title, ["", *(f"N = {count}" for count in steps)], rows))
    return grids


def _cell(record: Record) -> str:
    sign = {"upper": "<= ", "lower": ">= "}.get(record["kind"], "")
    ends = (record["low"], record["high"])
    spread = f" [{ends[0]:.5g}, {ends[1]:.5g}]" if None not in ends and ends[0] != ends[1] else ""
    return f"{sign}{record['value']:.5g}{spread}"


command = {"exact": exact, "table": table, "list": listed, "show": show}
