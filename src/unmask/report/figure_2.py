"""The paper's second figure, left, on a text: an MDM and its AR twin learn it, and judges read what they write.

A sweep like that of figure 1: the store holds both networks, so that the same command goes on where it was stopped,
also within a training, and other numbers of rounds or rows train nothing again. Times are measured last, on one thread.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.core.reading import read_text
from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.jobs.run import Sweep
from unmask.experiments.jobs.store import FILES
from unmask.experiments.measures.catalogue import Record
from unmask.experiments.measures.texts import EXAMPLE
from unmask.networks.model.shape import KINDS, PRESETS, Shape
from unmask.networks.training import standing
from unmask.networks.training.recipe import recipe as training
from unmask.networks.training.twins import twins
from unmask.report.results import STORE

MEASURES = (
    "generative_perplexity",
    "ngram_perplexity",
    "smollm2_perplexity",
    "token_entropy",
    "unknown_words",
    "rows_with_unknown_words",
)
LEARNED = ("loss_nats_per_token", "bits_per_character")
SECONDS = "seconds"


@dataclass(frozen=True)
class Settings:
    """What half an hour of two cores can do; `quick` is one for five minutes."""

    text: str = "kjv"
    tokenizer: str = "bpe:1024"
    preset: str = "text"
    length: int | None = None  # None: the preset's
    layers: int | None = None
    hidden: int | None = None
    training_steps: int | None = None  # None: the recipe's
    steps: tuple[int, ...] = (4, 8, 16, 32, 64, 128, 256, 512)
    rows: int = 200
    batch: int = 16  # rows that are timed together
    smollm2: bool = False
    seed: int = 0  # of networks and samples

    def __post_init__(self) -> None:
        if not self.steps:
            raise UnmaskError("expected numbers of sampling steps")
        for count in self.steps:
            arguments.steps(count)
        arguments.whole("rows", self.rows, 1, arguments.MOST_ROWS)
        arguments.whole("batch", self.batch, 1, 2**16)

    @property
    def size(self) -> str:
        """What a reader is told of how much is learned and written."""
        length = self.length or PRESETS[self.preset]["length"]
        learned = training(self.preset, steps=self.training_steps)
        read = learned.steps * learned.batch * length
        return f"rows of {length} tokens, {self.rows} for each N, by networks that have read {read / 1e6:.1f} million"


def quick(**changes: Any) -> Settings:
    return replace(Settings(training_steps=700, length=64, rows=128), **changes)


def recipe(settings: Settings, device: str = "auto") -> Recipe:
    """The sweep, trainings first, and times last, when nothing else is left to do."""
    s = settings
    network = {name: getattr(s, name) for name in ("text", "tokenizer", "preset", "length", "layers", "hidden")}
    network |= {"training_steps": s.training_steps, "device": device, "smollm2": s.smollm2, "batch": s.batch}
    steps = {"steps": list(s.steps)}
    return from_dict(
        {
            "name": "figure-2",
            "fixed": network,
            "rows": s.rows,
            "seeds": [s.seed],
            "parts": [
                {"metrics": ["text_training"], "grid": {"kind": list(KINDS)}},
                {"metrics": ["written"], "grid": steps},
                {"metrics": ["written(sampler=autoregressive)", "original"]},
                {"metrics": ["text_clock"], "grid": steps},
                {"metrics": ["text_clock(kind=ar)"]},
            ],
        }
    )


@dataclass(frozen=True)
class Measured:
    """records: of both networks what they have learned, then what they write, the text itself, and times."""

    records: list[Record]
    examples: list[Record]  # of each writer a text
    label: str
    length: int


def measured(made: Sweep, settings: Settings) -> Measured:
    """What the page shows."""
    found, examples, places = [], [], {}
    for row in made.whole().rows():
        about = {"who": _who(row), "steps": row.get("steps") if _who(row) == "mdm" else None}
        estimate = asdict(Estimate.of_record(row))
        if row["metric"] == "text_training" and row["measure"] in LEARNED:
            places[row["kind"]] = f"{STORE}/{FILES}/{row['key']}"
            found.append(about | {"measure": row["measure"], "evaluations": None} | estimate)
        elif row["measure"] in (*MEASURES, SECONDS):
            found.append(about | {"measure": row["measure"], "evaluations": row["evaluations"]} | estimate)
            if row["measure"] == MEASURES[0]:
                examples.append(about | {"text": read_text(made.directory / FILES / row["key"] / EXAMPLE)})
    said = standing.facts(made.directory.parent / places["ar"])
    alike = twins(*(made.directory.parent / places[kind] for kind in KINDS))
    for record in found:
        if record["measure"] in LEARNED:
            own = alike.places if record["who"] == "mdm" else 0
            record |= {"network": places[record["who"]], "parameters": alike.parameters + own}
            record |= {"tokens": alike.tokens, "flop": alike.flop}
    return Measured(found, examples, said.label, Shape.from_dict(said.shape).length)


def _who(row: Record) -> str:
    """mdm, ar or text."""
    if row["metric"] == "original":
        return "text"
    if row["metric"] in ("text_training", "text_clock"):
        return str(row["kind"])
    return "ar" if row.get("sampler") == "autoregressive" else "mdm"
