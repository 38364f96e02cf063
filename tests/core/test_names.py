"""Names with options: what is read, what is suggested, and that nothing but an UnmaskError ever comes out."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unmask.core.errors import UnmaskError
from unmask.core.registry import Registry
from unmask.core.specs import parse
from unmask.samplers import SAMPLERS
from unmask.samplers.rules.blocks import Blocks
from unmask.samplers.schedules import SCHEDULES

EXAMPLES = settings(max_examples=500)


def shapes():
    registry = Registry("shape")

    @registry.register("square")
    def square(unit, side=1.0, colour="red"):
        """Four equal sides.

        And more.
        """
        return unit, side, colour

    @registry.register("point")
    def point(unit):
        return unit

    return registry


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("square", "square", {}),
        ("  square ", "square", {}),
        ("square()", "square", {}),
        ("square( side = 2 )", "square", {"side": 2}),
        ("square(side=2.5, colour=blue)", "square", {"side": 2.5, "colour": "blue"}),
        ("square(side=-1e-3,)", "square", {"side": -0.001}),
        ("square(colour='dark blue')", "square", {"colour": "dark blue"}),
        ('square(colour="a)b,c=d")', "square", {"colour": "a)b,c=d"}),
        ("square(side=None, colour=True)", "square", {"side": None, "colour": True}),
        ("square(side=[1, 2.0, (3,)])", "square", {"side": [1, 2.0, (3,)]}),
        ("square(colour=dark-sea-blue)", "square", {"colour": "dark-sea-blue"}),
        ("square(colour=blue(side=2))", "square", {"colour": "blue(side=2)"}),
        (
            "square(colour=dark-blue(of='a b', to=deep-sea()))",
            "square",
            {"colour": "dark-blue(of='a b', to='deep-sea()')"},
        ),
        ("theorem-4.2(order=3)", "theorem-4.2", {"order": 3}),
    ],
)
def test_parse(text, name, options):
    assert parse("shape", text) == (name, options)


@pytest.mark.parametrize(
    "text",
    [
        "square(",
        "square(side=2))",
        "square(side=)",
        "square(side=f(2))",
        "square(side=a-b.c)",
        "square(side=__import__('os'))",
        "square(**sides)",
        "square(side=\0)",
    ],
)
def test_what_cannot_be_read_says_how_to_write_it(text):
    with pytest.raises(UnmaskError, match=r"cannot read shape .*; write name or name\(option=value, \.\.\.\)"):
        parse("shape", text)


@pytest.mark.parametrize("value", ["(" * 500, "-" * 10**5 + "1"])
def test_what_is_too_long_or_too_deep_is_not_read(value):
    with pytest.raises(UnmaskError, match=r"shape .* is too long or too deep; expected at most"):
        parse("shape", f"square(side={value})")


code = st.text("abx(=,)[]{}:'\"\\1.5e-+*#_ \n", max_size=20).map("square(side={}".format)


@EXAMPLES
@given(st.text() | code)
@example("(")
@example("")
@example("square(side=\ud800)")
def test_any_text_is_read_or_refused(text):
    """parse gives a name and options, make makes something: or an UnmaskError, and never another exception."""
    try:
        name, options = parse("shape", text)
    except UnmaskError:
        pass
    else:
        assert isinstance(name, str)
        assert all(isinstance(option, str) for option in options)
    for registry, arguments in ((shapes(), (1,)), (SCHEDULES, (4,)), (SAMPLERS, ())):
        with suppress(UnmaskError):
            registry.make(text, *arguments)


def test_make():
    registry = shapes()
    assert registry.make("square", "cm") == ("cm", 1.0, "red")
    assert registry.make("square(colour=blue, side=2)", "cm") == ("cm", 2, "blue")
    assert registry.make("point()", "mm") == "mm"
    assert SAMPLERS.make("blocks(block_length=16)") == Blocks(block_length=16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sqare", "unknown shape 'sqare'; did you mean square?"),
        ("Square", "unknown shape 'Square'; did you mean square?"),
        ("xyz", "unknown shape 'xyz'; known: point, square"),
        ("", "unknown shape ''; known: point, square"),
        ("square(color=blue)", "unknown option of shape 'square': 'color'; did you mean colour?"),
        ("square(q=1)", "unknown option of shape 'square': 'q'; known: colour, side"),
        ("square(unit=1)", "unknown option of shape 'square': 'unit'; known: colour, side"),
        ("point(side=1)", "shape 'point' has no options, but 'side' was given"),
    ],
)
def test_unknown_names_and_options(text, message):
    with pytest.raises(UnmaskError) as caught:
        shapes().make(text, "cm")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text",
    [
        "blocks(block_length=two)",
        "blocks(block_length=None)",
        "blocks(block_length=2.5)",
        "low-confidence(temperature=hot)",
        "low-confidence(ties=1)",
        "speculative(draft_length=few)",
    ],
)
def test_an_option_of_the_wrong_type_is_a_mistake_of_the_caller(text):
    with pytest.raises(UnmaskError):
        SAMPLERS.make(text)


def test_about_is_the_first_line_of_each_docstring():
    assert shapes().about() == {"square": "Four equal sides.", "point": ""}
    assert all(line.endswith(".") for registry in (SCHEDULES, SAMPLERS) for line in registry.about().values())
