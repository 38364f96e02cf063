"""`unmask eval lm-eval`: lm-eval's own words, one more model, and one line where it is not there."""

from __future__ import annotations

import sys

from tests.needs import needs
from unmask.cli.main import main


def test_without_lm_eval(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "lm_eval.__main__", None)
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    assert main(["eval", "lm-eval", "--tasks", "gsm8k"]) == 2
    assert capsys.readouterr().err.endswith("; pip install 'unmask[lm-eval]'\n")


@needs("lm-eval")
def test_words_are_passed_on(monkeypatch, capsys):
    """As they are, `--help` too; what fails there is a line, and what is a mistake of ours is ours."""
    import lm_eval.__main__
    from lm_eval.api.registry import get_model

    from unmask import UnmaskError
    from unmask.tasks.lm_eval import UnmaskLM

    said, problems = [], [None, ValueError("no such task"), UnmaskError("a mistake")]

    def evaluate():
        said.append(sys.argv[1:])
        assert get_model("unmask") is UnmaskLM
        assert get_model("dummy") is not None  # theirs are there as well
        if problem := problems[len(said) - 1]:
            raise problem

    monkeypatch.setattr(lm_eval.__main__, "cli_evaluate", evaluate)
    before = list(sys.argv)
    words = ["run", "--help", "--model_args", "model=x,sampler=llada(block_length=2, ties=position)"]
    assert main(["eval", "lm-eval", *words]) == 0
    assert main(["eval", "lm-eval", "--tasks", "x"]) == 2
    assert main(["eval", "lm-eval", "--tasks", "x"]) == 2
    assert said == [words, ["--tasks", "x"], ["--tasks", "x"]]
    assert sys.argv == before
    errors = [line for line in capsys.readouterr().err.splitlines() if ": at work for " not in line]
    assert errors == [
        "unmask: error: lm-eval failed with ValueError: no such task. Add --debug for the traceback",
        "unmask: error: a mistake",
    ]


def test_what_is_ours_is_explained(capsys):
    assert main(["eval", "lm-eval", "--help"]) == 0
    assert "likelihood" in capsys.readouterr().out
