"""Valid files of every kind, made by our own commands: what mutations begin with, and what loads every kernel once."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

LANGUAGES = {
    "hmm": {
        "kind": "hmm",
        "initial": [1, 0],
        "transition": [[0.5, 0.5], [1, 0]],
        "emission": [[1, 0, 0], [0, 0.5, 0.5]],
        "names": ["a", "b", "c"],
    },
    "ngram": {"kind": "ngram", "order": 2, "initial": [0.5, 0.5], "transition": [[0.25, 0.75], [1, 0]]},
    "trigram": {
        "kind": "ngram",
        "order": 3,
        "initial": [[0.5, 0.0], [0.25, 0.25]],
        "transition": [[[0.25, 0.75], [1, 0]], [[0.5, 0.5], [0.1, 0.9]]],
    },
    "interval": {"kind": "interval", "width": 3},
    "modular-sum": {"kind": "modular-sum", "modulus": 3, "chained": False},
    "brackets": {"kind": "brackets", "kinds": 2, "depth": 3, "stop": 0.5},
    "answers": {"kind": "answers", "answers": [[0, 1], [1, 0]], "weights": [1, 2.5], "vocabulary": 3, "end": 2},
    "twin": {"kind": "twin", "task": "shuffle", "size": 3, "separators": [1, 1, 1]},
}
RECIPE = """\
name: small
jobs: [samples, ter_upper(rows=20)]
grid: {language: [interval-5, paper-2gram], steps: [2, 4]}
zip: {length: [6, 8], sampler: [ancestral, "blocks(block_length=4)"]}
fixed: {schedule: linear, temperature: 1.0}
rows: 20
seeds: 1
"""
STORE = """\
name: tiny
jobs: [samples]
fixed: {language: interval-5, length: 8}
grid: {steps: [2, 4, 8]}
rows: 10
"""
COMMANDS = """
list samplers
list schedules
list languages
list jobs
list tasks
show language paper-2gram --length 16
show language sparse-hmm --length 16
language fit text --out fitted.json --order 2
generate --language interval-5 --length 8 --rows 5 --steps 4 --out samples.npy
generate --language interval-5 --length 8 --rows 5 --steps 4 --out samples.jsonl
generate --language ngram.json --prompt-length 2 --length 8 --rows 5 --steps 4 --out prompted.npy
score samples.npy --language interval-5
score prompted.npy --language ngram.json
train --language paper-2gram --steps 2 --hidden 16 --heads 2 --layers 1 --length 8 --batch 4 --out net
train --language paper-2gram --model ar --steps 2 --hidden 16 --heads 2 --layers 1 --length 8 --batch 4 --out ar
generate --model net --out written.npy --rows 5 --steps 4
generate --model net --causal-model ar --sampler speculative --out spoken.npy --rows 5 --steps 4
model learning net --rows 10 --contexts 5 --steps 2
gap --language interval-5 --length 8 --rows 5 --steps 4
audit samples.npy --language interval-5 --steps 4
theory exact --language interval-5 --length 8 --steps 4
theory exact --language paper-2gram --length 8 --steps 4
theory show kl-ancestral --language paper-2gram --length 8
plan --language paper-2gram --length 8 --target 0.1
model time --preset quick --lengths 8 --batch 1 --steps 4 --repeats 1
board --rows 10 --samplers ancestral strided --languages interval-5 --lengths 8 --steps 2 4 --seeds 2 --out board
"""


def make(place: Path) -> None:
    """Fill an empty directory."""
    from unmask.cli.main import main
    from unmask.core.registry import Registry  # noqa: F401 -- imported with all that follows

    place.mkdir(parents=True, exist_ok=True)
    before = Path.cwd()
    os.chdir(place)
    try:
        for name, content in LANGUAGES.items():
            Path(f"{name}.json").write_text(json.dumps(content))
        Path("text").write_text("the cat sat on the mat, and the rat ran.\n" * 3)
        Path("recipe.yaml").write_text(RECIPE)
        Path("tiny.yaml").write_text(STORE)
        Path("given.jsonl").write_text(json.dumps([0, None, None, 2, None, None, None, 1]) + "\n")
        for line in COMMANDS.strip().splitlines():
            with suppress(SystemExit):
                code = main(line.split())
                assert code in (0, 2), line
        _store(Path("store"))
        for name in os.listdir("."):
            if name not in KEPT:
                shutil.rmtree(name) if os.path.isdir(name) else os.unlink(name)
    finally:
        os.chdir(before)


KEPT = {f"{name}.json" for name in LANGUAGES} | {
    "text",
    "recipe.yaml",
    "tiny.yaml",
    "given.jsonl",
    "net",
    "ar",
    "store",
}
KEPT |= {"samples.npy", "samples.npy.json", "samples.jsonl", "samples.jsonl.json", "board"}
KEPT |= {"prompted.npy", "prompted.npy.json", "prompted.given.npy"}


def _store(place: Path) -> None:
    """A cell that is done, one that is to do, one of which a part is done, and one that has failed."""
    import unmask
    from unmask.experiments.store import Failed, writing

    unmask.sweep("tiny.yaml", store=place, engine="here")
    with writing(place) as store:
        _, todo, failed, *_ = store.cells.values()
        store.append(todo, Failed(failed.key, "code", 1, "no reason"))
