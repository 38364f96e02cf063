"""The paper's first figure, exact and trained: networks that learn each language beside the ideal denoiser.

A sweep (unmask/sweeps): an MDM and an AR model are trained for each language, and what they and the ideal denoiser
generate is measured. Its store holds the networks too, so that the same command goes on where it was stopped, also
within a training, and other numbers of steps or rows train nothing again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.core.reading import read_json
from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.jobs.run import Sweep
from unmask.experiments.jobs.store import FILES
from unmask.experiments.measures.catalogue import Record
from unmask.languages import load
from unmask.languages.presets import varied
from unmask.networks.model.checkpoints import ACCOUNT
from unmask.networks.model.shape import KINDS, PRESETS
from unmask.report.results import STORE

LAYERS = {("paper", "paper-4gram"): 10}  # its Table 3
HARD = {  # for a network that sees a part of a sequence, and what learns them in the place of quick
    "paper-3gram": "thorough",
    "paper-4gram": "thorough",
    "sparse-hmm": "thorough",
    "modular-sum": "sums",
}
FIELDS = tuple(Estimate.__dataclass_fields__)


class Account(msgspec.Struct):
    """What is read of training.json; it says more."""

    entropy: float
    seconds: float
    step: int


@dataclass(frozen=True)
class Settings:
    """The paper's setting; `quick` is one for two cores."""

    languages: tuple[str, ...] = ("paper-2gram", "paper-3gram", "paper-4gram", "sparse-hmm")
    preset: str = "paper"
    length: int | None = None  # at least; None: the preset's
    steps: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    rows: int = 2000
    training_steps: int | None = None  # None: the recipe's
    seed: int = 0  # of networks and samples
    language_seed: int = 0

    def __post_init__(self) -> None:
        if not self.languages:
            raise UnmaskError("expected at least one language")
        if not self.steps:
            raise UnmaskError("expected numbers of sampling steps")
        for count in self.steps:
            arguments.steps(count)
        arguments.whole("rows", self.rows, 1, arguments.MOST_ROWS)

    @cached_property
    def lengths(self) -> dict[str, int]:
        """Of each language the nearest that it has."""
        wanted = PRESETS[self.preset]["length"] if self.length is None else self.length
        return {
            name: load(varied(name, seed=self.language_seed)).nearest_lengths(wanted)[-1] for name in self.languages
        }

    @property
    def size(self) -> str:
        """What a reader is told of the lengths."""
        least, most = min(self.lengths.values()), max(self.lengths.values())
        return f"{least}" if least == most else f"{least} to {most}"

    def preset_of(self, language: str) -> str:
        return HARD.get(language, self.preset) if self.preset == "quick" else self.preset


def quick(**changes: Any) -> Settings:
    """Six languages, 64 tokens and 200,000 parameters, for two cores."""
    own = Settings(preset="quick", steps=(2, 4, 8, 16, 32, 64, 128), rows=1000)
    own = replace(own, languages=(*own.languages, "interval-5", "modular-sum"))
    return replace(own, **changes)


def recipe(settings: Settings, device: str = "auto") -> Recipe:
    """The sweep, trainings first: they take longest, and the rest waits for them."""
    s = settings
    of_each = {
        "language": list(s.languages),
        "length": [s.lengths[name] for name in s.languages],
        "preset": [s.preset_of(name) for name in s.languages],
        "layers": [LAYERS.get((s.preset, name)) for name in s.languages],
    }
    network = {"training_steps": s.training_steps, "device": device}
    return from_dict(
        {
            "name": "figure-1",
            "zip": of_each,
            "fixed": {"language_seed": s.language_seed} | network,
            "rows": s.rows,
            "seeds": [s.seed],
            "parts": [
                {"metrics": ["training"], "grid": {"kind": list(KINDS)}},
                {"metrics": ["samples", "learned"], "grid": {"steps": list(s.steps)}},
                {"metrics": ["learned(sampler=autoregressive)", "autoregressive"]},
            ],
        }
    )


def records_of(made: Sweep, settings: Settings) -> list[Record]:
    """What the page shows of the cells: of each network what it has learned, then SER and generative perplexity."""
    rows = made.whole().rows()
    own = {row["language"]: row["value"] for row in rows if row["measure"] == "ter"}
    found = [_trained(made, row) for row in rows if row["measure"] == "excess_percent"]
    for row in rows:
        estimate = Estimate.of_record(row)
        match row["measure"]:
            case "ser":
                found.append(_error(row, "ser", estimate))
            case "generative_perplexity" if row["high"] is not None:  # a few possible sequences have no interval
                ratio = estimate.map(lambda value, row=row: value / own[row["language"]])
                found.append(_error(row, "generative_perplexity_ratio", ratio))
            case "ter_ratio":  # what AR draws from the language is as the language is
                found.append(_error(row, "generative_perplexity_ratio", estimate))
    return sorted(found, key=lambda record: _place(record, settings))


def _trained(made: Sweep, row: Mapping[str, Any]) -> Record:
    """network: its directory, seen from that of the page."""
    account = read_json(made.directory / FILES / row["key"] / ACCOUNT, Account)
    took = {"entropy": account.entropy, "seconds": account.seconds, "training_steps": account.step}
    about = {"language": row["language"], "model": "trained", "kind": row["kind"], "steps": None, "evaluations": None}
    estimate = {field: row[field] for field in FIELDS}
    return about | {"measure": row["measure"]} | estimate | took | {"network": f"{STORE}/{FILES}/{row['key']}"}


def _error(row: Mapping[str, Any], measure: str, estimate: Estimate) -> Record:
    ar = "autoregressive" in (row["metric"], row.get("sampler"))
    about = {
        "language": row["language"],
        "model": "trained" if row["metric"] == "learned" else "exact",
        "kind": "ar" if ar else "mdm",
        "steps": None if ar else row["steps"],
        "evaluations": row["evaluations"],
    }
    return about | {"measure": measure} | asdict(estimate)


def _place(record: Record, settings: Settings) -> tuple[int, bool, float, bool, bool]:
    """By language, the networks first, then by N."""
    trained = record["measure"] == "excess_percent"
    steps = math.inf if record["steps"] is None else record["steps"]
    language = settings.languages.index(record["language"])
    return language, not trained, steps, record["kind"] == "ar", record["model"] == "trained"
