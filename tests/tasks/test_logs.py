"""Logs of lm-eval, of any model: what is read, what is left out, and how often the paired interval is right."""

from __future__ import annotations

import json

import pytest
import torch
from scipy.stats import binomtest

from tests.needs import needs
from unmask import UnmaskError
from unmask.cli.main import main
from unmask.core.estimates import bounded_mean
from unmask.tasks import logs
from unmask.tasks.evaluation.compare import LEVEL, compare_shares

FIRST, SECOND = "2026-01-01T10-00-00.0", "2026-02-01T10-00-00.0"


def line(doc, filter="none", **scores):
    return {"doc_id": doc, "filter": filter, "metrics": list(scores), "doc_hash": f"h{doc}", "doc": {"q": "x"}} | scores


def write(directory, task, lines, date=FIRST, model="org/model"):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"samples_{task}_{date}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    about = {"config": {"model": "hf", "model_args": {"pretrained": model, "dtype": "float16"}}}
    (directory / f"results_{date}.json").write_text(json.dumps(about))


def gsm8k(directory, rights, **how):
    """Each item under two filters, as GSM8K has them: the flexible one finds every answer."""
    lines = [line(doc, "strict-match", exact_match=float(right)) for doc, right in enumerate(rights)]
    lines += [line(doc, "flexible-extract", exact_match=1.0) for doc in range(len(rights))]
    write(directory, "gsm8k", lines, **how)


def test_each_metric_and_filter_of_each_task(tmp_path):
    gsm8k(tmp_path / "org__model", [True, False, True])
    write(tmp_path / "org__model", "arc_easy", [line(doc, acc=doc % 2, acc_norm=1) for doc in range(4)])
    found = logs.read(tmp_path)
    means = {one.task: [] for one in found}
    for one in found:
        means[one.task].append(one.right)
        assert one.model == "org/model"
    assert means == {
        "arc_easy: acc": [0, 1, 0, 1],
        "arc_easy: acc_norm": [1, 1, 1, 1],
        "gsm8k: exact_match, strict-match": [1, 0, 1],
        "gsm8k: exact_match, flexible-extract": [1, 1, 1],
    }


def test_a_rolling_task_is_left_out_and_not_the_directory(tmp_path):
    gsm8k(tmp_path, [True, False])
    write(tmp_path, "wikitext", [line(0, word_perplexity=[-812.5, 214], bits_per_byte=[-812.5, 1190])])
    assert {one.task.partition(":")[0] for one in logs.read(tmp_path)} == {"gsm8k"}
    (tmp_path / f"samples_gsm8k_{FIRST}.jsonl").unlink()
    with pytest.raises(UnmaskError, match=r"no score of single items \(wikitext \(word_perplexity\), wikitext"):
        logs.read(tmp_path)


def test_the_newest_run_counts(tmp_path):
    gsm8k(tmp_path / "a", [False, False], date=SECOND)
    gsm8k(tmp_path / "a", [True, True])
    strict = [one.right for one in logs.read(tmp_path) if "strict" in one.task]
    assert strict == [0, 0]


def test_costs_are_sums_over_the_requests_of_an_item(tmp_path):
    write(tmp_path / "model", "arc", [line(doc, acc=1.0) for doc in range(2)])
    asked = [
        {"task": "arc", "doc": doc, "choice": c, "model_calls": 3 + c, "seconds": 0.5} for doc in (0, 1) for c in (0, 1)
    ]
    asked += [{"task": "other", "doc": 0, "model_calls": 99, "seconds": 9.0}]
    (tmp_path / logs.REQUESTS).write_text("".join(json.dumps(one) + "\n" for one in asked))
    assert [(one.calls, one.seconds) for one in logs.read(tmp_path)] == [(7, 1.0), (7, 1.0)]
    lines = [json.loads(text) for text in logs.write(tmp_path).read_text().splitlines()]
    assert lines[0] == {
        "model": "org/model",
        "task": "arc: acc",
        "item": "0 h0",
        "right": 1.0,
        "calls": 7,
        "written": 0,
        "seconds": 1.0,
    }


def test_two_logs_are_compared_item_by_item(tmp_path, capsys):
    """12 items right with the first only, 3 with the second only, in another order: p is that of the sign test."""
    rights = [True] * 12 + [False] * 3 + [True] * 25
    others = [False] * 12 + [True] * 3 + [True] * 25
    gsm8k(tmp_path / "one", rights)
    lines = [line(doc, "strict-match", exact_match=float(others[doc])) for doc in reversed(range(40))]
    write(tmp_path / "two", "gsm8k", [*lines, line(99, "strict-match", exact_match=1.0)], model="org/other")
    both = ["eval", "compare", str(tmp_path / "one"), str(tmp_path / "two")]
    assert main([*both, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["tasks"]["gsm8k: exact_match, strict-match"]
    assert (found["items"], found["first_alone"], found["second_alone"]) == (40, 12, 3)
    assert found["p"] == pytest.approx(binomtest(12, 15).pvalue)
    assert found["verdict"] == "better"
    assert found["difference"]["value"] == pytest.approx(9 / 40)
    assert main(both) == 0
    assert "McNemar's exact test" in " ".join(capsys.readouterr().out.split())
    assert main(["eval", "show", str(tmp_path / "one")]) == 0


def test_files_of_items_are_compared(tmp_path, capsys):
    """The first of every third item is wrong, in the second file none: of 30 items, 10 by the second alone."""
    for name, right in (("a.jsonl", lambda item: item % 3 != 0), ("b.jsonl", lambda item: True)):
        lines = [{"item": item, "right": float(right(item)), "calls": 8} for item in range(30)]
        (tmp_path / name).write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert main(["eval", "compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["tasks"]["task"]
    assert (found["first_alone"], found["second_alone"], found["p"]) == (0, 10, pytest.approx(2 / 2**10))


def test_each_model_has_its_directory_and_its_newest_run(tmp_path, capsys):
    """As lm-eval writes two models; requests.jsonl is of the last run only."""
    gsm8k(tmp_path / "org__one", [True, True])
    gsm8k(tmp_path / "org__two", [False, False], date=SECOND, model="org/two")
    gsm8k(tmp_path / "org__one", [True, False], date="2026-01-02T10-00-00.0")
    asked = [{"task": "gsm8k", "doc": doc, "model_calls": 3, "seconds": 0.5} for doc in (0, 1)]
    (tmp_path / logs.REQUESTS).write_text("".join(json.dumps(one) + "\n" for one in asked))
    found = {(one.model, one.right, one.calls) for one in logs.read(tmp_path) if "strict" in one.task}
    assert found == {("org/model", 1, None), ("org/model", 0, None), ("org/two", 0, 3)}
    assert main(["eval", "show", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "1 older files of samples are left out" in err
    shown = {(one["model"], one["task"]): one["accuracy"]["value"] for one in json.loads(out)["settings"]}
    strict = "gsm8k: exact_match, strict-match"
    assert (shown["org/model", strict], shown["org/two", strict]) == (0.5, 0)
    assert main(["eval", "compare", str(tmp_path), str(tmp_path / "org__one")]) == 2
    assert "2 models are to be compared as one: org/model, org/two" in " ".join(capsys.readouterr().err.split())
    assert main(["eval", "compare", str(tmp_path / "org__two"), str(tmp_path / "org__one")]) == 0


def test_questions_that_repeat_are_items_of_their_own(tmp_path):
    """Ten documents with five questions, each once right and once not: 50% of ten items."""
    lines = [line(doc, acc=float(doc < 5)) | {"doc_hash": f"h{doc % 5}"} for doc in range(10)]
    write(tmp_path, "arc", lines)
    assert sorted(one.right for one in logs.read(tmp_path)) == [0.0] * 5 + [1.0] * 5
    write(tmp_path, "arc", [*lines, lines[3]])
    with pytest.raises(UnmaskError, match=r"line 11 has document 3 of acc again"):
        logs.read(tmp_path)


def test_a_document_with_another_content_is_no_pair(tmp_path):
    for name, digest in (("one", "a"), ("two", "b")):
        write(tmp_path / name, "arc", [line(0, acc=1.0) | {"doc_hash": digest}, line(1, acc=1.0)])
    both = logs.paired(logs.read(tmp_path / "one"), logs.read(tmp_path / "two"))
    assert both["arc: acc"].items == 1


FALSE = [(name, value) for name in ("filter", "metrics", "doc_id", "doc_hash") for value in (None, [1], {}, 1.5, True)]


@pytest.mark.parametrize(("name", "value"), FALSE)
def test_a_line_of_another_type_is_named(name, value, tmp_path):
    write(tmp_path, "arc", [line(0, acc=1.0), line(1, acc=1.0) | {name: value}])
    with pytest.raises(UnmaskError, match=rf"\.jsonl, line 2: .*{name}"):
        logs.read(tmp_path)


@pytest.mark.parametrize("results", [{"config": []}, {"config": {"model_args": [1]}}, {"config": {"model": 3}}, [1]])
def test_results_of_another_type_are_named(results, tmp_path):
    write(tmp_path, "arc", [line(0, acc=1.0)])
    (tmp_path / f"results_{FIRST}.json").write_text(json.dumps(results))
    with pytest.raises(UnmaskError, match=r"results_.*\.json: "):
        logs.read(tmp_path)


TASK = """\
task: colours
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: [red, blue]
doc_to_target: a
metric_list: [{metric: acc}]
"""


@needs("lm-eval")
def test_logs_that_lm_eval_wrote_for_two_models(tmp_path, monkeypatch, capsys):
    """Two models that choose by themselves, without a network; three of four questions are the same."""
    from lm_eval import evaluator
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Always(LM):
        def __init__(self, choice):
            super().__init__()
            self.choice = choice

        def loglikelihood(self, requests, **options):
            return [(float(one.idx == self.choice), True) for one in requests]

        loglikelihood_rolling = generate_until = loglikelihood

    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    questions = [{"q": q, "a": a} for q, a in (("sky", 1), ("sky", 0), ("sky", 1), ("sea", 1))]
    (tmp_path / "data.json").write_text("".join(json.dumps(one) + "\n" for one in questions))
    (tmp_path / "colours.yaml").write_text(TASK.replace("DATA", str(tmp_path / "data.json")))
    tasks = TaskManager(include_path=str(tmp_path), include_defaults=False)
    for choice, name in enumerate(("red", "blue")):
        tracker = EvaluationTracker(output_path=str(tmp_path / "out"))
        tracker.general_config_tracker.model_name_sanitized = name
        found = evaluator.simple_evaluate(Always(choice), tasks=["colours"], task_manager=tasks, log_samples=True)
        samples = found.pop("samples")
        tracker.save_results_aggregated(results=found, samples=samples)
        tracker.save_results_samples("colours", samples["colours"])
    outcomes = logs.read(tmp_path / "out")
    models = {name: f"Always ({name})" for name in ("red", "blue")}  # one class, so one name
    scores = {name: [one.right for one in outcomes if one.model == model] for name, model in models.items()}
    assert scores == {"red": [0, 1, 0, 0], "blue": [1, 0, 1, 1]}
    capsys.readouterr()
    assert main(["eval", "compare", str(tmp_path / "out" / "red"), str(tmp_path / "out" / "blue"), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)["tasks"]["colours: acc"]
    assert (compared["items"], compared["first_alone"], compared["second_alone"]) == (4, 1, 3)


LINES = [{"item": 1}, {"item": 1, "right": 2}, {"item": 1, "right": 1, "call": 3}, {"item": 1, "right": 1, "calls": -1}]


@pytest.mark.parametrize(("line", "said"), [*zip(LINES, ["right", "right", "call", "calls"], strict=True)])
def test_a_line_of_items_says_what_is_wrong(line, said, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps(line))
    with pytest.raises(UnmaskError, match=rf"a\.jsonl, line 1.*{said}"):
        logs.read(tmp_path / "a.jsonl")


def test_logs_without_a_common_item(tmp_path, capsys):
    gsm8k(tmp_path / "one", [True])
    write(tmp_path / "two", "arc", [line(0, acc=1.0)])
    assert main(["eval", "compare", str(tmp_path / "one"), str(tmp_path / "two")]) == 2
    assert "they have no items in common" in capsys.readouterr().err
    (tmp_path / "none").mkdir()
    assert main(["eval", "compare", str(tmp_path / "one"), str(tmp_path / "none")]) == 2


CASES = 400


@pytest.mark.long
@pytest.mark.parametrize("items", [50, 200])
@pytest.mark.parametrize(("ahead", "behind"), [(0.12, 0.06), (0.03, 0.0), (0.3, 0.3)])
def test_the_interval_of_the_difference_covers_it(items, ahead, behind):
    """In at least 92% of 400 simulated pairs of logs: a false alarm in .3% of seeds at a coverage of .95."""
    rng = torch.Generator().manual_seed(items)
    covered = 0
    for _ in range(CASES):
        drawn = torch.rand(items, generator=rng)
        pairs = [(1.0, 0.0) if u < ahead else (0.0, 1.0) if u < ahead + behind else (1.0, 1.0) for u in drawn.tolist()]
        found = compare_shares(pairs).difference
        covered += found.low <= ahead - behind <= found.high
    assert covered / CASES >= 0.92


def test_a_bootstrap_would_not_cover_it():
    """The power of the test above: the normal interval of rare differences is too short."""
    rng = torch.Generator().manual_seed(1)
    covered = 0
    for _ in range(CASES):
        ahead = (torch.rand(50, generator=rng) < 0.03).double()
        half = 1.96 * float(ahead.std()) / 50**0.5
        covered += abs(float(ahead.mean()) - 0.03) <= half
    assert covered / CASES < 0.92
    assert bounded_mean(torch.zeros(50, dtype=torch.float64), (-1.0, 1.0), 1 - LEVEL).high > 0
