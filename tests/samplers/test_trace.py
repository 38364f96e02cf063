"""Traces: what a generation has done and when, as a file, and what is refused of one."""

from __future__ import annotations

import json

import pytest
import torch

from unmask import generate, languages
from unmask.core.errors import UnmaskError
from unmask.samplers.trace import Row, read

LANGUAGE = languages.load("paper-2gram")


def test_a_file_is_read_as_it_was_written(tmp_path):
    given = torch.full((10,), LANGUAGE.vocabulary)
    given[3] = 0
    made = generate(LANGUAGE, given=given, steps=3, rows=3, seed=2)
    trace = made.trace([2, 0])
    assert (len(trace.rows), trace.rows[1].given, trace.sampler) == (2, [(3, 0)], "ancestral")
    trace.write(tmp_path / "t.json")
    found = read(tmp_path / "t.json")
    assert [row.final for row in found.rows] == [row.final for row in trace.rows]
    for ours, theirs in zip(trace.rows, found.rows, strict=True):
        assert [event[:3] for event in ours.events] == [event[:3] for event in theirs.events]
        assert [event[3] for event in ours.events] == pytest.approx([event[3] for event in theirs.events], rel=1e-8)


def test_a_row_takes_a_few_kilobytes(tmp_path):
    generate(LANGUAGE, length=128, steps=16, rows=1).trace().write(tmp_path / "t.json")
    assert (tmp_path / "t.json").stat().st_size < 6000


def test_rows_that_have_ended_are_as_long_as_that():
    made = generate(LANGUAGE, length=12, sampler="autoregressive", stop=0, rows=6, seed=1)
    assert [row.length for row in made.trace().rows] == made.lengths.tolist()
    assert int(made.lengths.min()) < 12


def test_what_tokens_look_like():
    made = generate(LANGUAGE, length=3, rows=1)
    assert made.trace().symbol(2) == "c"
    assert made.trace(symbols="ABCDEFGH").symbol(2) == "C"
    assert made.trace(symbols=lambda token: f"<{token}>").symbols == [f"<{token}>" for token in range(8)]
    sums = languages.load("modular-sum")
    assert generate(sums, length=5, rows=1).trace().symbols == list(sums.names or ())


def test_many_symbols_are_told_where_they_are_used(monkeypatch):
    monkeypatch.setattr("unmask.samplers.result.MOST_SYMBOLS", 4)
    made = generate(LANGUAGE, length=3, rows=1)
    assert made.trace(symbols="ABCDEFGH").symbols == {
        str(token): "ABCDEFGH"[token] for token in sorted(set(made.tokens[0].tolist()))
    }


def test_what_was_taken_back_is_kept_where_that_is_asked():
    made = generate(LANGUAGE, length=8, sampler="gibbs", rows=2)
    with pytest.raises(UnmaskError, match=r"not recorded; .* Call generate\(.., trace=True\)"):
        made.trace()
    with pytest.raises(UnmaskError, match="row is 5; expected"):
        generate(LANGUAGE, length=8, rows=2).trace([5])


GOOD = {"length": 4, "given": [[0, 1]], "events": [[1, 1, 2, 0.5], [2, 2, 0, 0.25], [3, 2, None, None], [3, 2, 1, 1.0]]}


def _file(tmp_path, row=None, **changes):
    content = {"format": "unmask-trace", "version": 1, "vocabulary": 3, "rows": [GOOD | (row or {})]} | changes
    path = tmp_path / "t.json"
    path.write_text(json.dumps(content))
    return path


def test_written_over_means_hidden_and_revealed(tmp_path):
    row = read(_file(tmp_path)).rows[0]
    assert row.final == {0: 1, 1: 2, 2: 1}
    last = list(row.steps())[-1]
    assert (last.revealed, last.hidden, last.context) == ((2,), (2,), {0: 1, 1: 2})


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ("MOST_PLACES", "t.json, rows: 4 positions in all; expected at most 3. Use fewer rows"),
        ("MOST_LOOKS", "t.json, row 0: 12 steps times positions; expected at most 3. Shorten the row"),
    ],
)
def test_a_file_that_would_take_too_long_is_refused(tmp_path, monkeypatch, bound, said):
    monkeypatch.setattr(f"unmask.samplers.trace.{bound}", 3)
    with pytest.raises(UnmaskError, match=said):
        read(_file(tmp_path))


@pytest.mark.parametrize(
    ("row", "changes", "said"),
    [
        (None, {"format": "x"}, 't.json is not a trace; expected "format": "unmask-trace"'),
        (None, {"vocabulary": 0}, "vocabulary does not fit; expected a whole number >= 1"),
        (None, {"symbols": ["a"]}, "t.json, symbols: there are 1; expected 3, one per token"),
        (
            {"events": [[1, 1, 0, 0.5], [1, 1, 2, 0.5]]},
            {},
            "row 0, event 1: step 1 reveals position 1, which is not hid",
        ),
        ({"events": [[1, 1, None, None]]}, {}, "event 0: step 1 hides position 1, which is hidden already"),
        ({"events": [[1, 4, 1, 0.5]]}, {}, "event 0: position is 4; expected 0 to 3, a position of this row"),
        ({"events": [[1, 1, 1, 0.0]]}, {}, "event 0: the probability is 0.0; expected a number above 0, at most 1"),
        ({"given": [[9, 1]]}, {}, "row 0, given 0: position is 9; expected 0 to 3"),
    ],
)
def test_a_file_that_cannot_be_is_refused_in_one_line(tmp_path, row, changes, said):
    with pytest.raises(UnmaskError) as refused:
        read(_file(tmp_path, row, **changes))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_file(tmp_path):
    with pytest.raises(UnmaskError, match=r"cannot read .*nowhere\.json: No such file"):
        read(tmp_path / "nowhere.json")


def test_a_row_of_nothing_has_no_rounds():
    assert list(Row(length=2, events=[]).steps()) == []
