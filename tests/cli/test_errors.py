"""Every mistake in what was asked: one short line on stderr that says what and where, exit code 2, nothing written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unmask import UnmaskError
from unmask.languages import NGram

NGRAM = {"kind": "ngram", "order": 2, "initial": [0.5, 0.5], "transition": [[0.5, 0.5], [0.5, 0.5]]}


def files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(".").rglob("*") if path.is_file()}


@pytest.fixture
def fails(run):
    """fails(words, command...): the command is a mistake, its one line holds the words, and no file has changed."""

    def check(words: str, *arguments: object) -> str:
        before = files()
        ran = run(*arguments)
        assert ran.code == 2, ran
        assert ran.out == ""
        assert ran.err.startswith("unmask: error: ")
        assert ran.err.count("\n") == 1
        assert len(ran.err) < 700
        assert words in ran.err
        assert files() == before
        return ran.err

    return check


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"transition": [[0.5, 0.5], [0.5, 0.4]]}, "transition row 1 sums to 0.9; expected 1. Pass --normalise"),
        ({"kind": "ngrm"}, "unknown kind of language 'ngrm'; did you mean ngram?"),
        ({"ordr": 2}, "'ordr'; did you mean order?"),
    ],
)
def test_a_wrong_language_file(fails, change, words):
    Path("wrong.json").write_text(json.dumps(NGRAM | change))
    assert "wrong.json" in fails(words, "show", "language", "wrong.json", "--out", "copy.json")


def generate(*arguments: object, language: str = "interval-5") -> tuple[object, ...]:
    small = () if "--length" in arguments else ("--length", 10)
    return "generate", "--language", language, "--rows", 2, *small, *arguments, "--out", "out.npy"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("interval5", "'interval5'; did you mean interval-5 or interval?"),
        ("zzz", "known: answers, "),
        ("nothere.json", "neither a file nor a preset"),
        (".", "it is a directory"),
    ],
)
def test_an_unknown_language(fails, name, words):
    fails(words, *generate(language=name))
    fails(words, "show", "language", name)


SAMPLERS = {
    "lowconfidence": "did you mean low-confidence?",
    "blocks(blocklength=4)": "'blocklength'; did you mean block_length?",
    "blocks(block_length=4": "write name or name(option=value, ...)",
    "blocks(block_length=abc)": "'abc'",
    "blocks(block_length=1)": "steps is 3 for 10 blocks of 1 positions; expected at least 10 steps",
    "low-confidence(temperature=-1)": "temperature is -1; expected 0 or a positive number",
    "low-confidence(ties=luck)": "unknown way to break ties 'luck'",
    "speculative(draft_length=0)": "draft_length is 0",
}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_wrong_sampler(fails, sampler):
    fails(SAMPLERS[sampler], *generate("--sampler", sampler, "--steps", 3))


SCHEDULES = {
    "cosin": "did you mean cosine",
    "cosine(": "write name or name(option=value, ...)",
    "polynomial(pwer=2)": "'pwer'; did you mean power?",
    "polynomial(power=abc)": "'abc'",
    "[0.2, 0.2]": "the schedule sums to 0.4; expected 1. Divide it by its sum",
    "[0.2,": "--schedule is ",
    "['a']": "--schedule is ",
    "[[1.0]]": "--schedule is ",
    "[]": "schedule has shape (0,); expected a list of numbers",
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_wrong_schedule(fails, schedule):
    steps = () if schedule.startswith("[") else ("--steps", 3)
    fails(SCHEDULES[schedule], *generate("--schedule", schedule, *steps))


def test_a_list_has_its_own_number_of_steps(fails):
    fails("lists 2 steps, but steps is 3. Leave steps out", *generate("--schedule", "[0.5, 0.5]", "--steps", 3))


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--steps", 0, "steps is 0; expected at least 1"),
        ("--rows", 0, "rows is 0; expected at least 1"),
        ("--length", 0, "length is 0; expected at least 1"),
        ("--seed", 2**63, f"the seed is {2**63}"),
        ("--first-row", 2**63, f"first_row is {2**63}"),
        ("--length", 10**13, "length is 10000000000000; expected at most 1048576"),
    ],
)
def test_a_number_out_of_range(fails, option, value, words):
    fails(words, *generate(option, value))


def test_a_wrong_number_of_threads(fails, monkeypatch):
    monkeypatch.setenv("UNMASK_THREADS", "many")
    fails("UNMASK_THREADS is 'many'", *generate())


@pytest.mark.parametrize(
    ("language", "length", "words"),
    [
        ("brackets", 7, "the nearest lengths: 6 and 8"),
        ("brackets", 1, "the nearest lengths: 2"),
        ("modular-sum", 512, "the nearest lengths: 509 and 515"),
    ],
)
def test_an_impossible_length_names_the_nearest(fails, language, length, words):
    fails(words, *generate("--length", length, language=language))
    fails(words, "show", "language", language, "--length", length)
    np.save("samples.npy", np.zeros((2, length), np.uint8))
    fails(words, "score", "samples.npy", "--language", language)


def test_nothing_to_prune(fails):
    fails("--no-pruned", *generate("--no-pruned"))


PLACES = {
    "no/such/directory/FILE": "there is no directory no/such/directory; create it first",
    "file/FILE": "Not a directory",
    "taken/FILE": "it is a directory",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_cannot_be_written(fails, place):
    Path("file").write_text("")
    for name in ("out.npy", "out.jsonl", "out.json"):
        Path("taken", name).mkdir(parents=True)
    Path("text.txt").write_text("abcabc")
    for name in ("out.npy", "out.jsonl"):
        target = place.replace("FILE", name)
        fails(PLACES[place], "generate", "--language", "interval-5", "--length", 5, "--rows", 2, "--out", target)
    target = place.replace("FILE", "out.json")
    fails(PLACES[place], "show", "language", "interval-5", "--out", target)


def test_the_account_must_fit_too(fails):
    """Otherwise the samples would be written without what made them."""
    Path("out.npy.json").mkdir()
    fails("cannot write out.npy.json: it is a directory", *generate())


def test_a_directory_without_permission(fails, ordinary):
    Path("closed").mkdir(mode=0o500)
    fails("there is no directory", "show", "language", "interval-5", "--out", "no/out.json")  # imports all it needs
    ordinary()
    fails("Permission denied", "show", "language", "interval-5", "--out", "closed/out.json")


@pytest.mark.parametrize("name", ["out.txt", "out", "out.json", "out.npz"])
def test_an_unknown_suffix(fails, name):
    words = "expected .npy or .jsonl"
    fails(words, "generate", "--language", "interval-5", "--length", 5, "--rows", 2, "--out", name)
    Path(name).write_text("[0]")
    fails(words, "score", name, "--language", "interval-5")


def test_no_such_samples(fails):
    fails("cannot read no.npy: No such file", "score", "no.npy", "--language", "interval-5")
    fails("cannot read no.jsonl: No such file", "score", "no.jsonl", "--language", "interval-5")


CORPORA = {
    "empty": ("", (), "the text has 0 tokens"),
    "too short": ("ab", ("--order", 3), "the text has 2 tokens; order 3 needs at least 3"),
    "large": (" ".join(map(str, range(5000))), ("--tokens", "whitespace"), "max_vocabulary"),
    "order 1": ("abcabc", ("--order", 1), "order is 1"),
    "smoothing": ("abcabc", ("--smoothing", -1.0), "smoothing is -1.0"),
    "max_vocabulary": ("abcabc", ("--max-vocabulary", 1), "max_vocabulary is 1; expected at least 2"),
}


@pytest.mark.parametrize("case", CORPORA)
def test_a_text_that_cannot_be_fitted(case):
    text, options, words = CORPORA[case]
    given = {name[2:].replace("-", "_"): value for name, value in zip(options[::2], options[1::2], strict=True)}
    with pytest.raises(UnmaskError, match=re.escape(words)):
        NGram.fit(text, **({"order": 3} | given))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--length", 0), "length is 0"),
        (("--seed", -1), "the seed is -1"),
    ],
)
def test_what_cannot_be_shown(fails, options, words):
    fails(words, "show", "language", "paper-2gram", *options)


def test_the_exit_code_of_a_process(tmp_path):
    words = [sys.executable, "-m", "unmask", "sweep", "status", "nothere"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
    said = [line for line in done.stderr.splitlines() if b": at work for " not in line]  # which a busy machine adds
    assert (done.returncode, done.stdout, len(said)) == (2, b"", 1)
    assert said[0].startswith(b"unmask: error: there is no sweep in nothere")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("list sampler", "`unmask show sampler` lists samplers"),
        ("boardd", "did you mean board?"),
        ("play --language interval-5 --length 8 --against ar", "did you mean autoregressive?"),
    ],
)
def test_a_command_that_is_nearly_one_is_named(fails, words, meant):
    fails(meant, *words.split())


def test_sequences_of_another_language_are_refused(run, fails):
    run("generate", "--language", "sparse-hmm(seed=4)", "--length", 8, "--steps", 2, "--rows", 4, "--out", "a.npy")
    run("play", "--language", "sparse-hmm(seed=4)", "--length", 8, "--rows", 4, "--out", "a.json")
    other = ("--language", "sparse-hmm")
    fails("a.npy is of another language: hmm with the digest", "score", "a.npy", *other)
    fails("a.npy is of another language: hmm with the digest", "audit", "a.npy", *other, "--steps", 2)
    fails("a.json is of another language: hmm with the digest", "play", "a.json", *other)
    assert run("score", "a.npy", "--language", "sparse-hmm(seed=4)").code == 0
