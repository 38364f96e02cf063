"""Journeys: the files and the distinct functions of src that run for what users do most, held against bounds.

`python -m benchmarks.journeys [--names]` traces each journey in a process of its own, by sys.setprofile on one thread:
cold, with all imports, and warm, the same call again. A function is a `def` or a `lambda`; comprehensions and the
bodies of classes and modules are part of their file. With --names the functions of the warm journey are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

SOURCE = Path(__file__).parents[1] / "src" / "unmask"
LENGTH = 20


class Bound(NamedTuple):
    files: int
    functions: int


# about 15% above what was measured: a bound that is met to the unit is met by folding what has a name
BOUNDS = {
    "generate()": Bound(30, 90),
    "unmask generate": Bound(40, 140),
    "cell of a sweep": Bound(45, 190),
    "page": Bound(30, 250),
    "audit()": Bound(48, 245),
}
RECIPE = {
    "name": "journey",
    "jobs": ["samples"],
    "grid": {"language": ["interval-5"], "steps": [8]},
    "fixed": {"length": LENGTH},
    "rows": 64,
}


def python(*words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with one thread."""
    alone = os.environ | {"UNMASK_THREADS": "1"}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True, env=alone)


def journey(name: str) -> Callable[[str], Any]:
    """What is traced, a function of a directory for its files; all that it needs is made here."""
    import unmask
    from unmask.cli.main import main

    words = f"generate --language interval-5 --steps 8 --length {LENGTH} --rows 64 --out"
    match name:
        case "generate()":
            return lambda out: unmask.generate("interval-5", sampler="ancestral", steps=8, rows=64, length=LENGTH)
        case "unmask generate":
            return lambda out: main([*words.split(), f"{out}/a.npy"])
        case "cell of a sweep":
            return lambda out: unmask.sweep(RECIPE, store=out, engine="here")
        case "page":
            measured = tempfile.mkdtemp()
            python("-c", f"import unmask; unmask.sweep({RECIPE!r}, store={measured!r}, engine='here')")
            return lambda out: main(["report", measured, "--out", out])
    samples = f"{tempfile.mkdtemp()}/samples.npy"
    python("-c", f"import unmask; unmask.generate('sparse-hmm', rows=400, length={LENGTH}, steps=64).save({samples!r})")
    return lambda out: unmask.audit(np.load(samples), "sparse-hmm", steps=64)


def traced(action: Callable[[], Any]) -> set[tuple[str, int, str]]:
    """(file, line, name) of all code of src that runs; the name of what is no function is empty."""
    found: set[CodeType] = set()

    def see(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            found.add(frame.f_code)

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            action()
    finally:
        sys.setprofile(None)
    ours = [code for code in found if code.co_filename.startswith(str(SOURCE))]
    functions = [code.co_flags & CO_OPTIMIZED and not code.co_name.endswith(("comp>", "expr>")) for code in ours]
    names = [code.co_qualname if each else "" for code, each in zip(ours, functions, strict=True)]
    places = [(code.co_filename[len(str(SOURCE)) + 1 :], code.co_firstlineno) for code in ours]
    return {(*place, name) for place, name in zip(places, names, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--one", choices=BOUNDS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        action = journey(given.one)
        print(json.dumps([sorted(traced(lambda: action(tempfile.mkdtemp()))) for _ in range(2)]))
        return
    for name, bound in BOUNDS.items():
        ran = python("-m", "benchmarks.journeys", "--one", name).stdout
        cold, warm = ([tuple(one) for one in each] for each in json.loads(ran.splitlines()[-1]))
        (files, functions), first = (Bound(len({f for f, *_ in x}), sum(bool(n) for *_, n in x)) for x in (warm, cold))
        verdict = "holds" if files <= bound.files and functions <= bound.functions else "too long"
        print(f"{name:<16} cold {first.files:>3} files {first.functions:>4} functions   ", end="")
        print(f"warm {files:>3} of {bound.files} files {functions:>4} of {bound.functions} functions   {verdict}")
        for file, line, one in sorted(warm) if given.names else ():
            print(f"    {file}:{line} {one}")


if __name__ == "__main__":
    main()
