"""A board as tables, one for each language, with the most accurate sampler first."""

from __future__ import annotations

from typing import Any, NamedTuple

from unmask.experiments.board.run import Board
from unmask.experiments.board.standings import Record

HOW_TO_READ = """\
AUP: accuracy under parallelism, the mean of 1 - SER over log2 of model calls from 1 to L; (.4): the most that it can be
between two budgets. The table is sorted by AUP. differs: AUP minus that of {against}; * where `unmask board compare`
decides. SER, TER: model calls until SER is at most that, and until TER is within that of the language's own. <=8: met
at that budget; (34): too few rows to be sure; best 0.2: not reached; n/a: unknown. headroom: times the model calls of
the best possible rule. divers.: diversity at the most expensive budget; below 100%, samples repeat themselves."""


class Table(NamedTuple):
    """Rows of cells, each (value, interval); the first column has the headings of rows."""

    title: str
    head: list[str]
    rows: list[tuple[str, list[tuple[str, str]]]]


def tables(board: Board) -> list[Table]:
    s = board.settings
    head = ["sampler", "AUP", "differs", *(f"SER {t:.0%}" for t in s.targets), f"TER {s.excess:.0%}"]
    head += ["headroom", "divers."]
    result = []
    for language, length in dict.fromkeys((r["language"], r["length"]) for r in board.records):
        records = [r for r in board.records if (r["language"], r["length"]) == (language, length)]
        by_sampler: dict[str, list[Record]] = {}
        for r in records:
            by_sampler.setdefault(r["sampler"], []).append(r)
        rows = [(name, of, _accuracy(of)) for name, of in by_sampler.items()]
        rows.sort(key=lambda row: -row[2])
        result.append(Table(f"{language}, {length} tokens", head, [(name, _cells(of, board)) for name, of, _ in rows]))
    return result


def _accuracy(of: list[Record]) -> float:
    return next(r["value"] for r in of if r["measure"] == "accuracy_under_parallelism")


def _cells(of: list[Record], board: Board) -> list[tuple[str, str]]:
    summary: dict[Any, Record] = {(r["measure"], r.get("target")): r for r in of if r["budget"] is None}
    dearest = max((r for r in of if r["measure"] == "ser"), key=lambda r: r["model_calls"])
    at = {r["measure"]: r for r in of if r["budget"] == dearest["budget"]}
    difference = summary["accuracy_difference", None]
    terms = [_accuracy_text(summary["accuracy_under_parallelism", None]), _difference(difference)]
    terms += [need_text(summary["model_calls_for_ser", target]) for target in board.settings.targets]
    terms.append(need_text(summary["model_calls_for_ter", board.settings.excess]))
    terms.append(_number(summary["headroom", board.settings.excess], "{:.1f}"))
    return [*terms, _number(at["diversity"], "{:.0%}")]


def _accuracy_text(record: Record) -> tuple[str, str]:
    value, interval = _number(record, "{:.3f}")
    return (value if record["most"] - record["value"] < 5e-4 else f"{value} ({record['most']:.2f})"), interval


def _number(record: Record, form: str) -> tuple[str, str]:
    if record["value"] is None:
        return "-", ""
    if record["low"] is None or record["high"] is None:
        return form.format(record["value"]), ""
    return form.format(record["value"]), f"{form.format(record['low'])} to {form.format(record['high'])}"


def _difference(record: Record) -> tuple[str, str]:
    value, interval = _number(record, "{:+.3f}")
    return value + "*" * (record.get("verdict") in ("better", "worse")), interval


def need_text(record: Record) -> tuple[str, str]:
    """Model calls, or the best value if the target was not reached."""
    if record["note"].startswith("not reached"):
        best = record["note"].split(" at ")[0].split()[-1]
        return f"best {best}", ""
    if record["value"] is None:
        return "n/a", ""
    shown = f"{record['value']:.3g}"
    if record["note"] in ("at most", "jump"):
        shown = f"<={shown}"
        sure = record["high"] is not None and record["high"] <= record["value"]
        return (shown if sure else f"({shown})"), ""
    if record["high"] is None:
        return f"({shown})", ""
    return shown, f"{record['low']:.3g} to {record['high']:.3g}"
