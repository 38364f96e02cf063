"""Results of any store: what it holds as points, pooled over randomness alone, and what is not there, said."""

from __future__ import annotations

from statistics import fmean

import pytest

from tests.tasks.evaluation.test_comparing import many
from unmask.core.errors import UnmaskError
from unmask.core.estimates import proportion
from unmask.core.files import finite, origin
from unmask.experiments.cell import SCHEMA, Cell, find
from unmask.experiments.store import Done, Failed, Planned, Run, writing
from unmask.report.metrics import METRICS
from unmask.report.results import WHO, Results, points, read
from unmask.report.select import FIELDS
from unmask.report.verdict import Shown, differs, grid
from unmask.tasks.sample import lines

SAMPLES = find("samples").fields


def cell(**fields):
    return Cell("samples", SAMPLES | {"language": "interval-5", "length": 20} | fields)


def record(measure, wrong, n=50, model_calls=4.0):
    return {"measure": measure} | finite(proportion(wrong, n).to_dict()) | {"model_calls": model_calls}


@pytest.fixture
def store(tmp_path):
    """Two seeds of one point, one of another with a temperature, a cell that failed and one that is to do."""
    cells = [cell(seed=0), cell(seed=1), cell(temperature=0.5), cell(steps=8), cell(steps=16)]
    with writing(tmp_path / "store") as made:
        made.append(Run(SCHEMA, 1.0, "code", "local", {"name": "made"}, origin()))
        made.append(*(Planned(one.key, one.stem, one.job, one.values) for one in cells))
        for wrong, one in zip((10, 30, 5), cells[:3], strict=True):
            made.append(Done(one.key, "code", 2.0, 2.0, [], [record("ser", wrong), record("model_calls", 1)]))
        made.append(Failed(cells[3].key, "code", 1, "it <broke>"))
    return tmp_path / "store"


def test_seeds_are_pooled_and_settings_are_told(store):
    found = read([store])
    ser = {p["setting"]: p for p in found.of("ser")}
    assert set(ser) == {"temperature=1.0", "temperature=0.5"}
    pooled = proportion(40, 100)
    assert [ser["temperature=1.0"][name] for name in ("value", "low", "high", "n")] == [
        pooled.value,
        pooled.low,
        pooled.high,
        100,
    ]
    assert ser["temperature=0.5"]["n"] == 50
    assert found.work == 6.0


def test_what_is_not_there_is_said(store):
    done, failed = read([store]).missing
    assert done.startswith("1 of 5 cells of ")
    assert failed == "failed: samples (interval-5, ancestral, 8): it <broke>"


def test_several_stores_are_one_table(store, tmp_path):
    one = {"job": "samples", "key": "k", "language": "brackets", "length": 8, "sampler": "strided", "steps": 2}
    rows = [one | record("ser", 1)]
    assert [p["of"] for p in points(rows)] == ["brackets"]
    assert read([store, store]).points == read([store]).points  # a cell is not counted twice


def test_a_list_of_budgets_is_not_in_the_name_of_a_sampler():
    """Its cells have one value each, and their sampler is the one without a list."""
    usual = {"job": "board", "key": "k", "language": "interval-5", "length": 20, "measure": "ser", "kind": "mdm"}
    usual |= finite(proportion(10, 50).to_dict()) | {"model_calls": 4.0}
    rows = [usual | {"sampler": "ancestral(steps=[4, 8])", "knob": "steps", "budget": n} for n in (4, 8)]
    rows += [usual | {"sampler": "gibbs(sweeps=2, stride=[2, 4])", "knob": "stride", "budget": n} for n in (2, 4)]
    found = [(p["sampler"], p["steps"], p["knob"]) for p in points(rows)]
    named = [("gibbs(sweeps=2)", None, f"stride = {n}") for n in (2, 4)]
    assert found == [("ancestral", 4, None), ("ancestral", 8, None), *named]


def test_another_metric_of_the_same_does_not_count_twice():
    about = {"language": "interval-5", "length": 8, "sampler": "strided", "key": "k"}
    sampled = {"job": "samples", "steps": 2} | about | record("ser", 1)
    drawn = {"job": "curve", "budget": 2, "knob": "steps"} | about | record("ser", 40)
    own = {"job": "curve", "budget": 0.5, "knob": "threshold"} | about | record("ser", 4)
    first, second = points([sampled, drawn, own])
    assert (first["value"], first["job"], first["steps"]) == (0.02, "samples", 2)
    assert (second["knob"], second["steps"]) == ("threshold = 0.5", None)


def test_an_ar_network_may_learn_longer_without_being_a_setting():
    about = {"job": "learned", "language": "interval-5", "length": 8, "key": "k"}
    masked = [about | {"sampler": "strided", "steps": n, "training_steps": 9} | record("ser", 1) for n in (2, 4)]
    causal = about | {"sampler": "autoregressive", "training_steps": 3} | record("ser", 1)
    assert {p["setting"] for p in points([*masked, causal])} == {None}
    assert {p["setting"] for p in points([*masked, masked[0] | {"training_steps": 3}])} != {None}


def test_means_of_seeds_have_their_mean():
    rows = [
        {"job": "samples", "key": "k", "language": "interval-5", "seed": seed, "measure": "generative_perplexity"}
        | {"value": value, "low": value - 1, "high": value + 1, "n": 50, "level": 0.95, "method": "t"}
        for seed, value in enumerate((3.0, 4.0, 6.0, 7.0))
    ]
    (found,) = points(rows)
    assert found["value"] == fmean((3.0, 4.0, 6.0, 7.0))
    assert found["high"] - found["low"] == pytest.approx(2 / 2, rel=0.03)  # of four times as many rows
    (open_,) = points([rows[0] | {"low": 0.0, "high": None}])
    assert (open_["low"], open_["high"]) == (None, None)


def test_perplexity_is_relative_to_the_language_where_that_is_known():
    about = {"language": "interval-5", "length": 8, "key": "k", "level": 1.0, "n": 9, "method": "exact"}
    drawn = {"job": "samples", "steps": 2, "measure": "generative_perplexity", "value": 6.0, "low": 5.0, "high": 7.0}
    own = {"job": "autoregressive", "measure": "ter", "value": 4.0, "low": 4.0, "high": 4.0, "model_calls": 8.0}
    same = own | {"measure": "ter_ratio", "value": 1.0, "low": 1.0, "high": 1.0}
    found = {(p["measure"], p["kind"]): p["value"] for p in points([about | drawn, about | own, about | same])}
    assert found["generative_perplexity_ratio", "mdm"] == 1.5
    assert found["generative_perplexity_ratio", "ar"] == 1.0
    (alone,) = points([about | drawn])
    assert (alone["measure"], alone["value"]) == ("generative_perplexity", 6.0)


def test_a_clock_stands_beside_the_same_network():
    about = {
        "language": "interval-5",
        "length": 8,
        "key": "k",
        "level": 0.95,
        "n": 9,
        "method": "t",
        "low": 1,
        "high": 9,
    }
    clock = {"job": "clock", "training_steps": None, "kind": "mdm", "batch": 4, "measure": "milliseconds", "value": 8.0}
    learned = {
        "job": "learned",
        "steps": 2,
        "sampler": "ancestral",
        "measure": "ser",
        "value": 0.5,
        "model_calls": 3.0,
    }
    ideal = learned | {"job": "samples"}
    learned["training_steps"] = None
    found = {
        p["model"]: p["seconds"]
        for p in points([about | one for one in (clock, learned, ideal)])
        if p["measure"] == "ser"
    }
    assert found == {"trained": 3.0 * 0.008 / 4, "ideal": None}


def test_an_evaluation_is_a_point_a_setting(tmp_path):
    samples = many([True, False, True, True], flops=4.0) + many(
        [True] * 4, sampler="autoregressive", steps=None, model="a"
    )
    (tmp_path / "records.jsonl").write_bytes(lines(samples))
    found = {p["kind"]: p for p in read([tmp_path]).of("accuracy")}
    assert (found["mdm"]["value"], found["ar"]["value"]) == (0.75, 1.0)
    assert (found["mdm"]["of"], found["mdm"]["model"], found["mdm"]["steps"]) == ("gsm8k", "m", 8)
    assert (found["mdm"]["flops"], found["ar"]["flops"]) == (4.0, 1.0)
    assert found["mdm"]["model_calls"] == 8
    assert (found["mdm"]["setting"], found["ar"]["setting"], found["ar"]["model"]) == (None, None, None)


def test_all_settings_of_an_evaluation_and_ar_are_in_one_view(tmp_path):
    """Steps and samplers have controls of their own; AR has no setting that hides it."""
    samples = many([True] * 4, sampler="autoregressive", steps=None, model="a")
    for sampler in ("llada", "ancestral"):
        samples += many([True, False, True, True], sampler=sampler) + many([True] * 4, sampler=sampler, steps=4)
    (tmp_path / "records.jsonl").write_bytes(lines(samples))
    shown = Shown(read([tmp_path]))
    _, table = grid(shown.results, shown.state, METRICS["accuracy"])
    settings = {("AR", "")} | {(name, f"{n} steps") for name in ("llada", "ancestral") for n in (4, 8)}
    assert set(table) == settings
    assert all(len(cells) == 1 for cells in table.values())


def test_the_nearest_key_has_the_fewest_other_values():
    """Of each choice, and of points: their own setting, also where it is known already."""
    places = [(of, name, n) for of in "ab" for name in ("x", "y", "z") for n in (8, 64) if (of, name) != ("b", "x")]
    numbers = {"kind": "mdm", "measure": "ser", "value": 0.5}
    every = [dict.fromkeys(WHO) | numbers | {"of": of, "sampler": name, "length": n} for of, name, n in places]
    shown, keys = Shown(Results(every)), [{"of": of, "sampler": name, "length": n} for of, name, n in places[1::2]]
    nearest = shown.nearest([*keys, {"of": None, "sampler": "z", "length": 8}])
    assert len(nearest) == 3 * len(shown.settings)
    for (language, at), number in nearest.items():
        wanted = shown.settings[at] | {"of": shown.state["of"] if language == "all" else shown.languages[int(language)]}
        apart = [differs(key, wanted) for key in [*keys, {"of": None, "sampler": "z", "length": 8}]]
        assert number == apart.index(min(apart))
    for point in every * 2:
        assert {name: point[name] for name in FIELDS} == shown.settings[shown.setting_of(point)]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "there is no directory .*nowhere. Pass the directory of a sweep"),
        (lambda path: path.mkdir(), "contains no results; expected sweep.jsonl or records.jsonl"),
        (lambda path: (path.mkdir(), (path / "sweep.jsonl").write_text("{}")), "sweep.jsonl"),
        (lambda path: (path.mkdir(), (path / "records.jsonl").write_text("{")), r"records.jsonl, line 1"),
    ],
)
def test_what_is_no_store_is_refused(tmp_path, make, said):
    make(tmp_path / "nowhere")
    with pytest.raises(UnmaskError, match=said) as error:
        read([tmp_path / "nowhere"])
    assert "\n" not in str(error.value)
