"""The same bits as recorded: tokens, orders, model calls of every sampler, and what languages and metrics say."""

from __future__ import annotations

import pytest

from tests import golden

RECORDED = golden.recorded()
CASES: dict[str, dict[str, object]] = {}
for what, case, ask in golden.cases():
    CASES.setdefault(what, {})[case] = ask


def test_every_sampler_has_digests():
    new = [name for name in golden.samplers() if name not in RECORDED]
    assert not new, f"no digests of the sampler {', '.join(new)}; record them: {golden.COMMAND}"


LANGUAGES = [what for what in RECORDED if what.startswith("language ")]
SAMPLERS = [what for what in RECORDED if what not in LANGUAGES]


@pytest.mark.parametrize("what", LANGUAGES)
def test_a_language_says_what_was_recorded(what):
    compare(what, slice(None))


@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("what", SAMPLERS)
def test_a_sampler_writes_what_was_recorded(what, first):
    """Every other case of each sampler, which are all languages for the samplers together; the rest is a long test."""
    compare(what, slice(first, None, 2))


def compare(what: str, part: slice) -> None:
    recorded, cases = RECORDED[what], list(CASES[what].items())[part]
    found = {case: golden.difference(recorded.get(case), golden.answer(ask)) for case, ask in cases}
    changed = [f"{what} | {case}: {parts}" for case, parts in found.items() if parts]
    assert not changed, "\n".join(changed)


def test_the_cases_are_those_recorded():
    """A change of golden.py that deals out other cases."""
    assert {what: list(cases) for what, cases in RECORDED.items()} == {what: list(CASES[what]) for what in RECORDED}
