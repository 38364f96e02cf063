"""The metrics of pages: title, measures of the store, direction and targets; and the choice of points.

A setting is all fields of a point besides its language and its number of steps (FIELDS). Settings that differ only in
the sampler and its schedule (RIVALS) are compared with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.report.results import Point

FIELDS = ("model", "sampler", "schedule", "length", "batch", "setting")
RIVALS = ("sampler", "schedule")
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Metric:
    name: str
    title: str
    under: str  # definition and direction
    measures: tuple[str, ...]  # those of a store, the preferred one first
    targets: tuple[float, ...] = ()  # of its control; none: a value near the best measured one
    target: float | None = None  # the first one
    short: str = ""  # in a sentence; the title if empty
    share: bool = False  # a fraction, shown in percent
    rises: bool = False  # larger is better
    predicted: str = ""  # the measure that theory computes for it
    least: float | None = None  # where its axis begins

    @property
    def words(self) -> str:
        return self.short or self.title[0].lower() + self.title[1:]

    def shown(self, value: float) -> str:
        return f"{100 * value:.3g}%" if self.share else f"{value:.4g}"


def _fraction(name: str, title: str, under: str, target: float, **more: Any) -> Metric:
    targets = (0.5, 0.8, 0.9, 0.95) if more.get("rises") else (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
    return Metric(name, title, under, (name,), targets, target, share=True, **more)


def _ratio(name: str, title: str, under: str, measures: Sequence[str], targets: Sequence[float], **more: Any) -> Metric:
    return Metric(name, title, under, tuple(measures), tuple(targets), targets[0], **more)


def _number(name: str, title: str, under: str, measure: str = "", **more: Any) -> Metric:
    return Metric(name, title, under, (measure or name,), **more)


SER = _fraction(
    "ser",
    "Correctness: sequence error rate (SER)",
    "fraction of impossible sequences; lower is better",
    0.1,
    short="SER",
    predicted="ser_predicted",
    least=0.0,
)
TER = _ratio(
    "ter",
    "Fluency: token error rate (TER)",
    "relative to the language's own TER, the best possible value; 1 is perfect",
    ("ter_ratio", "ter_upper_ratio"),
    (1.01, 1.02, 1.05, 1.1),
    short="TER ratio",
    predicted="ter_ratio_predicted",
)
PERPLEXITY = _ratio(
    "generative_perplexity",
    "Generative perplexity, relative",
    "relative to that of the language or text, which is 1; also low for repetitive samples",
    ("generative_perplexity_ratio",),
    (1.05, 1.02, 1.1, 1.2),
    short="relative generative perplexity",
)
DIVERSITY = _ratio(
    "diversity",
    "Diversity",
    "entropy of a token given the previous one, relative to the language's; below 1: repetitive",
    ("diversity",),
    (0.95, 0.9, 0.98),
    rises=True,
)
LIST = [
    SER,
    TER,
    PERPLEXITY,
    _number(
        "generative_perplexity_absolute",
        "Generative perplexity",
        "lower is better; also low for repetitive samples",
        "generative_perplexity",
    ),
    DIVERSITY,
    _fraction("accuracy", "Accuracy", "fraction of correct answers; higher is better", 0.5, rises=True),
    _fraction("answer_error", "Incorrect answers", "fraction of incorrect answers; lower is better", 0.1),
    _fraction(
        "right_by_wrong_steps",
        "Correct answers after an error",
        "fraction of sequences with a correct answer and an incorrect intermediate result; lower is better",
        0.01,
    ),
    _number("perplexity", "Perplexity", "of the texts under the scoring model; lower is better"),
    _number("ngram_perplexity", "N-gram perplexity", "per character; lower is better"),
    _number("smollm2_perplexity", "SmolLM2 perplexity", "lower is better"),
    _fraction("unknown_words", "Unknown words", "fraction of words outside the training text; lower is better", 0.05),
    _number("gap", "Gap", "loss by parallel decoding, nats per sequence; lower is better", "gap_nats", least=0.0),
    _number("token_entropy", "Token entropy", "nats per sequence; higher is more varied", rises=True),
]
METRICS = {one.name: one for one in LIST}


def matching(points: Iterable[Point], values: Fields, free: Sequence[str] = ()) -> list[Point]:
    """Points with these values, or without a value; AR has no sampler to choose."""
    fixed = [name for name in ("of", *FIELDS) if name not in free and values.get(name) is not None]
    return [
        point
        for point in points
        if all(point[n] in (None, values[n]) or (n in RIVALS and point["kind"] == "ar") for n in fixed)
    ]
