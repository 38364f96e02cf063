"""The job `eval`: lm-eval on a grid of models and samplers, resumed without loss, and compared item by item."""

from __future__ import annotations

import json

import pytest

import unmask
from tests.models.open.speaking import spoken
from tests.needs import required
from unmask import UnmaskError
from unmask.cli.main import main
from unmask.core.reading import read_lines
from unmask.experiments.store import Store
from unmask.report.publishing import report
from unmask.tasks.evaluation import published
from unmask.tasks.logs import ITEMS, REQUESTS

with required("lm-eval"):
    import lm_eval  # noqa: F401

    from unmask.models.open import prompted
    from unmask.tasks import lm_eval as harness

DOCS = [{"question": f"the {word}", "answer": "a"} for word in ("cat", "dog", "mat", "sky", "sun", "sea")]
TASK = """task: letters
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["zzz"], max_gen_toks: 4, do_sample: true}}
filter_list:
  - name: letter
    filter: [{{function: regex, regex_pattern: "([a-z])"}}, {{function: take_first}}]
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A masked model, an AR model, and a directory with a task."""
    masked, ar, tasks = (tmp_path_factory.mktemp(name) for name in ("masked", "ar", "tasks"))
    spoken(masked, "llada")
    spoken(ar, "qwen2", block=1)
    (tasks / "letters.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    (tasks / "letters.yaml").write_text(TASK.format(file=tasks / "letters.jsonl"))
    return masked, ar, tasks


def recipe_of(places, **more):
    masked, ar, tasks = places
    common = {"task": "letters", "data": str(tasks), "device": "cpu", "dtype": "float32"} | more
    grid = {"sampler": ["ancestral", "low-confidence"], "steps": [1, 4]}
    first = {"grid": grid, "fixed": common | {"model": str(masked), "card": str(masked / "card.json")}}
    second = {"fixed": common | {"model": str(ar), "card": str(ar / "card.json")}}
    return {"name": "letters", "jobs": ["eval"], "parts": [first, second]}


@pytest.fixture(scope="module")
def measured(places, tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    made = unmask.sweep(recipe_of(places), store=store, engine="here")
    assert not made.failures()
    return store


@pytest.mark.long
def test_a_cell_has_the_scores_and_costs_of_its_items(measured):
    store = Store.open(measured)
    assert len(store.done) == 5
    for key in store.done:
        records = {record["measure"]: record for record in store.records(key)}
        items = [line for _, line in read_lines(store.place(key) / ITEMS)]
        assert {line["item"] for line in items} == {f"letters {number}" for number in range(len(DOCS))}
        assert records["accuracy"]["value"] == pytest.approx(sum(line["right"] for line in items) / len(DOCS))
        assert records["model_calls"]["value"] == pytest.approx(sum(line["calls"] for line in items) / len(DOCS))
        assert records["accuracy"]["metric"] == "exact_match, letter"
        steps, kind = store.cells[key].values["steps"], records["accuracy"]["kind"]
        assert (kind == "ar") == (steps is None)
        assert kind == "ar" or records["model_calls"]["value"] <= steps


def test_a_killed_cell_takes_the_answers_that_are_there(measured, places, monkeypatch):
    """Half of the requests, the last of them cut: the same items, and only the missing answers are written."""
    store = Store.open(measured)
    key = next(key for key in store.done if store.cells[key].values["sampler"] == "ancestral")
    own = store.place(key)
    before, whole = (own / ITEMS).read_text(), (own / REQUESTS).read_bytes()
    lines = whole.splitlines(keepends=True)
    (own / REQUESTS).write_bytes(b"".join(lines[:3]) + lines[3][:20])
    asked = []

    def counted(model, queries, *given, **options):
        asked.extend(query.prompt for query in queries)
        return prompted.answers(model, queries, *given, **options)

    monkeypatch.setattr(harness, "answers", counted)
    from unmask.experiments.cell import Place, call

    call(published.eval, store.cells[key].values, place=Place(own))

    def told(text):
        return [json.loads(line) | {"seconds": 0} for line in text.splitlines()]

    assert told((own / ITEMS).read_text()) == told(before)
    assert len(asked) == len(DOCS) - 3
    places_of = [(line["doc"], line["row"], line["text"]) for _, line in read_lines(own / REQUESTS)]
    wanted = [(line["doc"], line["row"], line["text"]) for line in map(json.loads, lines)]
    assert sorted(places_of) == sorted(wanted)


@pytest.mark.long
def test_several_seeds_are_samples_of_an_item(measured, places, tmp_path, capsys):
    made = unmask.sweep(recipe_of(places) | {"seeds": 3}, store=tmp_path / "seeds", engine="here")
    assert not made.failures()
    assert main(["eval", "show", str(tmp_path / "seeds"), "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert len(settings) == 5
    for one in settings:
        assert one["items"] == len(DOCS)
        assert one["accuracy"]["value"] <= one["pass_at_2"]["value"] <= one["pass_at_3"]["value"]


def test_its_page_has_accuracy_against_calls_and_seconds(measured, tmp_path):
    shown, _ = report([measured], tmp_path / "page")
    page = (tmp_path / "page/index.html").read_text()
    assert 'id="figure-accuracy-by-model-calls"' in page
    assert 'id="figure-accuracy-by-seconds"' in page
    assert "The fastest measured setting that reaches or may reach an accuracy of 50%" in page
    points = shown.results.of("accuracy")
    assert {point["kind"] for point in points} == {"mdm", "ar"}
    assert {point["setting"] for point in points} == {None}  # a line joins the steps of a sampler
    assert "settings need at most the model calls of AR" in page
    assert all(point["seconds"] > 0 and point["model_calls"] > 0 and point["flops"] is None for point in points)


@pytest.mark.long
def test_mistakes_are_one_sentence(places, tmp_path):
    def failed(**more):
        made = unmask.sweep(recipe_of(places, **more), store=tmp_path / str(len(str(more))), engine="here")
        return made.failures()[0][1]

    assert "metric is 'bleu'. Expected one of: exact_match, letter. Change metric" in str(failed(metric="bleu"))
    with pytest.raises(UnmaskError, match="batch is 0; expected at least 1"):
        failed(batch=0)
    assert "lm-eval failed on nosuch with" in str(failed(task="nosuch"))


def test_generated_programs_are_not_run(places, tmp_path):
    """A task that runs programs has a switch of lm-eval, which no cell sets."""
    tasks = places[2]
    (tmp_path / "unsafe.yaml").write_text(
        TASK.format(file=tasks / "letters.jsonl").replace("task: letters", "task: programs") + "unsafe_code: true\n"
    )
    recipe = recipe_of(places, task="programs")
    for part in recipe["parts"]:
        part["fixed"]["data"] = str(tmp_path)
    made = unmask.sweep(recipe, store=tmp_path / "store", engine="here")
    assert len(made.failures()) == 5
    assert "marked as unsafe" in str(made.failures()[0][1])
