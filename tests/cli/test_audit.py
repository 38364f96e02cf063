"""`unmask audit` against the same in Python, and its errors."""

from __future__ import annotations

import json

import pytest

from unmask import audit, generate, languages
from unmask.core.samples import write_tokens

LANGUAGE = languages.preset("paper-2gram")
SETTING = ("--language", "paper-2gram", "--steps", 4)


@pytest.fixture
def samples(tmp_path):
    """Made in half of the rounds."""
    tokens = generate(LANGUAGE, steps=2, length=12, rows=600, seed=5).tokens
    write_tokens(tmp_path / "samples.npy", tokens)
    return tokens


def test_audit_agrees_with_python(run, samples):
    ran = run("audit", "samples.npy", *SETTING, "--calls", 4, "--json")
    assert (ran.code, ran.err) == (0, "")
    expected = audit(samples, LANGUAGE, steps=4, calls=4)
    assert ran.result == json.loads(json.dumps(expected.to_dict()))
    assert (ran.result["verdict"], ran.result["fault"]) == ("differs", "miscounted steps")
    assert abs(ran.result["steps"]["value"] - 2) < 0.3


def test_the_table_says_it_in_words(run, samples):
    ran = run("audit", "samples.npy", *SETTING, "--calls", 4)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("verdict ")
    words = " ".join(ran.out.split())
    assert "differs: not the law of ancestral with 4 rounds; miscounted steps (" in words
    assert "one call a round: nothing is cached" in words
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothere.npy", *SETTING), "cannot read nothere.npy"),
        (("samples.npy", "--language", "paper-2gram"), "needs a number of steps"),
        (("samples.npy", *SETTING, "--sampler", "ancestrel"), "did you mean ancestral"),
        (("samples.npy", *SETTING, "--calls", 0), "calls is 0"),
        (("samples.npy", "--language", "brackets", "--steps", 4), "is not in 0..3"),
    ],
)
def test_mistakes_are_one_line(run, samples, arguments, words):
    ran = run("audit", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err


def test_too_few_rows(run, tmp_path):
    write_tokens(tmp_path / "few.npy", LANGUAGE.sample(20, 12))
    ran = run("audit", "few.npy", *SETTING)
    assert (ran.code, ran.out) == (2, "")
    assert "20 rows are too few to say anything" in ran.err
