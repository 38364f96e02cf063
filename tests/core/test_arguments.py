"""What is let in, as what, and what is said of the rest."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.core import arguments, memory
from unmask.core.errors import MESSAGE, SHOWN, UnmaskError, cut, plain, shown, unknown

WHOLE = [True, 1.0, "1", None, [1], np.bool_(True), np.float64(1), torch.tensor(1), 1j]
NUMBERS = [True, "1", None, [1.0], np.bool_(True), 1j, math.nan, math.inf, -math.inf, 10**400]


def says(call, *words: str) -> None:
    with pytest.raises(UnmaskError) as caught:
        call()
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


@given(st.integers(), st.integers(), st.integers())
def test_whole_lets_in_what_lies_between(value, least, most):
    if least <= value <= most:
        assert arguments.whole("x", value, least, most) == value
    else:
        says(lambda: arguments.whole("x", value, least, most), "x is ", "expected ")


@pytest.mark.parametrize("kind", [int, np.int8, np.int64, np.uint64])
def test_whole_gives_an_int(kind):
    assert type(arguments.whole("x", kind(3))) is int


@pytest.mark.parametrize("value", WHOLE, ids=repr)
def test_whole_takes_nothing_else(value):
    says(lambda: arguments.whole("rows", value), "rows is ", "expected a whole number")


def test_whole_says_what_was_expected():
    says(lambda: arguments.whole("rows", 0), "rows is 0; expected at least 1")
    says(lambda: arguments.whole("rows", 9, 1, 4, ", one a token"), "rows is 9; expected 1 to 4, one a token")
    says(lambda: arguments.whole("length", 0, 1, 2**20), "length is 0; expected at least 1")
    says(lambda: arguments.whole("length", 2**21, 1, 2**20), "length is 2097152; expected at most 1048576")
    says(lambda: arguments.whole("rows", 2**70), "expected at most 2^63 - 1")
    says(lambda: arguments.whole("rows", 10**5000), "rows is int that cannot be shown; expected at most 2^63 - 1")


@given(st.floats(), st.floats(allow_nan=False), st.floats(allow_nan=False), st.booleans())
def test_number_lets_in_what_lies_between(value, least, most, above):
    inside = math.isfinite(value) and (least < value if above else least <= value) and value <= most
    if inside:
        assert arguments.number("x", value, least, most, above=above) == value
    else:
        says(lambda: arguments.number("x", value, least, most, above=above), "x is ", "expected ")


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: repr(value)[:9])
def test_number_takes_nothing_else(value):
    says(lambda: arguments.number("x", value), "x is ", "expected 0 or a positive number")


def test_number_keeps_an_int_and_makes_a_float_of_the_rest():
    assert [type(arguments.number("x", value)) for value in (1, 1.0, np.float32(1))] == [int, float, float]


@pytest.mark.parametrize("value", [-1e-9, 1, 1.5, math.nan, True, "0.5"])
def test_share(value):
    says(lambda: arguments.share("x", value), "expected a number from 0 to below 1")
    assert arguments.share("x", 0) == 0.0


def test_word():
    assert arguments.word("colour", "red", ("red", "blue")) == "red"
    says(lambda: arguments.word("colour", "rad", ("red", "blue")), "unknown colour 'rad'; did you mean red?")
    says(lambda: arguments.word("colour", 3, ("red", "blue")), "colour is 3; expected one of red, blue")


@pytest.mark.parametrize("value", [None, 3, b"x", "", "a\0b", ["x"]])
def test_path(value):
    assert arguments.path("out", "x") == arguments.path("out", Path("x")) == Path("x")
    says(lambda: arguments.path("out", value), "out is ", "expected a path")


def test_flag():
    assert arguments.flag("x", True) is True
    says(lambda: arguments.flag("x", 1), "x is 1; expected True or False")


@pytest.mark.parametrize("text", ["a\x1b[31m", "a\nb", "a\udc80", "\x00", "\u202e", "\x9b"])
def test_what_somebody_has_named_is_escaped(text):
    for said in (plain(text), str(UnmaskError(f"no {text} here")), shown(text), cut(text)):
        assert said.isprintable()
        said.encode()
    assert plain(plain(text)) == plain(text)
    assert plain("é [/red]") == "é [/red]"


def test_long_input_is_cut():
    assert len(shown("x" * 10**6)) < SHOWN + 10
    assert len(str(UnmaskError("x" * 10**6))) < MESSAGE + 10
    assert len(str(unknown("name", "x" * 10**6, ["xx"]))) < 2 * SHOWN
    assert shown(np.zeros((3, 4))) == "ndarray of shape (3, 4)"
    assert shown(torch.zeros(2)) == "Tensor of shape (2,)"


def test_what_does_not_fit_is_said_before_the_work(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    memory.fits(10**6, "rows of 20 tokens", 160)
    wanted = "1e+12 rows of 20 tokens need 160 TB; expected at most 6,250,000, which fit into the 1 GB available"
    says(lambda: memory.fits(10**12, "rows of 20 tokens", 160), wanted)
    says(lambda: memory.fits(10**400, "rows", 160), "more than 1e300 rows need")


def test_a_little_is_not_asked_about(monkeypatch):
    monkeypatch.setattr(memory, "available", pytest.fail)
    memory.fits(memory.SMALL // 8, "numbers", 8)


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    (tmp_path / "memory.current").write_text("300\n")
    (tmp_path / "memory.max").write_text("1000\n")
    assert memory.available() == 700
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available() > 10**6
