"""unmask train --text and what generate writes with it: text, beside its tokens; mistakes in a line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from unmask.cli.main import main
from unmask.core.samples import read_tokens
from unmask.models.text import Text, load, read

TINY = ("--length", 16, "--hidden", 16, "--layers", 1, "--heads", 2, "--steps", 10, "--batch", 8)
WORDS = "\n\n".join(f"the cat number {number} sat on the mat" for number in range(60))
KEYS = {"loss_nats_per_token", "validation_nats_per_token", "validation_bits_per_character", "validation_bits_per_byte"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A text, and an MDM and an AR model of it."""
    made = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        Path("words.txt").write_text(WORDS)
        for kind in ("mdm", "ar"):
            words = ("train", "--text", "words.txt", *TINY, "--model", kind, "--out", kind)
            assert main([str(word) for word in words]) == 0
    return made


@pytest.fixture
def place(run, trained):
    shutil.copytree(trained, ".", dirs_exist_ok=True)
    return run


def test_what_it_says(place):
    ran = place("train", "--text", "words.txt", "--tokenizer", "bpe:270", *TINY, "--out", "out", "--json")
    assert ran.code == 0
    assert ran.result.keys() > KEYS
    assert not {"entropy_nats_per_token", "excess_percent"} & ran.result.keys()
    assert "bits per character" in ran.err
    assert load("out").name == "bpe:270"
    assert json.loads(Path("out/training.json").read_text())["origin"]["configuration"]["label"] == "words.txt, bpe:270"
    again = place("train", "--resume", "--out", "out", "--json")
    assert again.result["validation_nats_per_token"] == ran.result["validation_nats_per_token"]


def test_it_writes_text(place):
    for suffix in ("npy", "jsonl", "txt"):
        ran = place(
            "generate", "--model", "mdm", "--rows", 3, "--steps", 4, "--seed", 1, "--out", f"a.{suffix}", "--json"
        )
        assert (ran.code, ran.result["rows"]) == (0, 3)
    tokens = read_tokens("a.npy")
    assert tokens.equal(read_tokens("a.jsonl"))
    texts = [load("mdm").decode(row) for row in tokens.tolist()]
    assert [json.loads(line)["text"] for line in Path("a.jsonl").read_text().splitlines()] == texts
    assert Path("a.txt").read_bytes().decode() == "\n\f\n".join(texts) + "\n"
    accounts = [json.loads(Path(f"a.{suffix}.json").read_text())["tokens_sha256"] for suffix in ("npy", "txt")]
    assert accounts[0] == accounts[1]


def test_a_prompt_is_text(place):
    ran = place(
        "generate", "--model", "ar", "--sampler", "autoregressive", "--prompt", "the cat", "--rows", 4, "--out", "a.txt"
    )
    assert ran.code == 0
    rows = Path("a.txt").read_text().split("\n\f\n")
    assert len(rows) == 4
    assert all(row.startswith("the cat") for row in rows)
    given = np.load("a.given.npy")
    assert (given[:, 7:] == load("ar").vocabulary).all()
    both = place(
        "generate", "--model", "mdm", "--causal-model", "ar", "--sampler", "speculative", "--rows", 2, "--out", "b.txt"
    )
    assert both.code == 0


def test_the_bible_by_its_name(run):
    ran = run("train", "--text", "kjv", *TINY, "--out", "out")
    assert ran.code == 0
    assert json.loads(Path("out/training.json").read_text())["origin"]["configuration"]["text"] == (
        Text(read("kjv"), load("out")).facts()
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "--text", "nowhere", "--out", "new"), "No such file"),
        (("train", "--text", "words.txt", "--language", "brackets", "--out", "new"), "exclude each other"),
        (
            ("train", "--language", "brackets", "--tokenizer", "chars", "--out", "new"),
            "--language and --tokenizer exclude each other",
        ),
        (("train", "--text", "words.txt", "--tokenizer", "words", "--out", "new"), "unknown tokenizer"),
        (("train", "--text", "words.txt", "--samples", 9, *TINY, "--out", "new"), "Leave samples out"),
        (("train", "--text", "words.txt", *TINY, "--length", 10**5, "--out", "new"), "a smaller --length"),
        (("train", "--text", "latin.txt", *TINY, "--out", "new"), "byte 1 is not UTF-8 text"),
        (("train", "--text", "words.txt", "--targets", "posterior", *TINY, "--out", "new"), "a text does not have"),
        (("train", "--text", "words.txt", *TINY, "--out", "mdm", "--resume"), "--text does not apply to --resume"),
        (("generate", "--model", "mdm", "--prompt", "the cat sat on the mat", "--out", "a.txt"), "Shorten the prompt"),
        (("generate", "--model", "mdm", "--prompt", "a", "--given", "x.npy", "--out", "a.txt"), "--given and --prompt"),
        (("generate", "--language", "brackets", "--prompt", "a", "--out", "a.npy"), "--prompt needs --model"),
        (("generate", "--language", "brackets", "--out", "a.txt"), "ends in '.txt'; expected .npy or .jsonl"),
        (("generate", "--model", "mdm", "--out", "a.csv"), "expected .npy or .jsonl or .txt"),
        (("model", "learning", "mdm"), "was trained on a text"),
    ],
)
def test_mistakes_are_told(place, arguments, words):
    Path("latin.txt").write_bytes(b"a\xe9\n\nb")
    arguments = list(arguments)
    if arguments.count("--length") > 1:  # said once
        at = arguments.index("--length")
        del arguments[at : at + 2]
    ran = place(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_text_that_changed_is_refused(run):
    Path("words.txt").write_text(WORDS)
    assert run("train", "--text", "words.txt", *TINY, "--out", "mdm").code == 0
    Path("words.txt").write_text("other\n\nwords")
    ran = run("train", "--resume", "--out", "mdm")
    assert ran.code == 2
    assert "has changed since the start of this training" in ran.err


def test_the_player_shows_words_and_holds_nothing_against_them(place):
    """An MDM and its AR twin side by side, behind a prompt; there is no language to say what is wrong."""
    models = ("--model", "mdm", "--causal-model", "ar", "--against", "autoregressive")
    ran = place("play", *models, "--rows", 2, "--length", 12, "--prompt", "a", "--json")
    assert (ran.code, ran.err) == (0, "")
    names = [name for name in ran.result if name not in ("file", "row")]
    assert [list(ran.result[name]) for name in names] == [["steps", "rows"]] * 2
    page = Path("play.html").read_text()
    assert '"measured":null' in page
    assert '"given":[[0,' in page
