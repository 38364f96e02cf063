"""A command whose work does not fit into memory prints one line before it starts: needed and available bytes, advice.

The machine of these tests has 300 MB. Each command runs with sizes that need more; nothing of them may be computed.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.open_models import config
from unmask.core import memory, samples
from unmask.denoisers import Canvas
from unmask.models.trained import Shape, Trunk, checkpoints

ROOM = 3 * 10**8
LONG = "--length 1000000"
LANGUAGE = "--language paper-2gram"
RECIPE = {
    "name": "r",
    "jobs": ["curve"],
    "rows": 1000,
    "fixed": {"sampler": "ancestral", "language": "paper-2gram", "length": 10**5},
}
CASES = {
    "generate": f"generate {LANGUAGE} --rows 100000 --length 512 --out x.npy",
    "generate, open model": "generate --model open --card llada-1.5 --length 8 --prompt [] --out x.jsonl",
    "eval": "eval run --model open --card llada-1.5 --task sums --length 8 --engine here --out e",
    "board": "board run --languages paper-2gram --samplers ancestral --lengths 100000 --rows 1000 --out b",
    "gap": f"gap {LANGUAGE} --rows 100000 --length 512",
    "train": f"train {LANGUAGE} --layers 40 --hidden 1024 --heads 8 --length 64 --out t",
    "train, batch": f"train {LANGUAGE} --batch 4096 --length 512 --accumulate 1 --out t",
    "sweep": "sweep run r.json --engine here --store s",
    "score": "score rows.npy --language paper-2gram",
    "play": f"play {LANGUAGE} {LONG} --out p.html",
    "learning": f"model learning mdm {LANGUAGE} --rows 100000",
    "plan": f"plan {LANGUAGE} {LONG} --target 10%",
    "audit": f"audit rows.npy {LANGUAGE} --steps 8",
}
LINE = r"error: .*need [\d.]+ [MGT]B\b.* 300 MB( available)?\. (Lower|Split) \w.*"


def large(directory: Path) -> None:
    """An open model of 205 million parameters whose weights are zeros that take no room on the disk."""
    shape = [205_000_000]
    header = {"model.transformer.wte.weight": {"dtype": "BF16", "shape": shape, "data_offsets": [0, 2 * shape[0]]}}
    written = json.dumps(header).encode()
    directory.mkdir()
    with (directory / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(written)) + written)
        file.truncate(8 + len(written) + 2 * shape[0])
    (directory / "config.json").write_text(json.dumps(config(64, 1, 800_000, 32)))


@pytest.fixture
def small_machine(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: ROOM)
    for module in (samples, checkpoints):
        monkeypatch.setattr(module, "available", memory.available)
    monkeypatch.setattr(Canvas, "__init__", pytest.fail)
    monkeypatch.setattr(torch.optim.AdamW, "step", pytest.fail)


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit_ends_in_one_line_before_it_starts(run, small_machine, name):
    Path("r.json").write_text(json.dumps(RECIPE))
    np.lib.format.open_memmap("rows.npy", "w+", np.uint8, (10**5, 512))  # like the weights, a file without blocks
    checkpoints.save(Trunk(Shape("mdm", 8, 512, 16, 1, 2)).eval(), Path("mdm"), {})
    large(Path("open"))
    ran = run(*CASES[name].split())
    assert ran.code == 2
    assert re.search(LINE, ran.err.splitlines()[-1]), ran.err
    assert len([line for line in ran.err.splitlines() if "error" in line]) == 1
    assert not {"x.npy", "b", "t", "s", "p.html"} & {path.name for path in Path().iterdir()}
