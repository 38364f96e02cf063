"""The paper's first figure, exact and trained: networks that learn each language beside the ideal denoiser.

In stages, each kept in the directory when it is done, so that the same command goes on where it was stopped:

    networks/LANGUAGE-KIND/   an MDM and an AR model for each language (unmask train), resumable within
    cells/LANGUAGE.json       what was measured of them
    index.html, ...           the page, from all cells
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from unmask import metrics
from unmask.errors import UnmaskError
from unmask.estimates import exactly
from unmask.files import read_json, write_json
from unmask.generation import Generation, generate
from unmask.languages import Language, load
from unmask.networks import Network, checkpoints
from unmask.networks.data import Examples
from unmask.networks.recipe import Recipe, recipe
from unmask.networks.shape import PRESETS, Shape
from unmask.networks.shape import preset as shaped
from unmask.networks.training import HELD_OUT, Conditions, resume, train
from unmask.networks.validation import Judge

Record = dict[str, Any]
KINDS = ("mdm", "ar")
LAYERS = {("paper", "paper-4gram"): 10}  # its Table 3


@dataclass(frozen=True)
class Settings:
    """The paper's setting; `quick` is one for two cores."""

    languages: tuple[str, ...] = ("paper-2gram", "paper-3gram", "paper-4gram", "sparse-hmm")
    preset: str = "paper"
    length: int | None = None  # None: the preset's
    steps: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    rows: int = 2000
    training_steps: int | None = None  # None: the recipe's
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.languages:
            raise UnmaskError("expected at least one language")
        if not self.steps or min(self.steps) < 1:
            raise UnmaskError("expected numbers of sampling steps, each at least 1")
        if self.rows < 1:
            raise UnmaskError(f"rows is {self.rows}, but at least 1 row is needed")

    @property
    def size(self) -> int:
        return self.length or PRESETS[self.preset]["length"]

    def language(self, name: str) -> Language:
        found = load(name, seed=self.seed)
        found.check_length(self.size)
        if found.end is not None:
            raise UnmaskError(f"{name} varies in length, and the figure compares fixed lengths; name another language")
        return found

    def shape(self, name: str, kind: str) -> Shape:
        layers = LAYERS.get((self.preset, name))
        return shaped(self.preset, kind, self.language(name).vocabulary, length=self.length, layers=layers)

    def recipe(self, kind: str) -> Recipe:
        return recipe(self.preset, kind, steps=self.training_steps, seed=self.seed)


def quick(**changes: Any) -> Settings:
    """32 tokens and 100,000 parameters: minutes on two cores."""
    return replace(Settings(preset="quick", steps=(2, 4, 8, 16, 32, 64, 128)), **changes)


def measure(
    out: Path, settings: Settings, device: str = "auto", say: Callable[[str], None] = lambda text: None
) -> list[Record]:
    """All records, in the order of the languages; what the directory holds of them is not made again."""
    for name in settings.languages:  # mistakes before hours of work
        settings.shape(name, "mdm")
    found: list[Record] = []
    for number, name in enumerate(settings.languages, 1):
        cell = out / "cells" / f"{name}.json"
        wanted = json.loads(json.dumps(asdict(replace(settings, languages=(name,)))))
        if cell.exists() and (kept := read_json(cell)).get("settings") == wanted:
            found += kept["records"]
            continue
        where = f"{name}, {number} of {len(settings.languages)}"
        pair = []
        for kind in KINDS:
            say(f"{where}: {kind.upper()}")
            pair.append(trained(out, settings, name, kind, device))
        say(f"{where}: sampling")
        records = pair[0] + pair[1] + sampled(out, settings, name, device)
        cell.parent.mkdir(parents=True, exist_ok=True)
        write_json(cell, {"settings": wanted, "records": records})
        found += records
    return found


def directory(out: Path, name: str, kind: str) -> Path:
    return out / "networks" / f"{name}-{kind}"


def trained(out: Path, settings: Settings, name: str, kind: str, device: str) -> list[Record]:
    """Train a network, or go on with it, or find it complete: its validation loss, and what it took."""
    place, wanted, shape = directory(out, name, kind), settings.recipe(kind), settings.shape(name, kind)
    conditions = Conditions(device)
    if not (place / checkpoints.STATE).exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        train(settings.language(name), shape, wanted, place, label=name, conditions=conditions)
    account = read_json(place / checkpoints.ACCOUNT)
    about = account["origin"]["configuration"]
    if (about["shape"], about["recipe"]) != (shape.to_dict(), wanted.to_dict()):
        raise UnmaskError(f"{place} holds a network of other settings; name another directory with --out")
    if account["step"] < wanted.steps:
        resume(place, conditions=conditions)
        account = read_json(place / checkpoints.ACCOUNT)
    held_out = Examples(settings.language(name), settings.size, wanted.seed, wanted.samples).held_out(HELD_OUT)
    judged = Judge(settings.language(name), held_out, wanted.seed, shape.causal)(checkpoints.load(place, device))
    record = {"language": name, "model": "trained", "kind": kind, "steps": None, "evaluations": None}
    took = {"entropy": judged.entropy, "seconds": account["seconds"], "training_steps": account["step"]}
    return [record | {"measure": "excess_percent"} | asdict(judged.excess_percent) | took]


def sampled(out: Path, settings: Settings, name: str, device: str) -> list[Record]:
    """SER and generative perplexity of both, at each N, and of AR."""
    language, length = settings.language(name), settings.size
    mdm, ar = (checkpoints.load(directory(out, name, kind), device) for kind in KINDS)
    network = Network(mdm, ar)
    own = metrics.ter_autoregressive(language, length).value
    how: dict[str, Any] = {"length": length, "rows": settings.rows, "seed": settings.seed}
    found = []
    for steps in settings.steps:
        for model, source in (("exact", language), ("trained", network)):
            made = generate(source, steps=steps, **how)
            found += _scored(name, model, "mdm", steps, made, language, own)
    made = generate(network, sampler="autoregressive", **how)
    found += _scored(name, "trained", "ar", None, made, language, own)
    exact: dict[str, Any] = {"language": name, "model": "exact", "kind": "ar", "steps": None}
    for measure, value in (("ser", 0.0), ("generative_perplexity_ratio", 1.0)):
        found.append(exact | {"measure": measure, "evaluations": float(length)} | asdict(exactly(value)))
    return found


def _scored(
    name: str, model: str, kind: str, steps: int | None, made: Generation, language: Language, own: float
) -> list[Record]:
    score = metrics.score(made, language)
    evaluations = float(made.evaluations.double().mean())
    about = {"language": name, "model": model, "kind": kind, "steps": steps, "evaluations": evaluations}
    found = [about | {"measure": "ser"} | asdict(score.ser)]
    perplexity = score.generative_perplexity  # of the sequences that are possible: two of them have an interval
    if perplexity is not None and math.isfinite(perplexity.high):
        ratio = perplexity.map(lambda value: value / own)
        found.append(about | {"measure": "generative_perplexity_ratio"} | asdict(ratio))
    return found
