"""The metrics that a reader can choose: title, measures of the store, direction, and the target to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Yardstick:
    """`measures`: of a store, in order of preference; `predicted`: the measure that theory computes for it."""

    name: str
    title: str
    under: str  # definition and direction
    measures: tuple[str, ...]
    target: float | None  # None: a value near the best measured one, as absolute perplexities differ by language
    short: str = ""  # in a sentence; the title if empty
    share: bool = False  # a probability, in percent
    rises: bool = False  # larger is better
    predicted: str = ""
    least: float | None = None  # where its axis begins


YARDSTICKS = {
    one.name: one
    for one in (
        Yardstick(
            "ser",
            "Correctness: sequence error rate (SER)",
            "fraction of sequences that the language forbids; lower is better",
            ("ser",),
            0.1,
            "SER",
            share=True,
            predicted="ser_predicted",
            least=0.0,
        ),
        Yardstick(
            "ter",
            "Fluency: token error rate (TER)",
            "relative to the language's own TER, the best possible; 1 is perfect",
            ("ter_ratio", "ter_upper_ratio"),
            1.01,
            "TER ratio",
            predicted="ter_ratio_predicted",
        ),
        Yardstick(
            "generative_perplexity",
            "Generative perplexity, relative",
            "1: as the language or text itself; a sampler that repeats itself scores well, too",
            ("generative_perplexity_ratio",),
            1.05,
            "relative generative perplexity",
        ),
        Yardstick(
            "generative_perplexity_absolute",
            "Generative perplexity",
            "lower is better; a sampler that repeats itself scores well, too",
            ("generative_perplexity",),
            None,
        ),
        Yardstick(
            "diversity",
            "Diversity",
            "entropy of a token given the previous one, relative to the language's; below 1: repetitive",
            ("diversity",),
            0.95,
            rises=True,
        ),
        Yardstick("accuracy", "Accuracy", "fraction of correct answers", ("accuracy",), 0.5, share=True, rises=True),
        Yardstick("answer_error", "Wrong answers", "fraction of wrong answers", ("answer_error",), 0.1, share=True),
        Yardstick(
            "lucky_answers",
            "Correct answers from wrong steps",
            "fraction of sequences with a correct answer and a wrong step",
            ("lucky_answers",),
            0.01,
            share=True,
        ),
        Yardstick("perplexity", "Perplexity", "of texts, by the judge; lower is better", ("perplexity",), None),
        Yardstick(
            "ngram_perplexity", "N-gram perplexity", "per character; lower is better", ("ngram_perplexity",), None
        ),
        Yardstick("smollm2_perplexity", "SmolLM2 perplexity", "lower is better", ("smollm2_perplexity",), None),
        Yardstick(
            "unknown_words",
            "Unknown words",
            "fraction of words that the training text does not contain",
            ("unknown_words",),
            0.05,
            share=True,
        ),
        Yardstick("token_entropy", "Token entropy", "per sequence, in nats", ("token_entropy",), None, rises=True),
    )
}
EVALUATIONS, FLOPS, SECONDS = "evaluations", "flops", "seconds"
COSTS = {
    EVALUATIONS: "model calls per sequence",
    FLOPS: "compute relative to cached AR",
    SECONDS: "seconds per sequence",
}


def known(measures: Sequence[str]) -> list[Yardstick]:
    """Those with a measured value."""
    return [one for one in YARDSTICKS.values() if set(one.measures) & set(measures)]
