"""Two ways on the same items: the verdict is right as often as it says, by enumeration."""

from __future__ import annotations

from math import comb

import pytest
from scipy.stats import binomtest

from unmask.core.errors import UnmaskError
from unmask.tasks import sample as samples
from unmask.tasks.evaluation import compare, records
from unmask.tasks.evaluation.compare import LEVEL, advise, compare_shares, mcnemar
from unmask.tasks.evaluation.records import groups, labels
from unmask.tasks.evaluation.table import table
from unmask.tasks.sample import Sample

MODEL = {"card": "m", "dtype": "float32", "cache": "none"}


def sample(item, right, number=0, sampler="llada", steps=8, seconds=1.0, flops=1.0, model="m"):
    how = {"sampler": sampler, "steps": steps, "length": 8, "until": []}
    about = {"task": "gsm8k", "data": "d", "model": MODEL | {"card": model}, "how": how}
    fields = {"prompt": "", "prompt_sha256": "", "prompt_tokens": 1, "tokens": [1], "order": [1], "reason": "filled"}
    fields |= {"model_calls": {"denoiser": steps or 8}, "forwards": 1, "memory": None, "batch": 1, "text": ""}
    return Sample(
        item=str(item),
        number=number,
        row=10 * item + number,
        about=about,
        right=right,
        seconds=seconds,
        flops=flops,
        **fields,
    )


def many(rights, **how):
    return [sample(item, right, **how) for item, right in enumerate(rights)]


def pair(both, first, second, neither):
    one = [True] * both + [True] * first + [False] * second + [False] * neither
    other = [True] * both + [False] * first + [True] * second + [False] * neither
    return many(one), many(other)


def test_false_alarms_by_enumeration():
    """Where neither is better a verdict is given in at most 5% of cases, however many items differ."""
    largest = 0.0
    for d in range(1, 101):
        alarms = sum(comb(d, b) * 0.5**d for b in range(d + 1) if mcnemar(b, d - b) <= LEVEL)
        assert alarms <= LEVEL
        largest = max(largest, alarms)
    assert largest > 0.04
    for b, c in ((0, 0), (3, 3), (1, 8), (12, 5)):
        assert mcnemar(b, c) == pytest.approx(binomtest(b, b + c).pvalue if b + c else 1.0)


def test_the_verdict_and_its_interval_say_the_same():
    for b in range(12):
        for c in range(12):
            found = compare(*pair(20, b, c, 10))
            assert found.items == 30 + b + c
            assert found.difference.value == pytest.approx((b - c) / found.items)
            outside = found.difference.low > 0 or found.difference.high < 0
            assert (found.verdict != "not distinguishable") == outside == (found.p <= LEVEL)
            assert found.verdict == ("better" if outside and b > c else "worse" if outside else "not distinguishable")


@pytest.mark.parametrize(
    ("ahead", "behind", "low", "high"),
    [(120, 0, 0.1668, 0.2343), (0, 0, -0.0061, 0.0061), (6, 0, 0.0008, 0.0216), (5, 0, -0.0004, 0.0193)],
)
def test_the_interval_knows_that_the_number_of_items_that_differ_is_random(ahead, behind, low, high):
    """6 of 600 ahead and none behind is a verdict (p = .031), 5 is none (p = .063)."""
    found = compare_shares([(1.0, 0.0)] * ahead + [(0.0, 1.0)] * behind + [(1.0, 1.0)] * (600 - ahead - behind))
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high), abs=6e-5)
    assert (found.p <= LEVEL) == (low > 0)


def test_how_many_items_would_decide():
    """At that many items such differences are seen four times in five, by the exact distribution of what differs."""
    found = compare(*pair(40, 12, 6, 42))
    assert found.verdict == "not distinguishable"
    n, b, c = found.enough, 0.12, 0.06
    seen = 0.0
    for d in range(n + 1):
        weight = comb(n, d) * (b + c) ** d * (1 - b - c) ** (n - d)
        if weight > 1e-12:
            share = b / (b + c)
            tail = (comb(d, k) * share**k * (1 - share) ** (d - k) for k in range(d + 1) if mcnemar(k, d - k) <= LEVEL)
            seen += weight * sum(tail)
    assert 0.74 < seen < 0.85
    assert compare(*pair(5, 3, 3, 5)).enough is None
    alike = compare_shares([(0.4925, 0.5)] * 200)  # a difference that never varies, which the formula takes for seen
    assert (alike.verdict, alike.enough) == ("not distinguishable", None)


def test_several_samples_of_an_item():
    one = [sample(item, number < 3, number) for item in range(30) for number in range(4)]
    other = [sample(item, number < 1, number) for item in range(30) for number in range(4)]
    found = compare(one, other)
    assert (found.verdict, found.p, found.first_alone) == ("better", None, 30)
    assert found.difference.low <= 0.5 <= found.difference.high
    assert compare(other, one).verdict == "worse"
    assert compare(one, one).verdict == "not distinguishable"


def test_each_cell_is_under_its_heading_where_settings_have_other_numbers_of_samples():
    """pass@k of one setting is no column of the other, and moves none of its numbers."""
    thrice = [sample(item, number < 1, number, steps=16) for item in range(30) for number in range(3)]
    _, head, rows = table(groups([*many([True] * 30, steps=8), *thrice]))
    first, second = (dict(zip(head, row, strict=True)) for row in rows)
    assert (first["model calls"], second["model calls"]) == ("8", "16")
    assert (first["pass@3"], second["pass@3"][:6]) == ("", "100.0%")


def test_what_cannot_be_compared():
    with pytest.raises(UnmaskError, match="no items in common"):
        compare(many([True]), [sample(7, True)])
    with pytest.raises(UnmaskError, match="item 0 has no verdict"):
        compare(many([None]), many([True]))


def test_labels_tell_settings_apart():
    found = groups(
        [
            *many([True] * 2, steps=8),
            *many([False] * 2, steps=16),
            *many([True] * 2, sampler="autoregressive", steps=None, model="a"),
        ]
    )
    assert labels(found) == ["m, llada, steps=8", "m, llada, steps=16", "a, autoregressive"]


RIGHT = [True] * 90 + [False] * 10
HALF = [True] * 50 + [False] * 50


def test_advice_takes_the_fastest_that_reaches_the_target():
    slow, fast = many(RIGHT, steps=64, seconds=8.0, flops=8.0), many(HALF, steps=8, seconds=1.0, flops=1.0)
    reader = many(RIGHT, sampler="autoregressive", steps=None, seconds=2.0, flops=2.0, model="a")
    found = advise(groups([*slow, *fast, *reader]), 0.8)
    assert found.best is found.reader
    assert "AR is the better choice: the masked model takes 4 times as long" in found.text
    assert found.at_time.label == "m, llada, steps=8"
    assert found.at_flops.label == "m, llada, steps=8"
    found = advise(groups([*slow, *fast, *reader]), 0.3)
    assert found.best.label == "m, llada, steps=8"
    assert "the masked model is the better choice: AR takes 2 times as long" in found.text
    found = advise(groups([*slow, *fast, *reader]), 0.8, budget=1.5)
    assert found.best is None
    assert found.text.startswith("no measured setting is right in 80% within 1.5 s per sample")
    found = advise(groups(slow), 0.9)
    assert found.best.standing == "may meet"
    assert "no AR model in these records" in found.text
    assert "no masked model in these records does" in advise(groups([*fast, *reader]), 0.8).text


def test_advice_needs_records_with_verdicts():
    with pytest.raises(UnmaskError, match="there are no records"):
        advise([], 0.5)
    with pytest.raises(UnmaskError, match="none of these records has a verdict"):
        advise(groups(many([None])), 0.5)
    with pytest.raises(UnmaskError, match="target is 2"):
        advise(groups(many([True])), 2.0)


WRONG = [  # where in `about`, what stands there, and what is said of it; None: nothing stands there
    (("model",), 5, "about.model"),
    (("model", "card"), [1], "about.model.card"),
    (("model", "revision"), 5, "about.model.revision"),
    (("how",), [], "about.how"),
    (("how", "sampler"), None, "sampler"),
    (("how", "sampler"), 5, "about.how.sampler"),
    (("how", "length"), "9", "about.how.length"),
    (("how", "until"), "x", "about.how.until"),
    (("how", "steps"), {}, "about.how.steps"),
    (("how", "temperature"), "hot", "about.how.temperature"),
    (("task",), None, "task"),
    (("data",), 5, "about.data"),
]


@pytest.mark.parametrize("command", ["show", "compare", "plan"])
@pytest.mark.parametrize(("place", "value", "says"), WRONG)
def test_records_with_wrong_nested_values_are_refused_in_one_line(place, value, says, command, tmp_path, capsys):
    from unmask.cli.main import main

    right, wrong = sample(0, True), sample(1, False)
    *outer, last = place
    inner = wrong.about
    for name in outer:
        inner[name] = dict(inner[name])
        inner = inner[name]
    inner.pop(last, None)
    if value is not None:
        inner[last] = value
    file = tmp_path / "records.jsonl"
    samples.write(file, [right, wrong])
    words = {"show": ["eval", "show", str(file)], "compare": ["eval", "compare", str(file), str(file)]}
    words |= {"plan": ["plan", "--results", str(file), "--target", "0.5"]}
    assert main(words[command]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error
    assert "line 2" in error


def test_torn_records_of_a_store_say_how_to_make_them_again(tmp_path):
    file = tmp_path / "records.jsonl"
    samples.write(file, many([True, False]))
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(UnmaskError, match="line 2") as found:
        records.read(tmp_path)
    assert "eval check" not in str(found.value)
    (tmp_path / "files").mkdir()
    for of in (tmp_path, file):
        with pytest.raises(UnmaskError, match=r"line 2.*; `unmask eval check .*` writes it again"):
            records.read(of)
