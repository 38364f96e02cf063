"""Evaluations from the first item to the verdict: what is kept, what is gone on with, and what bad input gets."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.tasks import asked as asked  # registers its tasks
from unmask.core.errors import UnmaskError
from unmask.experiments import sweep
from unmask.experiments.store import FILES
from unmask.models.open import load_model
from unmask.tasks import TASKS
from unmask.tasks.evaluation import Settings, compare, evaluate, groups, read
from unmask.tasks.evaluation.compare import advise
from unmask.tasks.evaluation.records import RECORDS
from unmask.tasks.evaluation.run import MOST, NO_ANSWER, checked
from unmask.tasks.evaluation.table import summary, table
from unmask.tasks.sample import TOO_LONG, Sample
from unmask.tasks.writing import How, Writer

LISTS = "lists(shots=0, low=2, high=2, many=12)"


def settings(**more):
    return Settings(**({"task": LISTS, "model": "m", "card": "m.json", "length": (6,), "batch": 3, "limit": 6} | more))


def untimed(samples):
    """What no clock has a part in."""
    kept = []
    for sample in samples:
        fields = {name: getattr(sample, name) for name in sample.__struct_fields__}
        kept.append(fields | {"seconds": None, "memory": None})
    return kept


def test_one_record_a_sample(here):
    made = evaluate(settings(steps=(2, 6), causal_model="a", causal_card="a.json"), out="o", engine="here")
    assert [len(group.samples) for group in made.groups] == [6, 6, 6]
    assert read("o") == made.samples
    task = TASKS.make(LISTS)
    for sample in made.samples:
        assert sample.about["task"] == LISTS
        assert sample.about["model"]["card"] in ("small-llada", "small-reader")
        assert sample.about["how"]["length"] == 6
        assert len(sample.tokens) == len(sample.order) <= 6
        assert sample.prompt_tokens > 20
        assert sample.needed <= 7
        assert sample.batch == 3
        assert sample.seconds > 0
        assert sample.flops > 0
        assert (sample.right, bool(sample.why)) in ((True, False), (False, True))
        item = task.items(None)[int(sample.item)]
        assert sample.prompt == "".join(sign if sign in SIGNS else "?" for sign in task.prompt(item))
    for steps, group in zip((2, 6), made.groups, strict=False):
        for sample in group.samples:
            if sample.reason == "filled":
                assert sample.model_calls == {"denoiser": steps}
    assert [sample.row for sample in made.groups[0].samples] == list(range(6))


SIGNS = "abcdefghijklmnopqrstuvwxyz ?\n0123"


def test_a_row_does_not_depend_on_its_batch_nor_on_where_it_was_stopped(here):
    whole = evaluate(settings(limit=7, batch=7, temperature=(1.0,)), out="whole", engine="here")
    part = evaluate(settings(limit=3, batch=2, temperature=(1.0,)), out="part", engine="here")
    before = sorted((Path("part") / FILES).rglob("*.jsonl"))
    kept = [path.read_bytes() for path in before]
    rest = evaluate(settings(limit=7, batch=2, temperature=(1.0,)), out="part", engine="here")
    assert [path.read_bytes() for path in before] == kept  # what was written stays, and is not written again
    assert [sample.tokens for sample in part.samples] == [sample.tokens for sample in rest.samples][:3]
    assert [sample.tokens for sample in whole.samples] == [sample.tokens for sample in rest.samples]
    assert len({tuple(sample.tokens) for sample in whole.samples}) > 1


def test_samples_of_an_item(here):
    made = evaluate(settings(each=3, limit=4, temperature=(1.0,)), out="o", engine="here")
    (group,) = made.groups
    assert {name: [sample.number for sample in own] for name, own in group.items.items()} == {
        str(item): [0, 1, 2] for item in range(4)
    }


def test_ends_are_stopped_at_filled_forbidden_or_last(here):
    model = load_model("m", card="m.json")
    task = TASKS.make("blank")
    items = task.items(None)[:24]
    ends = {1, 2}
    made = {
        eos: Writer(model, task, How(length=24, sampler="left-to-right", steps=24, temperature=2.0, eos=eos))(
            items, [0] * 24, 0, 5
        )
        for eos in ("stop", "fill", "never")
    }
    for sample in made["stop"]:
        assert not ends & set(sample.tokens[:-1])
        if sample.reason == "stopped":
            assert sample.tokens[-1] in ends
            assert sample.needed == len(sample.tokens)
    assert any(sample.reason == "stopped" for sample in made["stop"])
    for sample in made["fill"]:
        assert sample.needed == 24
        assert not ends & set(sample.tokens[:-1])
        assert sample.text == model.tokenizer.written(token for token in sample.tokens if token not in ends)
    assert any(len(sample.tokens) < 24 for sample in made["fill"])
    how = How(length=24, sampler="low-confidence", steps=24, temperature=2.0, eos="last")
    for sample in Writer(model, task, how)(items, [0] * 24, 0, 5):
        others = [order for order, token in zip(sample.order, sample.tokens, strict=True) if token not in ends]
        assert all(
            order >= max(others, default=0)
            for order, token in zip(sample.order, sample.tokens, strict=True)
            if token in ends
        )
    with pytest.raises(UnmaskError, match="eos=last is not possible with sampler margin"):
        Writer(model, task, How(sampler="margin", eos="last"))
    for sample in made["never"]:
        assert len(sample.tokens) == 24
        assert not ends & set(sample.tokens)


def test_prompts_that_are_too_long_are_kept_and_not_in_the_accuracy(here):
    lines = ["a" * 10, "b" * 5000, "c" * 20]
    Path("p.jsonl").write_text("\n".join(json.dumps({"question": line, "answer": "#### 1"}) for line in lines))
    wanted = settings(task="asked", data="p.jsonl", limit=None, batch=3)
    made = evaluate(wanted, out="o", engine="here")
    assert [sample.reason == "prompt too long" for sample in made.samples] == [False, True, False]
    assert made.samples[1].right is None
    (group,) = made.groups
    assert (group.accuracy.n, group.reasons) == (2, {NO_ANSWER: 2})
    assert re.fullmatch(r"1 of 3 prompts too long for the context \([\d,]+ tokens\)", group.too_long)
    assert compare(group.written, group.written).items == 2
    alone = evaluate(settings(task="asked", data="p.jsonl", limit=None, batch=1), out="alone", engine="here")
    assert [sample.tokens for sample in alone.samples] == [sample.tokens for sample in made.samples]


def test_nothing_is_written_where_the_first_prompts_are_all_too_long(here):
    lines = ["b" * 5000] * 20
    Path("p.jsonl").write_text("\n".join(json.dumps({"question": line, "answer": "#### 1"}) for line in lines))
    wanted = settings(task="asked", data="p.jsonl", limit=None, batch=3)
    with pytest.raises(UnmaskError, match=r"16 of the first 16 prompts too long for the context \(.* tokens\) with 6"):
        evaluate(wanted, out="o", engine="here")


def test_what_was_not_written_was_not_measured():
    """An accuracy of 0 would be an answer; advice, comparison and table have none."""
    about = {"task": "sums", "data": "", "model": {"card": "m", "dtype": "f"}, "context": 2048}
    how = {"length": 4, "until": [], "sampler": "llada"}
    empty = {"prompt": "", "prompt_sha256": "", "prompt_tokens": 0, "tokens": [], "order": [], "text": ""}
    cost = {"model_calls": {}, "forwards": 0, "flops": 0.0, "seconds": 0.0, "memory": None, "batch": 0}
    unasked = [
        Sample(item=str(k), number=0, row=k, about=about | {"how": how}, reason=TOO_LONG, **empty, **cost)
        for k in range(20)
    ]
    found = groups(unasked)
    assert found[0].accuracy is None
    assert summary(found)[0]["not_measured"] == "20 of 20 prompts too long for the context (2,048 tokens)"
    assert "not measured" in table(found)[2][0]
    with pytest.raises(
        UnmaskError, match=r"no setting was measured: m, llada: 20 of 20 prompts too long for the context"
    ):
        advise(found, 0.5)
    with pytest.raises(UnmaskError, match="no items in common"):
        compare(found[0].written, found[0].written)


def test_another_data_set_under_the_same_name(here):
    Path("p.jsonl").write_text('{"question": "a", "answer": "#### 1"}')
    wanted = settings(task="asked", data="p.jsonl", limit=None)
    evaluate(wanted, out="o", engine="here")
    Path("p.jsonl").write_text('{"question": "b", "answer": "#### 1"}')
    with pytest.raises(UnmaskError, match=r"o has records of items \w{16} and not \w{16}: another file under the same"):
        evaluate(wanted, out="o", engine="here")
    assert [sample.prompt for sample in read("o")] == ["?uestion? a\n?nswer?"]


def test_more_rows_than_there_are_items(here):
    recipe = {"jobs": ["evaluation"], "rows": 13, "fixed": {"task": LISTS, "model": "m", "card": "m.json"}}
    with pytest.raises(UnmaskError, match=r"row 13 is beyond the end of .* at most 12 rows"):
        sweep(recipe, store="s")


def test_a_text_longer_than_was_asked_for_is_read_in_part(here, capsys):
    """Seven million characters held the grader of sums for minutes, at each resume again."""
    made = Writer(load_model("m", card="m.json"), TASKS.make("sums"), How(length=8, steps=8))
    item = TASKS.make("sums").items(None)[0]
    (sample,) = made([item], [0], 0, 1)
    late = msgspec.structs.replace(sample, text=f"{' ' * 8 * MOST}{item.row.solution}")
    long = msgspec.structs.replace(sample, text=item.row.solution + "+0" * 3_500_000)
    found = checked([long, late], "sums", [item])
    assert [one.right for one in found] == [False, False]
    assert [one.answer for one in found] == [(item.row.solution + "+0" * 4 * MOST)[: 8 * MOST].strip("+"), None]
    assert (
        "sums: 2 of 2 answers are longer than was asked for; only the first 128 characters" in capsys.readouterr().err
    )
    assert TASKS.make("sums").values(item, long.text, long.text)["every_step"] == 0


KILLED = """
import sys
from unmask.tasks.evaluation import Settings, evaluate
wanted = Settings(task={task!r}, model="m", card="m.json", length=(6,), batch=1, limit=12, temperature=(1.0,))
evaluate(wanted, out="killed", engine="here")
"""


@pytest.mark.long
def test_killed_and_gone_on_with_it_is_the_same(here):
    whole = evaluate(settings(limit=12, batch=1, temperature=(1.0,)), out="whole", engine="here")
    process = subprocess.Popen([sys.executable, "-c", KILLED.format(task=LISTS)], stderr=subprocess.PIPE)
    files = Path("killed") / FILES
    limit = time.monotonic() + 300
    while len(list(files.rglob("*.jsonl"))) < 3 and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    there = {path: path.stat().st_mtime_ns for path in files.rglob("*.jsonl")}
    assert there
    assert not (Path("killed") / RECORDS).exists() or len(there) == 12
    made = evaluate(settings(limit=12, batch=1, temperature=(1.0,)), out="killed", engine="here")
    assert untimed(made.samples) == untimed(whole.samples)
    again = [path for path, when in there.items() if path.stat().st_mtime_ns != when]
    assert len(again) <= 1  # what was being written when it was killed
