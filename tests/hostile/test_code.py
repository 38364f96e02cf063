"""Attempts to have code run by a data file: each is refused, with one line that says what stood there.

Each file would leave a marker behind: a file that is not there before is wrong. What is typed at the command line is no
data file: names there may be imported.
"""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hostile.promise import Case, Content
from tests.hostile.spoiling import STORE, beside, config, described, edited, keyed, line, npy, setting, tensors, weights

MARKER = "was-run"
MINE = f"import pathlib\npathlib.Path({MARKER!r}).touch()\nclass X: pass\n"
CALL = f"os:system(command='touch {MARKER}')"
RECIPE = "name: r\njobs: [{job}]\n"
RECIPE += "fixed: {{language: {language}, length: 8, sampler: {sampler}, schedule: {schedule}}}\n"
USUAL = {"job": "samples", "language": "interval-5", "sampler": "ancestral", "schedule": "linear"}
DRY = ["sweep", "run", "r.yaml", "--store", "st", "--dry-run"]
GENERATE = ["generate", "--language", "l.json", "--length", "4", "--rows", "2", "--steps", "2", "--out", "o.npy"]
NETWORK = ["generate", "--model", "net", "--rows", "2", "--steps", "2", "--out", "o.npy"]


class Touching:
    def __reduce__(self):
        return Path.touch, (Path(MARKER),)


def recipe(**names: str) -> dict[str, Content]:
    quoted = {name: json.dumps(value) for name, value in (USUAL | names).items()}
    return {"r.yaml": RECIPE.format(**quoted) + "rows: 4\n", "mine.py": MINE}


def store(**values: Any) -> Content:
    """A store that somebody has sent: its cells are to do and name code, and their keys are right."""

    def change(cell: dict[str, Any]) -> dict[str, Any]:
        own = {name: value for name, value in values.items() if name != "job"}
        return keyed(cell | {"job": values.get("job", cell["job"]), "values": cell["values"] | own})

    return line("cell", change)


def objects(name: str) -> bytes:
    buffer = io.BytesIO()
    if name.endswith("npz"):
        np.savez(buffer, tokens=np.array([[Touching()]], object))
    else:
        np.save(buffer, np.array([[Touching()]], object), allow_pickle=True)
    return buffer.getvalue()


def torch_archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Touching()))


def kept(directory: Path) -> None:
    """The rows of a board's curves as pickles."""
    for place in directory.glob("sweep/files/*/*"):
        place.write_bytes(objects("x.npz"))


def pickled_header(header: dict[str, Any], data: bytes) -> bytes:
    return tensors(pickle.dumps(Touching()), data)


def metadata(header: dict[str, Any], data: bytes) -> bytes:
    return tensors(header | {"__metadata__": {"format": "pt", "unmask": "!!python/object/apply:os.system [x]"}}, data)


LANGUAGE = {"kind": "interval", "width": 3}
IN_FILE = "is named in a file, which is not trusted"
BOARD = (
    "board --rows 10 --samplers ancestral strided --languages interval-5 --lengths 8 --steps 2 4 --seeds 2 --out board"
)
SCORE = ["score", "s.npy", "--language", "interval-5"]
TAG = "!!python/object/apply:os.system ['touch was-run']"
ATTEMPTS: dict[str, tuple[list[str], dict[str, Content], str]] = {
    "a recipe's sampler": (DRY, recipe(sampler=CALL), IN_FILE),
    "a recipe's sampler, not dry": (DRY[:-1], recipe(sampler=CALL), IN_FILE),
    "a recipe's sampler in a sampler": (DRY, recipe(sampler=f"blocks(inner=\"{CALL}\")"), IN_FILE),
    "a recipe's schedule": (DRY, recipe(schedule="mine:X"), "unknown schedule 'mine:X'"),
    "a recipe's language": (DRY, recipe(language="mine:X"), IN_FILE),
    "a recipe's metric": (DRY, recipe(job="mine:X"), IN_FILE),
    "a recipe's metric with options": (DRY, recipe(job="shutil:rmtree(path='.')"), IN_FILE),
    "a function that is allowed, and makes none": (
        [*DRY, "--allow-imports", "os"], recipe(sampler=CALL), "is not declared to return a sampler"),
    "another module than what is allowed": ([*DRY, "--allow-imports", "json"], recipe(sampler="mine:X"), IN_FILE),
    "a module within what is allowed": ([*DRY, "--allow-imports", "min"], recipe(sampler="mine:X"), IN_FILE),
    "a recipe's tag": (DRY, {"r.yaml": f"name: r\njobs: {TAG}\n"}, "leave it out"),
    "a recipe's tag for a module": (DRY, {"r.yaml": "name: !!python/module:mine x\n", "mine.py": MINE}, "is not YAML"),
    "a store's sampler": (["sweep", "resume", "st"], {"st": store(sampler=CALL)}, IN_FILE),
    "a store's metric": (["sweep", "resume", "st"], {"st": store(job="mine:X"), "mine.py": MINE}, IN_FILE),
    "a store's language": (["sweep", "retry", "st"], {"st": store(language="mine:X"), "mine.py": MINE}, IN_FILE),
    "a store's rows": (BOARD.split(), {"board": ("board", kept)}, "has no results of a curve"),
    "a store's directory of files": (["sweep", "status", "st"],
        {"st": beside(STORE, b"\x80\x04cos\nsystem\n")},
        "there is no sweep in"),
    "pickled objects as samples": (SCORE, {"s.npy": objects("s.npy")}, "is not a complete .npy file"),
    "a pickle as samples": (SCORE, {"s.npy": pickle.dumps(Touching())}, "s.npy is not a complete .npy file"),
    "an archive of pickles as samples": (SCORE, {"s.npy": objects("s.npz")}, "is an archive"),
    "a type with objects in it": (SCORE, {"s.npy": npy(described([("a", "|O")]))}, "is not a complete .npy file"),
    "a header that calls": (
        SCORE, {"s.npy": npy(f"{{'descr': __import__('os').system('touch {MARKER}'), 'shape': (1,)}}\n")},
        "is not a complete"),
    "weights that are a pickle": (
        NETWORK, {"net": ("net", lambda net: torch_archive(net / "model.safetensors"))},
        "is not a complete safetensors"),
    "weights with a pickled header": (NETWORK, {"net": ("net", weights("model.safetensors", pickled_header))},
        "is not a complete safetensors"),
    "a state that says a tag": (["train", "--out", "net", "--resume"],
        {"net": ("net", weights("state.safetensors", metadata))}, "is not JSON"),
    "a language file's kind": (GENERATE, {"l.json": json.dumps(LANGUAGE | {"kind": "mine:X"}), "mine.py": MINE},
        "unknown kind of language 'mine:X'"),
    "a language file's kind with options": (GENERATE, {"l.json": json.dumps(LANGUAGE | {"kind": CALL})},
        "unknown kind"),
    "a language file's class": (GENERATE, {"l.json": json.dumps(LANGUAGE | {"__class__": "mine.X"}), "mine.py": MINE},
        "unknown key '__class__'"),
    "the language of a network": (["model", "learning", "net"], {"net": ("net", edited(
        "training.json", setting("origin", "configuration", "language", to={"kind": CALL})))},
            "unknown kind of language"),
    "another type of network": (NETWORK, {"net": config(model_type="mine:X"), "mine.py": MINE},
        "a model of type 'mine:X'"),
    "the kind of a network": (NETWORK, {"net": config(kind="mine:X"), "mine.py": MINE}, "mine:X"),
    "a key for trusting": (NETWORK, {"net": config(trust_remote_code=True)},
        "unknown field of a network's shape 'trust_remote_code'"),
    "an entry point that is not installed": (DRY, recipe(sampler="mine") | {
        "mine-1.0.dist-info/entry_points.txt": "[unmask.samplers]\nmine = mine:X\n",
        "mine-1.0.dist-info/METADATA": "Name: mine\nVersion: 1.0\n"}, "unknown sampler 'mine'"),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_no_data_file_runs_code(keeps, attempt):
    words, files, said = ATTEMPTS[attempt]
    ran = keeps(Case(words, files, changes=("st/", "board/")))
    assert not ran.wrong, f"{ran.wrong}\n{ran.err}"
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.lines) == 1


def test_a_cell_under_anothers_key_is_left_out(keeps):
    """The line's checksum fits, its key does not: it is damage, which the store leaves out and measures again."""
    moved = line("cell", lambda cell: cell["values"].update(sampler="mine:X"))
    ran = keeps(Case(["sweep", "resume", "st"], {"st": moved, "mine.py": MINE}, changes=("st/",)))
    assert not ran.wrong, f"{ran.wrong}\n{ran.err}"
    assert ran.code == 0
    assert "damaged, so left out" in ran.err


def test_a_file_that_names_a_module_of_the_hub_is_refused(keeps):
    """auto_map is what transformers reads of its own networks, and no field of ours."""
    files = {"net": config(auto_map={"AutoModel": "mine.X"}), "net/mine.py": MINE, "mine.py": MINE}
    ran = keeps(Case(NETWORK, files))
    assert not ran.wrong
    assert (ran.code, "'auto_map'" in ran.err) == (2, True)


LOOK_ALIKES = (
    "json",
    "torch",
    "numpy",
    "yaml",
    "unmask",
    "sitecustomize",
    "usercustomize",
    "platform",
    "numba",
    "msgspec",
)


@pytest.mark.long
def test_modules_of_the_working_directory_are_not_ours(tmp_path):
    """Named like ours, or like a library: none is imported, also where `python -m` would look there first."""
    for name in LOOK_ALIKES:
        if name != "unmask":  # which is what `python -m unmask` was asked for
            (tmp_path / f"{name}.py").write_text(MINE)
    words = ["-m", "unmask", "show", "language", "interval-5", "--length", "8"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
    assert not (tmp_path / MARKER).exists()
    assert done.returncode == 0


@pytest.mark.long
def test_workers_do_not_look_in_the_working_directory(tmp_path, monkeypatch):
    """A sweep beside files that somebody has sent with its recipe."""
    for name in LOOK_ALIKES:
        (tmp_path / f"{name}.py").write_text(MINE)
    (tmp_path / "r.yaml").write_text("name: r\njobs: [samples]\nfixed: {language: interval-5, length: 8}\nrows: 4\n")
    words = ["-P", "-m", "unmask", "sweep", "run", "r.yaml", "--store", "st", "--workers", "1"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / MARKER).exists()
