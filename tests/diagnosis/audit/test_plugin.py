"""The plugin, in the repository of somebody else: a fixture, a marker, one line, and a report; no import before."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from unmask.core import yaml

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/test-your-decoder.md").read_text()
TESTS = """
import pytest, torch

def loop(model, rows=400, length=8, steps=8, last=False):
    mask = model.config.mask_token_id
    x = torch.full((rows, length), mask)
    for k, at in enumerate(torch.rand(rows, length).argsort(1).T):
        p = model(x).logits.double().softmax(-1)
        token = p.argmax(-1) if last and k > 3 else torch.distributions.Categorical(probs=p).sample()
        x = x.scatter(1, at[:, None], token.gather(1, at[:, None]))
    return x

@pytest.mark.decoder_law(sampler="fixed-size", steps=8, rare=False)
def test_right(decoder_law):
    assert decoder_law(loop).verdict == "no difference found"

@pytest.mark.decoder_law(sampler="fixed-size", steps=8)
def test_wrong(decoder_law):
    decoder_law(lambda model: loop(model, last=True), rare=False)

def test_other():
    pass
"""


def run(folder, *arguments):
    where = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=where, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_a_repository_of_somebody_else(tmp_path):
    (tmp_path / "test_decoder.py").write_text(TESTS)
    how = ["-m", "pytest", "-q", "-p", "unmask.plugin", "-p", "no:cacheprovider", "--strict-markers"]
    done = run(tmp_path, *how, "--decoder-report", "report.json")
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "unmask: 1 of 2 tests of decoders hold" in done.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["badge"]["message"] == "1 of 2"
    right, wrong = sorted(report["tests"], key=lambda test: test["test"])
    assert (right["holds"], right["rows"], right["options"]["steps"]) == (True, 400, "8")
    assert "the loop differs from fixed-size with 8 steps" in wrong["verdict"]


def blocks(kind):
    return re.findall(rf"(?ms)^```{kind}\n(.*?)^```", PAGE)


@pytest.mark.long
def test_the_documented_workflow_runs_the_documented_test(tmp_path):
    """Its actions and its command of pip by their form, as nothing is downloaded; its command of pytest as it is."""
    (text,) = blocks("yaml")
    workflow = yaml.parse(text, 10)
    assert workflow["on"] == ["push", "pull_request"]
    (job,) = workflow["jobs"].values()
    *actions, last = job["steps"]
    assert all(re.fullmatch(r"actions/(checkout|setup-python)@v\d+", step["uses"]) for step in actions)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert SpecifierSet(settings["requires-python"]).contains(actions[-1]["with"]["python-version"])
    install, command = last["run"].split(" && ")
    assert install == f"pip install {settings['name']} pytest"
    assert settings["entry-points"]["pytest11"] == {"unmask.plugin": "unmask.plugin"}

    loop, marked = blocks("python")
    (tmp_path / "test_decoder.py").write_text(loop.partition("\n\ndef test_my_decoder")[0] + marked)
    program, *flags = shlex.split(command)
    done = run(tmp_path, "-m", program, "-p", "unmask.plugin", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / flags[-1]).read_text())["badge"]["message"] == "1 of 1"

    unknown = run(tmp_path, "-m", program, "-p", "unmask.plugin", "--decoder-pages", "laws.json")
    assert unknown.returncode == 4  # so the flags of the page exist


def test_nothing_is_imported_before_a_test_uses_it(tmp_path):
    heavy = "print(sorted({'torch', 'numpy', 'numba', 'scipy'} & set(sys.modules)))"
    done = run(tmp_path, "-c", f"import sys, unmask.plugin; {heavy}")
    assert done.stdout == "[]\n", done.stderr
