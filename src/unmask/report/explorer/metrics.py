"""The metrics of the controls: title, measures of the store, direction, and first target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Metric:
    """`measures`: those of a store, the preferred one first; `predicted`: the measure that theory computes for it."""

    name: str
    title: str
    under: str  # definition and direction
    measures: tuple[str, ...]
    target: float | None  # None: a value near the best measured one
    short: str = ""  # in a sentence; the title if empty
    share: bool = False  # a fraction, shown in percent
    rises: bool = False  # larger is better
    predicted: str = ""
    least: float | None = None  # where its axis begins


def _metric(name: str, title: str, under: str, target: float | None, *measures: str, **more: Any) -> Metric:
    return Metric(name, title, under, measures or (name,), target, **more)


def _fraction(*words: Any, **more: Any) -> Metric:
    return _metric(*words, share=True, **more)


LIST = [
    _fraction(
        "ser",
        "Correctness: sequence error rate (SER)",
        "fraction of impossible sequences; lower is better",
        0.1,
        short="SER",
        predicted="ser_predicted",
        least=0.0,
    ),
    _metric(
        "ter",
        "Fluency: token error rate (TER)",
        "relative to the language's own TER, the best possible value; 1 is perfect",
        1.01,
        "ter_ratio",
        "ter_upper_ratio",
        short="TER ratio",
        predicted="ter_ratio_predicted",
    ),
    _metric(
        "generative_perplexity",
        "Generative perplexity, relative",
        "relative to that of the language or text, which is 1; also low for repetitive samples",
        1.05,
        "generative_perplexity_ratio",
        short="relative generative perplexity",
    ),
    _metric(
        "generative_perplexity_absolute",
        "Generative perplexity",
        "lower is better; also low for repetitive samples",
        None,
        "generative_perplexity",
    ),
    _metric(
        "diversity",
        "Diversity",
        "entropy of a token given the previous one, relative to the language's; below 1: repetitive",
        0.95,
        rises=True,
    ),
    _fraction("accuracy", "Accuracy", "fraction of correct answers; higher is better", 0.5, rises=True),
    _fraction("answer_error", "Incorrect answers", "fraction of incorrect answers; lower is better", 0.1),
    _fraction(
        "right_by_wrong_steps",
        "Correct answers after an error",
        "fraction of sequences with a correct answer and an incorrect intermediate result; lower is better",
        0.01,
    ),
    _metric("perplexity", "Perplexity", "of the texts under the scoring model; lower is better", None),
    _metric("ngram_perplexity", "N-gram perplexity", "per character; lower is better", None),
    _metric("smollm2_perplexity", "SmolLM2 perplexity", "lower is better", None),
    _fraction("unknown_words", "Unknown words", "fraction of words outside the training text; lower is better", 0.05),
    _metric("gap", "Gap", "loss by parallel decoding, nats per sequence; lower is better", None, "gap_nats", least=0.0),
    _metric("token_entropy", "Token entropy", "nats per sequence; higher is more varied", None, rises=True),
]
METRICS = {one.name: one for one in LIST}
MODEL_CALLS, FLOPS, SECONDS = "model_calls", "flops", "seconds"
COSTS = {
    MODEL_CALLS: "model calls per sequence",
    FLOPS: "compute relative to cached AR",
    SECONDS: "seconds per sequence",
}


def known(measures: Sequence[str]) -> list[Metric]:
    """The metrics of these measures."""
    return [one for one in METRICS.values() if set(one.measures) & set(measures)]
