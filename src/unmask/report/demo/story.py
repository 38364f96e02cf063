"""What the numbers say: the three sentences, and the tables, of the page and of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unmask.core.estimates import Estimate
from unmask.experiments.board.table import Table
from unmask.report.demo.settings import Settings
from unmask.report.frame import Sentence
from unmask.report.results import CURVE, RATIO, Point, Results

FEW_DOZEN = 64  # steps
TER_RATIO = ("ter_ratio", "ter_upper_ratio")
OPEN = "pruned=False"  # the setting of languages that can say everything


class Story:
    """The points of a demo, looked up by what they are about."""

    def __init__(self, results: Results, settings: Settings) -> None:
        self.results, self.settings = results, settings
        points = [point for point in results.points if point["metric"] != CURVE]  # the rest is about ancestral sampling
        known = [point for point in points if point["setting"] != OPEN]
        self.by_key = {(p["measure"], p["of"], p["length"], p["steps"]): p for p in known}
        self.unpruned = {(p["measure"], p["of"], p["steps"]): p for p in points if p["setting"] == OPEN}
        self.steps: list[int | None] = [*sorted(settings.steps), None]

    def ser(self, language: str, steps: int | None) -> Point:
        return self.by_key["ser", language, self.settings.length, steps]

    def ratio(self, language: str, steps: int | None) -> Point:
        """TER relative to the language's own: exact where it can be, else its bound."""
        keys = [(measure, language, self.settings.length, steps) for measure in TER_RATIO]
        return next(self.by_key[key] for key in keys if key in self.by_key)

    def own_ter(self, language: str) -> float | None:
        """TER(q) at the main length, for the languages that are shown there."""
        point = self.by_key.get(("ter", language, self.settings.length, None))
        return None if point is None else float(point["value"])

    def sentences(self) -> list[Sentence]:
        s = self.settings
        few = min(s.steps, key=lambda n: (abs(n - FEW_DOZEN), n))
        most = max(s.steps)
        excess = 100 * max(self.ratio(name, few)["value"] - 1 for name in s.languages)
        early, late = ([100 * self.ser(name, n)["value"] for name in s.languages] for n in (few, most))
        name = "interval-5" if "interval-5" in s.panel else s.panel[0]
        short, long = min(s.panel_lengths), max(s.panel_lengths)
        fluent, correct = (
            [self.by_key[f"steps_for_{what}", name, length, None]["value"] for length in (short, long)]
            for what in ("ter", "ser")
        )
        return [
            Sentence(
                f"TER within {excess:.1f}%",
                f"Fluency saturates: after {few} steps the token error rate of each of the {len(s.languages)} "
                f"languages is at most {excess:.1f}% above its best possible value, and more steps change little.",
            ),
            Sentence(
                f"SER {_span(early)}",
                f"Correctness does not: after the same {few} steps {_span(early)} of the sequences contain something "
                f"impossible, and after {most} steps, for {s.length} tokens, still {_span(late)}.",
            ),
            Sentence(
                f"Length \u00d7{long / short:.3g}, steps \u00d7{correct[1] / correct[0]:.0f}",
                f"It grows with the length: from {short} to {long} tokens the steps that {name} needs for a TER within "
                f"{s.excess:.0%} go from {fluent[0]:.0f} to {fluent[1]:.0f}, for an SER of {s.ser:.0%} from "
                f"{correct[0]:.0f} to {correct[1]:.0f}, while autoregressive sampling (AR) makes neither error at one "
                "evaluation a token.",
            ),
        ]

    def tables(self) -> list[Table]:
        s = self.settings
        found = [
            self.by_steps(
                f"SER, the share of wrong sequences ({s.length} tokens)",
                [(name, [_percent(self.ser(name, n)) for n in self.steps]) for name in s.languages],
            ),
            self.by_steps(
                f"TER relative to the language's own ({s.length} tokens; ter_upper, where it is not exact)",
                [(name, [_ratio(self.ratio(name, n)) for n in self.steps]) for name in s.languages],
            ),
        ]
        open_languages = [name for name in s.languages if (RATIO, name, None) in self.unpruned]
        if open_languages:
            columns = [(k, [_ratio(self.unpruned[RATIO, k, n]) for n in self.steps]) for k in open_languages]
            found.append(self.by_steps("Generative perplexity relative to the language's own TER", columns))
        head = ["L", *(f"{name}: {what}" for name in s.panel for what in ("TER", "SER"))]
        rows = []
        for length in s.panel_lengths:
            keys = [(what, name) for name in s.panel for what in ("steps_for_ter", "steps_for_ser")]
            rows.append((f"{length}", [_steps(self.by_key[what, name, length, None]) for what, name in keys]))
        title = f"Steps needed until TER is within {s.excess:.0%}, and until SER is {s.ser:.0%}"
        return [*found, Table(title, head, rows)]

    def by_steps(self, title: str, columns: list[tuple[str, list[tuple[str, str]]]]) -> Table:
        rows = []
        for i, n in enumerate(self.steps):
            evaluations = self.ser(self.settings.languages[0], n)["evaluations"]
            cells = [values[i] for _, values in columns]
            rows.append(("AR (exact)" if n is None else f"{n}", [*cells, (f"{evaluations:.0f}", "")]))
        return Table(title, ["N", *(name for name, _ in columns), "evaluations"], rows)


def _span(percents: Sequence[float]) -> str:
    """From the least to the greatest; none seen is not zero, and has no lower end."""
    low, high = f"{min(percents):.2g}", f"{max(percents):.3g}"
    if low == high:
        return f"{high}%"
    return f"up to {high}%" if min(percents) == 0 else f"{low} to {high}%"


def _percent(point: Point) -> tuple[str, str]:
    return _cell(point, lambda value: f"{100 * value:.1f}%" if value else "0")


def _ratio(point: Point) -> tuple[str, str]:
    return _cell(point, lambda value: f"{value:.4f}")


def _steps(point: Point) -> tuple[str, str]:
    return _cell(point, lambda value: f"{value:.0f}")


def _cell(point: Point, show: Callable[[float], str]) -> tuple[str, str]:
    """A number and its interval; what was met in no row is an upper limit."""
    estimate = Estimate.of_record(point)
    if estimate.exact:
        return show(estimate.value), "exact"
    if estimate.none_seen:
        return f"< {show(estimate.high)}", f"none in {estimate.n}"
    if estimate.open:
        return show(estimate.value), f"no interval of {estimate.n}"
    return show(estimate.value), f"{show(estimate.low)} to {show(estimate.high)}"
