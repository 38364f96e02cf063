"""Every byte of a text comes back, by every tokenizer, also from its file; a file that is wrong is one line."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask import UnmaskError
from unmask.models.text import load, make
from unmask.models.text.published import CONFIG, Published
from unmask.models.text.tokenizer import FILE

LEARNT = ("The cat sat on the mat.\r\nThe rat sat, too: 1234 \u00e9\u00e8.", "A cat and a rat; the mat that sat.\n" * 5)
HARD = ("\r\n", "\0", "e\u0301", "\U0001f469\u200d\U0001f469", "\u202e", "<|endoftext|>", "\ufeff", "\u3000", " \n \t")
TEXTS = st.lists(st.one_of(st.text(), st.sampled_from(HARD), st.sampled_from(("the cat", "12345", " ")))).map("".join)


def learned(path):
    """The name of a file: that of a tokenizer learned before."""
    make("bpe:300", LEARNT).save(path)
    return str(path / FILE)


NAMES = {"chars": lambda path: "chars", "bpe:300": lambda path: "bpe:300", "a file": learned}


@pytest.fixture(scope="module", params=NAMES)
def tokenizer(request, tmp_path_factory):
    return make(NAMES[request.param](tmp_path_factory.mktemp("files")), LEARNT)


@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_every_byte_comes_back(tokenizer, text):
    tokens = tokenizer.encode(text)
    assert tokens.dtype == np.int32
    assert tokenizer.decode(tokens) == text
    assert tokenizer.separator not in tokens
    assert all(0 <= token < tokenizer.vocabulary for token in tokens)


def test_it_comes_back_from_its_file(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    again = load(tmp_path)
    assert again.to_dict() == tokenizer.to_dict()
    assert (again.digest, again.vocabulary, again.separator) == (
        tokenizer.digest,
        tokenizer.vocabulary,
        tokenizer.separator,
    )
    for text in (*LEARNT, *HARD):
        assert again.encode(text).tolist() == tokenizer.encode(text).tolist()


def test_documents_stand_between_separators(tokenizer):
    tokens = [tokenizer.separator, *tokenizer.encode("one"), tokenizer.separator, *tokenizer.encode("two")]
    assert tokenizer.documents(tokens) == ["", "one", "two"]
    assert tokenizer.decode(tokens) == "\n\none\n\ntwo"


def test_merges_are_learnt():
    made = make("bpe:280", LEARNT)
    assert made.vocabulary == 280
    assert len(made.encode(LEARNT[1])) < 0.5 * len(LEARNT[1])
    assert make("bpe:280", LEARNT).digest == made.digest


def test_a_file_is_the_tokenizer_that_was_learned(tmp_path):
    """With the same numbers and separator, whatever text it is used for."""
    first, second = make("bpe:300", LEARNT), make(learned(tmp_path), ["another text"])
    assert second.encode(LEARNT[1]).tolist() == first.encode(LEARNT[1]).tolist()
    assert (second.vocabulary, second.separator) == (first.vocabulary, first.separator)


def test_unknown_characters_are_halves_of_bytes():
    made = make("chars", ["ab"])
    assert made.vocabulary == 2 + 16 + 1
    assert made.encode("a\u00e9b").tolist() == [0, 2 + 0xC, 2 + 0x3, 2 + 0xA, 2 + 0x9, 1]
    assert made.decode([0, 2 + 0xC, 1]) == "a\ufffdb"
    assert made.decode([0, 2 + 0xC]) == "a\ufffd"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("char", "did you mean chars?"),
        ("bpe", "expected a whole number"),
        ("bpe:100", "at least 257"),
        ("gpt2", "unknown tokenizer"),
        ("nowhere.json", "No such file"),
    ],
)
def test_names_that_are_none(name, words):
    with pytest.raises(UnmaskError, match=re.escape(words)):
        make(name, LEARNT)


BPE = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "is not readable by the package tokenizers"),
        ({"kind": "wordpiece"}, "wordpiece"),
        ({"kind": "chars", "symbols": 3}, "symbols is a whole number; expected a text"),
        ({"kind": "chars", "symbols": "ba"}, "in the order of their codes"),
        ({"kind": "chars", "symbols": "aa"}, "different symbols"),
        ({"kind": "chars", "symbols": "ab", "code": "import os"}, "unknown key"),
        (BPE | {"model": BPE["model"] | {"merges": [["a", "x"]]}}, "is not readable by the package tokenizers"),
        (BPE | {"added_tokens": [{"content": "x"}]}, "is not readable by the package tokenizers"),
    ],
)
def test_files_that_are_wrong(tmp_path, content, words):
    (tmp_path / FILE).write_text(json.dumps(content))
    with pytest.raises(UnmaskError, match=re.escape(words)) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)
    assert FILE in str(caught.value)


def test_a_file_without_an_end_is_no_tokenizer_of_a_text(tmp_path):
    (tmp_path / FILE).write_text(json.dumps(BPE))
    assert isinstance(load(tmp_path), Published)
    assert load(tmp_path / "nowhere") is None
    with pytest.raises(UnmaskError, match="has no special symbol; expected one, which ends a document"):
        make(str(tmp_path / FILE), LEARNT)
    (tmp_path / CONFIG).write_text(json.dumps({"eos_token": "b"}))
    assert load(tmp_path).separator == 1
