"""Messages, help, docstrings, documents and pages are in the language of CONTRIBUTING.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import style


def test_texts_and_names_follow_the_style():
    faults = style.all_violations(style.files())
    assert not faults, "\n".join(map(str, faults[:50]))


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("The law of a row under the sampler.", "distribution"),
        ("What the row needs.", "the noun first"),
        ("Whoever calls it twice gets the same luck.", "randomness"),
        ("The file says what is wrong.", "shows"),
        ("rows of yours", "your"),
        ("It is no number.", "is not"),
        ("A share of the rows is wrong.", "fraction"),
        (" ".join(["word"] * 36), "two sentences"),
    ],
)
def test_the_rules_see_what_they_name(text, instead):
    faults = list(style.violations(style.Text(Path(__file__), 1, text)))
    assert any(instead in fault.instead for fault in faults)


@pytest.mark.parametrize(
    "text",
    [
        "There is no file. Pass --out FILE.",
        "The law of large numbers and Zipf's law keep their names.",
        "What is a model call?",
        "Two processes share a lock.",
        "Round to four digits; a round trip; in place of `rounds`.",
    ],
)
def test_the_rules_let_good_sentences_pass(text):
    read = style.of_markdown(text)
    assert not [fault for line, part in read for fault in style.violations(style.Text(Path(__file__), line, part))]


def test_code_is_not_read(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Use `luck`.\n\n```python\nluck = 1\n```\n\n| `law` | text |\n")
    assert not [fault for text in style.texts(page) for fault in style.violations(text)]
