"""`make results`: every file of results/ again, by the code of this commit.

    python -m benchmarks.remake          about an hour on two cores; after an interruption it goes on where it was
    python -m benchmarks.remake --list   the steps, with the hours of each

Each step is a command of `unmask` or of reproduction/, in a directory that belongs to the digest of the code. A file
says in `origin` that digest, the commit, the machine and the date. It is written as soon as its last step is done.
tests/documents/test_results.py measures a part of the records again.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from unmask.core.files import atomic, code, origin

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
WORK = ROOT / "benchmarks" / "results"  # which git ignores
FEW = "--quick --rows 64 --seeds 1"
LEARNT = (
    "ancestral fixed-size strided dyadic left-to-right blocks low-confidence top-probability margin entropy threshold"
    " factor entropy-bounded entropy-sum klass localleap"
)
AGAIN = "remdm gibbs(stride=8)"
IDEAL = f"{LEARNT} wino token-editing p2 {AGAIN}"
MDLM = "ancestral as-published-mdlm(batch=1) as-published-mdlm(batch=16)"
PAIRS = ("wino", "klass", "entropy-bounded", "localleap")
KEPT = ("ser", "diversity", "accuracy_under_parallelism", "accuracy_difference")  # of the large boards
FIELDS = ("language", "sampler", "budget", "model_calls", "measure", "value", "low", "high", "n")
BOARDS = ("ideal", "on-2gram", "on-hmm")


class Step(NamedTuple):
    """A command of a module, the hours that it takes on two cores, and whether its output is kept as JSON."""

    name: str
    words: str
    hours: float
    shown: bool = False
    module: str = "unmask"


STEPS = (
    Step("board-quick", "board run --quick --out board-quick", 0.05),
    *(Step(f"pair-{n}", f"board compare {one} threshold --quick --json", 0.003, True) for n, one in enumerate(PAIRS)),
    Step(
        "board-mdlm",
        f"board run --samplers {MDLM} --languages paper-2gram sparse-hmm interval-5"
        " --rows 320 --seeds 3 --steps 16 64 256 1024 --out board-mdlm",
        0.03,
    ),
    Step("board", "board run --rows 64 --seeds 2 --out board", 0.11),
    Step("2gram", "train --language paper-2gram --steps 100 --out 2gram", 0.01),
    Step("hmm", "train --language sparse-hmm --preset thorough --out hmm", 0.08),
    Step(
        "ideal",
        f"board run --languages paper-2gram sparse-hmm --lengths 64 --samplers {IDEAL} {FEW} --out ideal",
        0.01,
    ),
    Step("on-2gram", f"board run --model 2gram --samplers {LEARNT} {AGAIN} {FEW} --out on-2gram", 0.03),
    Step("on-hmm", f"board run --model hmm --samplers {LEARNT} {AGAIN} {FEW} --out on-hmm", 0.03),
    Step("paper-quick", "measure --out paper-quick", 0.07, module="reproduction"),
    Step("joint", "--out joint", 0.5, module="benchmarks.joint"),
    Step("policy", "--out policy", 0.25, module="benchmarks.policy_gradients"),
    Step("given", "--out given/given.json", 0.3, module="benchmarks.given"),
)


def _run(step: Step, here: Path) -> None:
    command = [sys.executable, "-m", step.module, *step.words.split(" ")]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths}  # reproduction/ is not installed
    if not step.shown:
        subprocess.run(command, cwd=here, check=True, env=environment)
        return
    ran = subprocess.run(command, cwd=here, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    (here / f"{step.name}.json").write_text(ran.stdout.splitlines()[-1])


def _pairs(here: Path) -> dict[str, Any]:
    made = [json.loads((here / f"pair-{number}.json").read_text()) for number in range(len(PAIRS))]
    names = [one.replace(",", ", ") for one in PAIRS]
    return {"pairs": {name: one["languages"] for name, one in zip(names, made, strict=True)}}


def _networks(here: Path) -> dict[str, Any]:
    boards = {name: _board(name)(here)["records"] for name in BOARDS}
    return {"records": [{"board": name} | record for name, records in boards.items() for record in records]}


def _board(name: str) -> Callable[[Path], dict[str, Any]]:
    """A board with the measures and fields that the documents quote: a fifth of the bytes."""

    def make(here: Path) -> dict[str, Any]:
        whole = json.loads((here / name / "board.json").read_text())
        kept = [record for record in whole["records"] if record["measure"] in KEPT]
        return whole | {"records": [{field: record[field] for field in FIELDS if field in record} for record in kept]}

    return make


def _file(path: str) -> Callable[[Path], dict[str, Any]]:
    return lambda here: json.loads((here / path).read_text())


FILES: dict[str, tuple[str, Callable[[Path], dict[str, Any]]]] = {  # the last step of each, and the file by its output
    "board-quick.json": ("board-quick", _file("board-quick/board.json")),
    "compare-quick.json": (f"pair-{len(PAIRS) - 1}", _pairs),
    "board-mdlm.json": ("board-mdlm", _file("board-mdlm/board.json")),
    "board.json": ("board", _board("board")),
    "board-networks.json": ("on-hmm", _networks),
    "paper-quick.json": ("paper-quick", _file("paper-quick/paper.json")),
    "joint.json": ("joint", _file("joint/joint.json")),
    "policy-gradients.json": ("policy", _file("policy/policy-gradients.json")),
    "given.json": ("given", _file("given/given.json")),
}


def lines(made: dict[str, Any]) -> str:
    """JSON with a line for each entry of a list, and for each other field: short, and a difference shows what moved."""

    def field(name: str, value: Any) -> str:
        if not (isinstance(value, list) and value):
            return f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}"
        entries = ",\n".join(json.dumps(entry, allow_nan=False) for entry in value)
        return f"{json.dumps(name)}: [\n{entries}\n]"

    return "{\n" + ",\n".join(field(name, value) for name, value in made.items()) + "\n}\n"


def told(commit: str) -> dict[str, Any]:
    """What `origin` of each file says of how it was made here."""
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return {"code": code(), "commit": commit, "date": date, "machine": machine}


def readme(origins: dict[str, dict[str, Any]]) -> str:
    """The text of results/README.md."""
    rows = [f"| {name} | {made.get('code', 'unknown')} | {made.get('date', 'old')} |" for name, made in origins.items()]
    return "\n".join(
        [
            "# What is kept here",
            "",
            "Numbers that the documents quote. `make results` makes all files again; `origin` in each says how.",
            "Tests measure records of them again, some in each run, and all among the long tests.",
            "",
            "| file | made by the code | date |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _git(*words: str) -> str:
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.rstrip()
    except (OSError, subprocess.CalledProcessError):
        sys.exit("make results needs git and a clone: each file names the commit that made it; clone the repository")


def check_clean() -> str:
    """The commit; an error where files differ from it. Files of results/ may, since a run replaces them."""
    changed = [line for line in _git("status", "--porcelain").splitlines() if not line[3:].startswith("results/")]
    if changed:
        sys.exit(f"files differ from the commit: {', '.join(line[3:] for line in changed[:5])}; commit them first")
    return _git("rev-parse", "HEAD")


def listed(steps: Iterable[Step]) -> str:
    return "\n".join(f"{step.hours:5.2f} h  {step.name}: {step.module} {step.words}" for step in steps)


def main() -> None:
    hours = sum(step.hours for step in STEPS)
    if sys.argv[1:] == ["--list"]:
        print(f"{listed(STEPS)}\n{hours:5.2f} h on two cores")
        return
    commit = check_clean()
    here = WORK / f"remake-{code()}"
    here.mkdir(parents=True, exist_ok=True)
    left = [step for step in STEPS if not (here / f"{step.name}.done").exists()]
    minutes = 60 * sum(step.hours for step in left)
    print(f"{len(STEPS) - len(left)} of {len(STEPS)} steps are done; about {minutes:.0f} min are left")
    for step in left:
        print(f"{step.name}, about {60 * step.hours:.2g} min: {step.module} {step.words}", flush=True)
        _run(step, here)
        keep(step, here, commit)
        (here / f"{step.name}.done").touch()
    print(f"{len(FILES)} files are made; compare the documents with them: make test PYTEST_ARGS='tests/documents'")


def keep(step: Step, here: Path, commit: str) -> None:
    """Write the files of results/ of which this was the last step, and the table of all files."""
    for name, (last, make) in FILES.items():
        if last == step.name:
            made = make(here)
            with atomic(RESULTS / name) as file:
                file.write(lines({"origin": made.pop("origin", origin()) | told(commit)} | made).encode())
    found = {name: json.loads((RESULTS / name).read_text())["origin"] for name in FILES if (RESULTS / name).exists()}
    with atomic(RESULTS / "README.md") as file:
        file.write(readme(found).encode())


if __name__ == "__main__":
    main()
