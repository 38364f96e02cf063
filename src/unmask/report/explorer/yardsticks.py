"""The numbers that a reader can choose: what each is called, which measures say it, and what a good one is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Yardstick:
    """`measures` say it, the first that a point has; `predicted` is what theory draws of it."""

    name: str
    title: str
    under: str  # what it is, and which way is good
    measures: tuple[str, ...]
    target: float  # until a reader chooses another
    share: bool = False  # a probability, in percent
    rises: bool = False  # more is better
    predicted: str = ""
    least: float | None = None  # where its axis begins


YARDSTICKS = {
    one.name: one
    for one in (
        Yardstick(
            "ser",
            "Correctness: the sequence error rate (SER)",
            "the share of sequences with something the language forbids; lower is better",
            ("ser",),
            0.1,
            share=True,
            predicted="ser_predicted",
            least=0.0,
        ),
        Yardstick(
            "ter",
            "Fluency: the token error rate (TER)",
            "relative to the language's own, which no model can beat; 1 is perfect",
            ("ter_ratio", "ter_upper_ratio"),
            1.01,
            predicted="ter_ratio_predicted",
        ),
        Yardstick(
            "generative_perplexity",
            "Generative perplexity",
            "what plots often call TER; low also for a sampler that repeats itself",
            ("generative_perplexity_ratio", "generative_perplexity"),
            1.05,
        ),
        Yardstick(
            "diversity",
            "Diversity",
            "bits of a token given the one before, relative to the language's own; below 1 it repeats itself",
            ("diversity",),
            0.95,
            rises=True,
        ),
        Yardstick("accuracy", "Accuracy", "the share of right answers", ("accuracy",), 0.5, share=True, rises=True),
        Yardstick(
            "answer_error",
            "Wrong answers",
            "the share of rows whose answer is wrong",
            ("answer_error",),
            0.1,
            share=True,
        ),
        Yardstick(
            "lucky_answers",
            "Right answers by wrong steps",
            "the share of rows that are right by luck",
            ("lucky_answers",),
            0.01,
            share=True,
        ),
        Yardstick("perplexity", "Perplexity", "of texts, by their judge", ("perplexity",), 50.0),
        Yardstick(
            "unknown_words",
            "Unknown words",
            "the share of words that the text does not have",
            ("unknown_words",),
            0.05,
            share=True,
        ),
        Yardstick("token_entropy", "Entropy of a row's tokens", "in nats", ("token_entropy",), 4.0, rises=True),
    )
}
EVALUATIONS, FLOPS, SECONDS = "evaluations", "flops", "seconds"
COSTS = {
    EVALUATIONS: "evaluations a sequence",
    FLOPS: "arithmetic, in units of AR's with a cache",
    SECONDS: "seconds a sequence",
}


def known(measures: Sequence[str]) -> list[Yardstick]:
    """Those of which there is anything."""
    return [one for one in YARDSTICKS.values() if set(one.measures) & set(measures)]
