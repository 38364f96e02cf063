"""Completion: commands, options and names, without importing what is slow."""

from __future__ import annotations

import subprocess
import sys

import pytest

from unmask.cli.completion import NAMES, words
from unmask.cli.main import COMMANDS
from unmask.hub import known
from unmask.languages import PRESETS
from unmask.samplers import SAMPLERS
from unmask.schedules import SCHEDULES
from unmask.tasks import TASKS


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("unmask ge", ["generate"]),
        ("unmask show sa", ["sampler"]),
        ("unmask generate --sam", ["--sampler"]),
        ("unmask generate --sampler low", ["low-confidence"]),
        ("unmask generate --sampler low-confidence --te", ["--temperature", "--template"]),
        ("unmask show sampler kl", ["klass"]),
        ("unmask demo --languages sparse-hmm --js", ["--json"]),
        ("unmask list sa", ["samplers"]),
        ("unmask nothing ", []),
        ("unmask eval lm-eval ", []),
    ],
)
def test_words_that_may_follow(line, offered):
    assert words(line, COMMANDS) == offered


def test_names_are_those_that_are_registered():
    offered = {noun: set(words(f"unmask show {noun} ", COMMANDS)) - {"--json"} for noun in (*NAMES, "model")}
    assert offered["sampler"] == set(SAMPLERS.makers)
    assert offered["language"] - {"--length", "--steps", "--schedule", "--rows", "--seed"} == set(PRESETS.makers)
    assert offered["schedule"] - {"--steps"} == set(SCHEDULES.makers)
    assert offered["task"] - {"--data"} == set(TASKS.makers)
    assert offered["model"] == set(known())


def test_a_shell_is_answered_without_torch():
    program = "import sys, unmask.cli.main as m; m.main(['complete']); print({'torch', 'numba'} & {*sys.modules})"
    line = {"COMP_LINE": "unmask generate --sampler lo"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=line)
    assert done.stdout.splitlines() == ["localleap", "low-confidence", "set()"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_printed(run, shell):
    assert "unmask complete" in run("--completion", shell).out
