"""Every input that ever broke the promise keeps it now."""

from __future__ import annotations

import pytest

from tests.hostile.cases import cases

CASES = cases()
KINDS = ("score", "lines", "given", "acct", "rec", "sw", "net", "text", "st", "gen", "train", "draw", "logs")
GROUPS: dict[str, list[str]] = {}
for _name in CASES:
    GROUPS.setdefault(next((kind for kind in KINDS if _name.startswith(f"{kind}_")), "others"), []).append(_name)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("group", GROUPS)
def test_what_once_broke_the_promise(keeps, group):
    wrong = {}
    for name in GROUPS[group]:
        ran = keeps(CASES[name])
        if ran.wrong:
            wrong[name] = f"{'; '.join(ran.wrong)}: {ran.err[-500:]}"
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())
