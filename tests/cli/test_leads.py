"""Names that a stranger tries: each error names a command that exists, in one line."""

from __future__ import annotations

import re

import pytest

from tests.commands import every
from unmask.cli import leads
from unmask.cli.main import main

SENTENCES = [*(one for words in leads.LEADS.values() for one in words.values()), *leads.OTHERS.values()]
COMMANDS = every()
GROUPS = {name.rpartition(" ")[0] for name in COMMANDS}


def named(sentence: str) -> list[str]:
    """The commands in backticks, without their arguments: "board compare"."""
    return re.findall(r"`unmask ([a-z]+(?: [a-z][a-z-]*)?)(?= [A-Z{]| --|`)", sentence)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_each_lead_names_commands_that_exist(sentence):
    assert sentence.count("`unmask ") - sentence.count("`unmask --help`") == len(found := named(sentence))
    assert {*found} <= COMMANDS.keys() | GROUPS


def test_no_lead_hides_a_command():
    for program, entries in leads.LEADS.items():
        words = [word for group in entries for word in group.split()]
        assert len(words) == len({*words})
        inside = f"{program} ".removeprefix("unmask ")
        assert not {f"{inside}{word}" for word in words} & (COMMANDS.keys() | GROUPS)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("compare strided ancestral", "`unmask board compare A B` compares samplers"),
        ("samplers", "`unmask show sampler` lists samplers"),
        ("resume board", "`unmask sweep resume STORE` goes on"),
        ("show samplers", "`unmask show sampler` lists all"),
        ("show strided", "as in `unmask show sampler strided`"),
        ("show paper-2gram", "as in `unmask show language paper-2gram`"),
        ("theory theorem-4.4", "`unmask theory show theorem-4.4`"),
        ("theory lst", "did you mean list?"),
        ("board --sampler strided", "did you mean --samplers?"),
        ("board --budgets 8", "`unmask board --steps 8 32` sets the numbers of steps"),
        ("plan --model m --causal-model ar", "`unmask plan --results EVAL` chooses"),
        ("board --samplers strided,ancestral", "Write --samplers strided ancestral"),
        ("board --steps 8,16", "Write --steps 8 16"),
        ("gap --language paper-2gram --sampler strided,ancestral", "did you mean strided or ancestral?"),
        ("generate paper-2gram", "Write --language paper-2gram or --model paper-2gram"),
        ("generate --n 5 --language paper-2gram", "did you mean --rows?"),
        ("play paper-2gram", "expected a trace"),
        ("report figure-1", "Measure it: --recipe figure-1"),
        ("audit loop.py", "`unmask.testing.assert_law(loop)`"),
    ],
)
def test_a_guess_leads_on(line, hint, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert hint in err
    assert (out, err.count("\n")) == ("", 1)


def test_a_path_with_a_comma_is_no_list(capsys):
    assert main(["sweep", "run", "smoke", "--set", "steps=[2,4]", "--dry-run"]) == 0
