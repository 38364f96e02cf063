"""`unmask audit` against the same in Python, and its errors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.needs import ROOT, needs
from unmask import audit, generate, languages
from unmask.core.samples import write_tokens

LANGUAGE = languages.load("paper-2gram")
SETTING = ("--language", "paper-2gram", "--steps", 4)


@pytest.fixture
def samples(tmp_path):
    """Made in half of the steps."""
    tokens = generate(LANGUAGE, steps=2, length=12, rows=600, seed=5).tokens
    write_tokens(tmp_path / "samples.npy", tokens)
    return tokens


def test_audit_agrees_with_python(run, samples):
    ran = run("audit", "samples.npy", *SETTING, "--json")
    assert (ran.code, ran.err) == (0, "")
    expected = audit(samples, LANGUAGE, steps=4)
    assert ran.result == json.loads(json.dumps(expected.to_dict()))
    assert (ran.result["verdict"], ran.result["fault"]) == ("differs", "miscounted steps")
    assert abs(ran.result["fitted_steps"]["value"] - 2) < 0.3


@pytest.mark.long
def test_the_table_says_it_in_words(run, samples):
    ran = run("audit", "samples.npy", *SETTING)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("verdict ")
    words = " ".join(ran.out.split())
    assert "differs from ancestral with 4 steps: miscounted steps (" in words
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "detectable" not in ran.out
    assert "faults detectable" in run("audit", "samples.npy", *SETTING, "--verbose").out


@pytest.fixture
def rounding(tmp_path):
    """Dream's counts under the name of even ones, and the steps that the oracle has seen."""
    made = generate(LANGUAGE, sampler="dream(alg=entropy)", steps=4, length=12, rows=200, seed=5)
    write_tokens(tmp_path / "samples.npy", made.tokens)
    write_tokens(tmp_path / "order.npy", made.order)
    return made


NAMED = (*SETTING, "--sampler", "entropy(ties=topk)")


@pytest.mark.long
def test_the_order_says_more_than_tokens(run, rounding):
    blind, seeing = (run("audit", "samples.npy", *NAMED, *words, "--json") for words in ((), ("--order", "order.npy")))
    expected = audit(rounding.tokens, LANGUAGE, sampler="entropy(ties=topk)", steps=4, order=rounding.order)
    assert seeing.result == json.loads(json.dumps(expected.to_dict()))
    assert (blind.result["verdict"], seeing.result["fault"]) == ("differs", "uneven steps")
    assert "step 1 of 4 reveals 2 positions of a row, not 3" in expected.sentence


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (lambda order: order - 1, "order has steps from 0 to 3; expected 1 to"),
        (lambda order: order + 2**62, "order has steps from 4611686018427387905 to"),
        (lambda order: order[:, 1:], "order has shape (200, 11); expected (200, 12)"),
        (lambda order: order[0], "order.npy has shape (12,); expected (rows, length)"),
        (lambda order: order / 2, "order.npy contains float32; expected integers"),
        (None, "cannot read order.npy"),
    ],
)
def test_an_order_that_is_none_is_one_line(run, rounding, order, words):
    Path("order.npy").unlink()
    if order is not None:
        np.save("order.npy", order(rounding.order).numpy())
    ran = run("audit", "samples.npy", *NAMED, "--order", "order.npy")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothere.npy", *SETTING), "cannot read nothere.npy"),
        (("samples.npy", "--language", "paper-2gram"), "needs a number of steps"),
        (("samples.npy", *SETTING, "--sampler", "ancestrel"), "did you mean ancestral"),
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
    assert "rows is 20, too few" in ran.err


@pytest.mark.long
@needs("cc")
def test_a_loop_in_c(run, tmp_path):
    """The example, as it is and with two steps less than it says."""
    source = ROOT / "examples" / "other_language.c"
    assert len(source.read_text().splitlines()) <= 60
    ran = run("audit", "--language", "paper-2gram", "--length", 4, "--logits", "logits.npy", "--json")
    assert ran.result == {"logits": "logits.npy", "contexts": 9**4, "length": 4, "vocabulary": 8}
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", "loop", source, "-lm"], check=True)
    for steps, outcome in ((3, "no difference found"), (1, "differs")):
        with (tmp_path / "samples.jsonl").open("w") as file:
            subprocess.run(["./loop", "logits.npy", "4", "8", str(steps), "2000"], stdout=file, check=True)
        ran = run("audit", "samples.jsonl", "--language", "paper-2gram", "--steps", 3, "--json")
        assert ran.result["verdict"] == outcome
    short = subprocess.run(["./loop", "logits.npy", "5", "8", "3", "9"], capture_output=True, text=True, check=False)
    assert "cannot read 2361960 numbers" in short.stderr


@pytest.mark.long
def test_filters_are_those_of_python(run, samples):
    ran = run("audit", "samples.npy", *SETTING, "--filters", "temperature=0.8, top_k=3", "--json")
    expected = audit(samples, LANGUAGE, steps=4, filters={"temperature": 0.8, "top_k": 3})
    assert ran.result == json.loads(json.dumps(expected.to_dict()))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("samples.npy", *SETTING, "--filters", "heat=2"), "unknown filter 'heat'"),
        (("samples.npy", *SETTING, "--length", 4), "--length needs --logits FILE"),
        (("--language", "paper-2gram", "--logits", "logits.npy"), "length is None; expected a whole number"),
        (("samples.npy", *SETTING, "--logits", "logits.npy"), "needs either SAMPLES or --logits FILE"),
    ],
)
def test_options_that_do_not_fit(run, samples, words, expected):
    ran = run("audit", *words)
    assert ran.code == 2
    assert expected in ran.err
