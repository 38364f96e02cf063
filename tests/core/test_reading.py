"""The wall for data: whatever a file holds, it is what its schema says, or one line that names the position."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.core.errors import UnmaskError
from unmask.core.reading import (
    check_file,
    fit,
    from_json,
    from_yaml,
    read_bytes,
    read_json,
    read_lines,
    read_text,
    read_yaml,
)


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["mdm", "ar"]
    number: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
    lists: dict[str, list[int]] = {}
    pair: Annotated[list[float], msgspec.Meta(max_length=2)] = []


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: Inner
    text: str | None = None
    many: list[Inner] = []


def says(attempt, *words):
    """One line, of a length that can be read, with these words; no other error."""
    with pytest.raises(UnmaskError) as caught:
        attempt()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.isprintable()
    assert len(message) < 1500
    return message


GOOD = {"inner": {"kind": "mdm"}}


def test_what_fits_comes_as_it_is_declared():
    assert from_json(json.dumps(GOOD), Outer) == Outer(Inner("mdm"))
    assert from_yaml("inner: {kind: ar, number: 3, pair: [1, 2.5]}", Outer).inner.pair == [1.0, 2.5]
    assert fit({"a": (1, 2)}, dict[str, list[int]], "x") == {"a": [1, 2]}
    assert from_json(b"[1, 2.0, null, true]") == [1, 2.0, None, True]


MISFITS = [
    ({"inner": {"kind": "mdx"}}, "inner.kind", "did you mean mdm"),
    ({"inner": {"kind": "[...]"}}, "unknown value of inner.kind: '[...]'"),
    ({"inner": {"kind": ["mdm"]}}, "inner.kind is a list; expected a text"),
    ({"inner": {"kind": "mdm", "numbr": 1}}, "unknown key of inner: 'numbr'; did you mean number"),
    ({"iner": {}}, "unknown key 'iner'; did you mean inner"),
    ({"inner": {"kind": "mdm", "number": "7"}}, "inner.number is a text; expected a whole number"),
    ({"inner": {"kind": "mdm", "number": 7.0}}, "is a number; expected a whole number"),
    ({"inner": {"kind": "mdm", "number": True}}, "is true or false; expected a whole number"),
    ({"inner": {"kind": "mdm", "number": None}}, "is null; expected a whole number"),
    ({"inner": {"kind": "mdm", "number": 70}}, "inner.number does not fit; expected a whole number <= 9"),
    ({"inner": {"kind": "mdm", "lists": {"a": [1], "b": [1, "x"]}}}, "inner.lists.b[1] is a text"),
    ({"inner": {"kind": "mdm", "lists": {"a": 3}}}, "is a whole number; expected a list"),
    ({"inner": {"kind": "mdm", "pair": [1, 2, 3]}}, "inner.pair does not fit; expected a list of length <= 2"),
    (
        GOOD | {"many": [{"kind": "ar"}, {"kind": "ar", "number": 0}]},
        "many[1].number does not fit; expected a whole number >= 1",
    ),
    (GOOD | {"text": 3}, "text is a whole number; expected a text or null"),
    (GOOD | {"text\x1b[31m": 3}, "unknown key 'text\\x1b[31m'"),
    ({}, "it has no 'inner'"),
    ([], "is a list; expected a mapping"),
    ("x" * 5000, "is a text; expected a mapping"),
    (GOOD | {"x" * 900: 1}, "unknown key 'xxx"),
]


@pytest.mark.parametrize(("content", *["words"]), [(content, words) for content, *words in MISFITS])
def test_what_does_not_fit_is_named_with_its_place(content, words):
    says(lambda: fit(content, Outer, "f.json"), "f.json", *words)
    says(lambda: from_json(json.dumps(content), Outer, "f.json"), "f.json", *words)
    says(lambda: from_yaml(json.dumps(content), Outer, "f.yaml"), "f.yaml", *words)


def test_64_levels_and_keys_in_texts_are_read():
    for text in ("[" * 64 + "]" * 64, r'{"a": "{\"a\": 1, \"a\": 2}", "b\\": ["a", {"a": ":"}]}'):
        assert from_json(text) == json.loads(text)


def test_half_of_a_pair_is_named():
    says(lambda: fit({"\ud800": 1}, Outer, "f.json"), "f.json", "a text that is not Unicode")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON: Input data was truncated"),
        ("[1e999]", "Number out of range"),
        (r'["\ud800"]', "is not JSON"),
        ("[" * 65 + "]" * 65, "nested more than 64 deep"),
        ('{"a": ' * 65 + "1" + "}" * 65, "nested more than 64 deep"),
        ('{"b": {"a": 1, "c": "a", "a" : 2}}', "the key 'a' twice"),
        (r'{"a": 1, "\u0061": 2}', "the key 'a' twice"),
    ],
)
def test_json_that_is_refused(text, words):
    says(lambda: from_json(text, Any, "f.json"), "f.json", words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &a [x]\nb: *a", "an alias; write its content"),
        ("- " * 2000, "nested too deep"),
        ("a: !!timestamp x", "the tag 'tag:yaml.org,2002:timestamp'; leave it out"),
        ("a: !!str 5", "leave it out"),
        ("? {a: 1}\n: 2", "is not a name"),
        (r'a: "\ud800"', "surrogates not allowed"),
        ("- 1\n---\n- 2", "another document"),
    ],
)
def test_yaml_that_is_refused(text, words):
    says(lambda: from_yaml(text, Any, "f.yaml"), "f.yaml", words)


def test_yaml_knows_the_types_of_json():
    """What other readers of YAML take for dates, sexagesimals, octals and truth values are texts."""
    texts = ["2001-99-99", "2001-01-01", "1:30", "1_000", "0b_", "0x_", "0o7", "007", "no", "on", ".inf", ".nan", "<<"]
    assert from_yaml("\n".join(f"- {text}" for text in texts)) == texts
    found = from_yaml("[1, -2, 1.5, .5, 2., 1e-3, -1E3, true, false, null, ~, '', +4]")
    assert found == [1, -2, 1.5, 0.5, 2.0, 0.001, -1000.0, True, False, None, None, "", 4]
    assert from_yaml("a:\nb: x") == {"a": None, "b": "x"}


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(blacklist_categories=("Cs",))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(blacklist_categories=("Cs",))), inner),
    max_leaves=20,
)  # fmt: skip


@given(PLAIN)
def test_what_json_can_say_is_read(value):
    assert from_json(json.dumps(value)) == value


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_read_or_refused(text):
    for read in (from_json, from_yaml):
        for schema in (Any, Outer):
            with suppress(UnmaskError):
                read(text, schema, "f")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    os.mkdir("directory")
    with open("sparse", "wb") as file:
        file.truncate(10**12)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    os.symlink("loop", "loop")
    os.symlink("pipe", "to-pipe")
    (tmp_path / "latin").write_bytes(b'["\xff"]')
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf[1]")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pipe", "it is a pipe; expected a file"),
        ("socket", "it is a socket; expected a file"),
        ("loop", "Too many levels of symbolic links"),
        ("x" * 300, "its name is too long"),
        ("latin", "byte 2 is not UTF-8 text"),
    ],
)
def test_files_that_are_not_read(place, name, words):
    for read in (read_json, read_yaml, read_text, lambda path: list(read_lines(path))):
        says(lambda read=read: read(name), "cannot read", words)


def test_files_that_are_read(place):
    assert read_json("marked") == [1]
    assert check_file("marked") == 6
    (place / "lines").write_text('[1, 2]\n\n{"a": 1}\r\n 3 \n')
    assert list(read_lines("lines")) == [(1, [1, 2]), (3, {"a": 1}), (4, 3)]
    says(lambda: list(read_lines("lines", list[int])), "lines, line 3: it is a mapping; expected a list")
    (place / "lines").write_text("[1]\n[1,\n")
    says(lambda: list(read_lines("lines")), "lines, line 2 is not JSON: Input data was truncated")


def test_the_bound_holds_where_no_size_is_known(place):
    assert read_bytes("marked", 6)
    says(lambda: read_bytes("marked", 5), "it has 6 bytes; expected at most 5 bytes")
    says(lambda: read_bytes("/proc/self/status", 10), "it has over 10 bytes")
