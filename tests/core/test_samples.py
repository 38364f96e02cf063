"""Sequences on disk: what is written is read back, and what is not sequences is refused with its position."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from unmask import generate, languages
from unmask.core.errors import UnmaskError
from unmask.core.samples import (
    account_path,
    check_suffix,
    digest,
    given_path,
    read_account,
    read_given,
    read_tokens,
    write_tokens,
)

SUFFIXES = [".npy", ".jsonl"]


@pytest.fixture(params=SUFFIXES)
def path(request, tmp_path):
    return tmp_path / f"samples{request.param}"


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (3, 4)])
def test_round_trip(path, shape):
    tokens = torch.arange(shape[0] * shape[1]).view(shape)
    write_tokens(path, tokens)
    back = read_tokens(path)
    assert back.dtype == torch.int64
    assert torch.equal(back, tokens)
    assert os.listdir(path.parent) == [path.name]


def test_jsonl_is_a_list_a_line(tmp_path):
    write_tokens(tmp_path / "s.jsonl", torch.tensor([[1, 2], [3, 4]]))
    assert (tmp_path / "s.jsonl").read_bytes() == b"[1, 2]\n[3, 4]\n"


@pytest.mark.parametrize(
    ("largest", "dtype"),
    [(0, "u1"), (255, "u1"), (256, "u2"), (65535, "u2"), (65536, "u4"), (2**32 - 1, "u4"), (2**32, "u8")],
)
def test_npy_takes_the_smallest_type(tmp_path, largest, dtype):
    tokens = torch.tensor([[0, largest]])
    write_tokens(tmp_path / "s.npy", tokens)
    assert np.load(tmp_path / "s.npy").dtype == np.dtype(dtype)
    assert torch.equal(read_tokens(tmp_path / "s.npy"), tokens)


@pytest.mark.parametrize("dtype", ["i1", "u1", ">i2", "<u4", ">i8", "u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_any_integer_type(tmp_path, dtype, order):
    np.save(tmp_path / "s.npy", np.array([[0, 1, 2], [3, 4, 5]], dtype=dtype, order=order))
    assert torch.equal(read_tokens(tmp_path / "s.npy"), torch.arange(6).view(2, 3))


def test_the_largest_token(path):
    tokens = torch.tensor([[2**63 - 1, 0]])
    write_tokens(path, tokens)
    assert torch.equal(read_tokens(path), tokens)


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
def test_a_failing_write_leaves_nothing(path, old, monkeypatch):
    """The disk is full in the middle of it: what was there before stays whole, and no part of the new file does."""
    if old:
        path.write_text("old")
    real = io.BufferedWriter.write

    class Full(io.BufferedWriter):
        def write(self, data):
            real(self, bytes(data)[:10])
            raise OSError(28, "No space left on device")

    def fdopen(handle, mode):
        return Full(io.FileIO(handle, mode))

    monkeypatch.setattr(os, "fdopen", fdopen)
    with pytest.raises(UnmaskError, match=f"cannot write {path}: No space left on device"):
        write_tokens(path, torch.arange(10_000).view(100, 100))
    assert os.listdir(path.parent) == ([path.name] if old else [])
    assert not old or path.read_text() == "old"


@pytest.mark.parametrize("name", ["s", "s.txt", "s.npz", "s.json", ".npy", "s.NPY"])
def test_other_suffixes_are_refused(tmp_path, name):
    for act in (check_suffix, read_tokens, lambda path: write_tokens(path, torch.zeros(1, 1))):
        with pytest.raises(UnmaskError, match=r"expected .npy or .jsonl"):
            act(tmp_path / name)
    assert os.listdir(tmp_path) == []


def refuses(path, words):
    with pytest.raises(UnmaskError) as caught:
        read_tokens(path)
    message = str(caught.value)
    assert str(path) in message
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((2, 2)), "contains float64; expected integers"),
        (np.zeros((2, 2), "m8[s]"), "contains timedelta64[s]"),
        (np.array([["a"]]), "contains <U1"),
        (np.array(3), "has shape ()"),
        (np.zeros((0, 3), int), "has shape (0, 3)"),
    ],
    ids=lambda value: str(value.dtype) + str(value.shape) if isinstance(value, np.ndarray) else "",
)
def test_npy_of_something_else(tmp_path, array, words):
    np.save(tmp_path / "s.npy", array, allow_pickle=True)
    refuses(tmp_path / "s.npy", words)


def test_an_archive_under_the_name_of_an_array(tmp_path):
    np.savez(tmp_path / "s.npz", a=np.zeros((2, 2), int))
    os.replace(tmp_path / "s.npz", tmp_path / "s.npy")
    refuses(tmp_path / "s.npy", "is an archive; expected one array")


def test_npy_cut_anywhere(tmp_path):
    path = tmp_path / "s.npy"
    np.save(path, np.zeros((3, 4), np.uint8))
    whole = path.read_bytes()
    for kept in range(len(whole)):
        path.write_bytes(whole[:kept])
        refuses(path, "is not a complete .npy file")


def test_nothing_to_read(path):
    refuses(path, "cannot read")
    path.mkdir()
    refuses(path, "cannot read")


def lines(tmp_path, text):
    path = tmp_path / "s.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]\n[3, 4]\n",
        "[1, 2]\n[3, 4]",
        "\n[1, 2]\n \n[3, 4]\n\n",
        "[1, 2]\r\n[3, 4]\r\n",
        '{"tokens": [1, 2]}\n{"id": 7, "tokens": [3, 4], "text": "b"}\n',
        '{"tokens": [1, 2], "text": "a line\u2028in a string"}\n[3, 4]\n',
    ],
)
def test_jsonl_as_others_write_it(tmp_path, text):
    assert read_tokens(lines(tmp_path, text)).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected (rows, length)"),
        ("[1]\n\n[1, 2]\n", "line 3 has 2 tokens, but the first row has 1. Pad shorter sequences"),
        ("[1, 2.0]", "line 1: entry [1] is a number; expected a whole number"),
        ("[[1], [2]]", "line 1: entry [0] is a list; expected a whole number"),
        (f"[{-(2**63) - 1}]", "line 1: entry [0] does not fit; expected a whole number >= -9223372036854775808"),
        ("[1]\n[1,\n", "line 2 is not JSON"),
    ],
)
def test_jsonl_of_something_else(tmp_path, text, words):
    refuses(lines(tmp_path, text), words)


def test_the_account_is_about_its_samples_alone(path):
    made = generate(languages.load("interval-5"), length=10, rows=5, steps=2)
    made.save(path)
    tokens = read_tokens(path)
    account = read_account(path, tokens)
    assert account["rows"] == 5
    assert account["tokens_sha256"] == digest(made.tokens) == digest(tokens)
    assert read_account(path, tokens.flip(0)) == {}
    assert read_account(path, tokens[:4]) == {}


def test_the_digest_is_of_numbers_not_of_layout():
    tokens = torch.arange(12).view(3, 4)
    assert digest(tokens) == digest(tokens.int()) == digest(tokens.T.contiguous().T)
    assert digest(tokens) != digest(tokens + 1)


def test_no_account(path):
    tokens = torch.zeros(1, 2, dtype=torch.int64)
    write_tokens(path, tokens)
    assert read_account(path, tokens) == {}
    for content in ("[]", "3", "{}"):
        account_path(path).write_text(content)
        assert read_account(path, tokens) == {}
    account_path(path).write_text('{"rows": ')
    with pytest.raises(UnmaskError, match="is not JSON"):
        read_account(path, tokens)


def test_the_account_is_json_of_a_program_without_nan(path):
    generate(languages.load("brackets"), length=6, rows=1, steps=3).save(path)
    json.loads(account_path(path).read_text(), parse_constant=pytest.fail)


def test_null_is_what_is_hidden_where_that_is_asked_for(tmp_path):
    (tmp_path / "s.jsonl").write_text('[null, 1]\n{"tokens": [2, null]}\n')
    assert read_tokens(tmp_path / "s.jsonl", hidden=9).tolist() == [[9, 1], [2, 9]]
    with pytest.raises(UnmaskError, match=r"line 1: entry \[0\] is null; expected a whole number"):
        read_tokens(tmp_path / "s.jsonl")


def test_where_the_given_tokens_lie(tmp_path):
    assert given_path("some/samples.npy") == Path("some/samples.given.npy")
    path, given = tmp_path / "s.jsonl", torch.tensor([[1, 4], [4, 4]])
    assert read_given(path, {}) is None
    write_tokens(given_path(path), given)
    assert torch.equal(read_given(path, {"given_sha256": digest(given)}), given)
    with pytest.raises(UnmaskError, match=r"does not match the account of .* by --given"):
        read_given(path, {"given_sha256": "0"})


def header(text, version=1):
    """A .npy file with this header and twelve bytes behind it."""
    body = text.encode("latin-1") if isinstance(text, str) else text
    size = len(body).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + body + bytes(12)


GOOD_HEADER = "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4)}\n"


def test_a_header_of_ours_is_read(tmp_path):
    (tmp_path / "s.npy").write_bytes(header(GOOD_HEADER))
    assert torch.equal(read_tokens(tmp_path / "s.npy"), torch.zeros(3, 4, dtype=torch.int64))
    (tmp_path / "s.npy").write_bytes(header(GOOD_HEADER, 2))
    assert read_tokens(tmp_path / "s.npy").shape == (3, 4)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000,
        "\x00" * 50,
        GOOD_HEADER.replace("(3, 4)", "(3, 3)"),
        GOOD_HEADER.replace("(3, 4)", f"({10**18}, {10**18})"),
        GOOD_HEADER.replace("(3, 4)", "(3.0, 4.0)"),
        GOOD_HEADER.replace("'|u1'", "__import__('os').system('touch here')"),
        "",
    ],
)
def test_headers_that_are_spoiled(tmp_path, text):
    (tmp_path / "s.npy").write_bytes(header(text))
    refuses(tmp_path / "s.npy", "")
    assert os.listdir(tmp_path) == ["s.npy"]


@pytest.mark.parametrize("suffix", [".npy", ".jsonl"])
def test_no_pipe_is_waited_for_and_no_hole_is_read(tmp_path, suffix):
    path = tmp_path / f"s{suffix}"
    os.mkfifo(path)
    refuses(path, "it is a pipe")
    path.unlink()
    with path.open("wb") as file:
        whole = GOOD_HEADER.replace("(3, 4)", f"({10**10}, 100)")
        file.write(header(whole) if suffix == ".npy" else b"")
        file.truncate((10**12 if suffix == ".npy" else 2 * 10**12) + max(file.tell() - 12, 0))
    refuses(path, "which fit into the" if suffix == ".npy" else "it has 2 TB")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": [1]}, "source "),
        ({"origin": 3}, "origin "),
        ({"origin": {"code": "\x1b[31m"}}, "origin.code "),
        ({"given_sha256": 3}, "given_sha256 "),
    ],
)
def test_accounts_that_are_spoiled(path, change, words):
    tokens = torch.zeros(1, 2, dtype=torch.int64)
    write_tokens(path, tokens)
    account_path(path).write_text(json.dumps({"tokens_sha256": digest(tokens)} | change))
    with pytest.raises(UnmaskError) as caught:
        read_account(path, tokens)
    assert words in str(caught.value)
