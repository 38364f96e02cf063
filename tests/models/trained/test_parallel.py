"""Processes that torchrun starts learn together what one learns from the same batches, within rounding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.trained.test_training import everything
from tests.needs import ROOT
from unmask.models.trained import checkpoints

CLOSE = 1e-5  # between weights, averages or moments after 20 steps: sums of float32 in another order, 3e-7 here
PROGRAM = """
import os, sys
from dataclasses import replace
from tests.models.trained.test_training import BRIEF, CASES, LANGUAGE, OFTEN, shape
from unmask.languages.answers import Answers
from unmask.models.trained import checkpoints
from unmask.models.trained.loop import resume, train

out, case, last = sys.argv[1], sys.argv[2], sys.argv[3]
if os.environ.get("RANK", "0") != "0":
    checkpoints.save_state = checkpoints.save = checkpoints.write_losses = None  # process 0 alone writes

def say(line):
    print(os.environ.get("RANK", "0"), line, flush=True)
    if line.startswith(last):
        os._exit(9)

conditions = replace(OFTEN, say=say, threads=1)
if case == "resume":
    resume(out, conditions=conditions)
elif case == "of several lengths":
    language = Answers([[3] * 8, [0, 3, *[3] * 6], [0, 1, 2, 1, 0, 1, 2, 3]], vocabulary=4, end=3)
    train(language, shape(), replace(BRIEF, batch=7), out, conditions=conditions)
else:
    size, made = CASES[case]
    train(LANGUAGE, size, replace(made, batch=7), out, conditions=replace(conditions, accumulate=2))
"""


def torchrun(processes: int, *command: str) -> subprocess.CompletedProcess[str]:
    """A program of Python; with one process without torchrun."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    started = [sys.executable, *(launch if processes > 1 else ()), *command]
    return subprocess.run(started, env=environment, capture_output=True, text=True)


@pytest.fixture
def program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(processes: int, out: str, case: str, last: str = "never") -> subprocess.CompletedProcess[str]:
        return torchrun(processes, str(tmp_path / "program.py"), str(tmp_path / out), case, last)

    return run


def difference(one: Path, other: Path) -> float:
    """The largest difference of any weight, average or moment."""
    (tensors, facts), (others, their_facts) = everything(one), everything(other)
    assert (facts["step"], facts["recipe"]) == (their_facts["step"], their_facts["recipe"])
    assert facts["loss"] == pytest.approx(their_facts["loss"], abs=CLOSE)
    assert tensors.keys() == others.keys()
    return max(float((tensor - others[name]).abs().max()) for name, tensor in tensors.items())


@pytest.mark.long
@pytest.mark.parametrize("case", ["posterior, muon", "ar", "of several lengths"])
def test_two_processes_learn_what_one_learns(tmp_path, program, case):
    """From batches of 7 rows, so that the processes have 4 and 3. Process 0 alone talks."""
    one, two = program(1, "one", case), program(2, "two", case)
    assert (one.returncode, two.returncode) == (0, 0), one.stderr + two.stderr
    apart = difference(tmp_path / "one", tmp_path / "two")
    print(f"{case}: {apart:.1e}")
    assert apart < CLOSE
    said = [line for line in two.stdout.splitlines() if " step " in line]
    assert len(said) == 10
    assert {line[0] for line in said} == {"0"}


@pytest.mark.long
def test_another_number_of_processes_goes_on(tmp_path, program):
    """Two are killed at a report, three go on to the end."""
    assert program(1, "one", "posterior, muon").returncode == 0
    assert program(2, "out", "posterior, muon", "step 12,").returncode != 0
    assert checkpoints.facts(tmp_path / "out").step == 11
    ended = program(3, "out", "resume")
    assert ended.returncode == 0, ended.stderr
    assert difference(tmp_path / "one", tmp_path / "out") < CLOSE


@pytest.mark.long
def test_the_command_speaks_once(tmp_path):
    size = ("--length", "8", "--layers", "1", "--hidden", "16", "--heads", "2", "--steps", "3")
    words = ("--language", "paper-2gram", "--device", "cpu", *size)
    command = ("-m", "unmask", "train", "--out", str(tmp_path / "out"), *words)
    made = torchrun(2, *command, "--batch", "2")
    assert made.returncode == 0, made.stderr
    assert made.stdout.count("tokens per second") == 1
    again = torchrun(2, *command, "--batch", "2")
    assert again.returncode != 0
    assert again.stderr.count("unmask: error") == again.stderr.count("already holds a network") == 1
    small = torchrun(2, *command[:4], str(tmp_path / "small"), *words, "--batch", "1")
    assert "the batch has 1 sequences for 2 processes" in small.stderr
