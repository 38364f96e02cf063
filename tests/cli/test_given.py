"""Prompts on the command line: the same as in Python, found again by `unmask score`, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from unmask import generate, languages, prompts, score
from unmask.core.files import code, finite
from unmask.core.samples import read_tokens

V = 16
LANGUAGE = languages.load("interval-5")
GENERATE = ("generate", "--language", "interval-5", "--steps", 3, "--json")
SCORE = ("score", "samples.npy", "--language", "interval-5", "--json")
ROW = [[5, V, V, V, V, V, V, 2]]


def write(name, rows):
    if name.endswith(".npy"):
        np.save(name, np.array(rows))
    else:
        Path(name).write_text("".join(json.dumps([None if t == V else t for t in row]) + "\n" for row in rows))


@pytest.mark.parametrize("name", ["given.npy", "given.jsonl"])
def test_one_row_is_for_all(run, name):
    write(name, ROW)
    made = run(*GENERATE, "--given", name, "--rows", 40, "--out", "samples.npy")
    assert (made.code, made.err, made.result["length"]) == (0, "", 8)
    ours = generate(LANGUAGE, steps=3, length=8, rows=40, given=ROW)
    assert torch.equal(read_tokens("samples.npy"), ours.tokens)
    assert torch.equal(read_tokens("samples.given.npy"), ours.given)
    expected = score(ours, LANGUAGE).to_dict() | {"ser_rao_blackwell": None}
    for found in (run(*SCORE), run(*SCORE, "--given", name)):
        named = {"language": LANGUAGE.source(), "source": ours.source, "made_by_code": code(), "scored_by_code": code()}
        assert found.result == json.loads(json.dumps(finite(expected | named)))


@pytest.mark.parametrize("each", [1, 3])
def test_a_row_each(run, each):
    """The file says how many rows there are; each of them may serve several."""
    rows = LANGUAGE.sample(4, 10, seed=3)
    rows[:, 4:] = V
    write("given.jsonl", rows.tolist())
    run(*GENERATE, "--given", "given.jsonl", "--rows-per-prompt", each, "--out", "samples.npy")
    given = rows.repeat_interleave(each, 0)
    ours = generate(LANGUAGE, steps=3, length=10, rows=4 * each, given=given)
    assert torch.equal(read_tokens("samples.npy"), ours.tokens)
    assert run(*SCORE).result["ser"]["n"] == 4


def test_prompts_of_the_language(run):
    options = ("--length", 20, "--prompt-length", 8, "--rows-per-prompt", 2, "--seed", 4)
    run(*GENERATE, *options, "--rows", 30, "--out", "samples.npy")
    given = prompts(LANGUAGE, 30, 20, 8, rows_per_prompt=2, seed=4)
    ours = generate(LANGUAGE, steps=3, length=20, rows=30, seed=4, given=given)
    assert torch.equal(read_tokens("samples.npy"), ours.tokens)
    found = run(*SCORE).result
    assert (found["ser"]["n"], found["impossible_rows"]) == (15, score(ours, LANGUAGE).impossible_rows)
    run(*GENERATE, *options, "--first-row", 13, "--rows", 17, "--out", "samples.npy")
    assert torch.equal(read_tokens("samples.npy"), ours.tokens[13:])


def test_samples_of_others_with_a_given_file(run):
    """A row that has changed a given token is wrong, however good it is."""
    x = LANGUAGE.sample(6, 10, seed=1)
    given = x.clone()
    given[:, 5:] = V
    write("given.npy", given.tolist())
    write("samples.npy", x.tolist())
    assert run(*SCORE, "--given", "given.npy").result["impossible_rows"] == 0
    write("samples.npy", [*x[:5].tolist(), x[0].tolist()])
    assert run(*SCORE, "--given", "given.npy").result["impossible_rows"] == 1
    assert run(*SCORE).result["impossible_rows"] == 0


def test_nothing_given_leaves_nothing_behind(run):
    run(*GENERATE, "--length", 8, "--rows", 3, "--out", "samples.npy")
    assert not Path("samples.given.npy").exists()
    assert "given_sha256" not in json.loads(Path("samples.npy.json").read_text())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--given", "nowhere.npy"), "cannot read nowhere.npy: No such file"),
        (("--given", "given.txt"), "given.txt ends in '.txt'; expected .npy or .jsonl"),
        (("--given", "given.npy", "--length", 9), "given has shape (1, 8); expected (9,) or (2000, 9)"),
        (("--given", "three.jsonl", "--rows", 7), "given has shape (3, 2); expected (2,) or (7, 2)"),
        (("--given", "far.jsonl"), "token 17 is not in 0..16"),
        (("--given", "odd.jsonl"), "odd.jsonl, line 1: entry [1] is a text; expected a whole number or null"),
        (("--given", "impossible.jsonl"), "given row 0 has probability zero: no sequence fits it"),
        (("--given", "given.npy", "--prompt-length", 3), "Leave one of them out"),
        (("--prompt-length", 3, "--length", 2), "prompt_length is 3; expected 0 to 2"),
        (("--rows-per-prompt", 2), "--rows-per-prompt needs prompts"),
        (("--prompt-length", 3, "--rows-per-prompt", 0), "--rows-per-prompt is 0; expected at least 1"),
        (("--given", "given.npy", "--sampler", "autoregressive"), "expected a prefix for autoregression"),
    ],
)
def test_what_is_refused(run, options, words):
    write("given.npy", ROW)
    write("three.jsonl", [[V, V]] * 3)
    write("far.jsonl", [[17, V]])
    write("impossible.jsonl", [[0, 1, V, V, V]])
    Path("odd.jsonl").write_text('[null, "x"]\n')
    before = sorted(Path(".").iterdir())
    ran = run(*GENERATE, *options, "--out", "samples.npy")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err
    assert sorted(Path(".").iterdir()) == before


def test_what_was_given_must_be_there(run):
    """Samples that were continued are never scored as if they had not been."""
    write("given.npy", ROW)
    run(*GENERATE, "--given", "given.npy", "--rows", 5, "--out", "samples.npy")
    write("samples.given.npy", [[V] * 8] * 5)
    assert (
        "samples.given.npy does not match the account of samples.npy. Pass the given tokens by --given"
        in run(*SCORE).err
    )
    Path("samples.given.npy").unlink()
    assert "cannot read samples.given.npy" in run(*SCORE).err
    assert run(*SCORE, "--given", "given.npy").code == 0


def test_a_sampler_of_a_module(run):
    """Named in full, from the working directory; a mistake in it is one line."""
    Path("mine.py").write_text(
        "from unmask.samplers.rules.fixed_orders import Strided\nclass Mine(Strided):\n    pass\n"
    )
    made = run(*GENERATE, "--length", 8, "--rows", 3, "--sampler", "mine:Mine", "--out", "samples.npy")
    assert made.code == 0
    ours = generate(LANGUAGE, sampler="strided", steps=3, length=8, rows=3)
    assert torch.equal(read_tokens("samples.npy"), ours.tokens)
    ran = run(*GENERATE, "--sampler", "mine:Yours", "--out", "samples.npy")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "unknown name in module 'mine': 'Yours'" in ran.err
