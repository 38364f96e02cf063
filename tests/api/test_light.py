"""`pip install unmask` has six dependencies: what it can do with them alone, and what it says of the others."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.needs import DECLARED

SIX = {"torch", "numpy", "scipy", "numba", "rich", "msgspec"}
WITHOUT = """
import sys
for name in ("altair", "pandas", "vl_convert", "yaml", "safetensors", "tokenizers", "httpx", "transformers"):
    sys.modules[name] = None
"""
ABLE = """
import unmask
generation = unmask.generate("interval-5", steps=4, length=20, rows=300, seed=1, trace=True)
print(unmask.score(generation, "interval-5").ser)
print(unmask.audit(generation.tokens, "interval-5", sampler="ancestral", steps=4).verdict)
print(unmask.gap("interval-5", generation).model_calls)
"""
REFUSED = {
    "pages": "demo",
    "train": "train --language interval-5 --out n",
    "sweep": "sweep run smoke",
}


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + program], capture_output=True, text=True)


def test_the_package_needs_six():
    assert {re.match(r"[\w-]+", one)[0] for one in DECLARED[""]} == SIX


@pytest.mark.long
def test_six_generate_score_audit_and_measure_the_gap():
    ran = run(ABLE)
    assert ran.returncode == 0, ran.stderr
    assert "no difference found" in ran.stdout


@pytest.mark.long
@pytest.mark.parametrize("extra", REFUSED)
def test_others_are_named_with_their_extra(extra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run(f"from unmask.cli.main import main; sys.exit(main({REFUSED[extra].split()}))")
    assert ran.returncode == 2
    assert f"pip install 'unmask[{extra}]'" in ran.stderr
    assert not list(tmp_path.iterdir())
