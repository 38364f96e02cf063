"""lm-eval with models and samplers of ours: the same answers as without it, likelihoods as they are, and no network."""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.models.open.speaking import spoken
from tests.needs import required
from unmask import UnmaskError
from unmask.cli.main import main
from unmask.core.reading import read_lines
from unmask.models.open import load_model
from unmask.models.open.chat import Message
from unmask.models.open.prompted import Query, ending, rows_of
from unmask.samplers import generate

with required("lm-eval"):
    import lm_eval
    from lm_eval.api.instance import Instance
    from lm_eval.tasks import TaskManager

    from unmask.tasks.lm_eval import UnmaskLM

PROMPTS = ["the cat sat on", "a", "why? because the dog"]
DOCS = [{"q": prompt, "options": [" the mat", " a"], "right": number % 2} for number, prompt in enumerate(PROMPTS)]
KINDS = {"masked": ("llada", {}), "ar": ("qwen2", {"block": 1})}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Checkpoints, by kind."""
    found = {}
    for kind, (family, fields) in KINDS.items():
        found[kind] = tmp_path_factory.mktemp(kind)
        spoken(found[kind], family, **fields)
    return found


@pytest.fixture(scope="module")
def models(places):
    return {
        kind: load_model(place, card=str(place / "card.json"), device="cpu", dtype="float64")
        for kind, place in places.items()
    }


@pytest.fixture(params=KINDS)
def model(request, models):
    return models[request.param]


def requests(kind, *arguments, repeats=1):
    """One a document."""
    found = [Instance(kind, {}, one, 0, ("task", number, repeats)) for number, one in enumerate(arguments)]
    return [one for one in found for _ in range(repeats)]


def generation(*prompts, repeats=1, **said):
    return requests("generate_until", *((prompt, said) for prompt in prompts), repeats=repeats)


def alone(model, row, number, stop=None, **options):
    """By generate itself."""
    made = generate(model, given=row[None], first_row=number, stop=stop, **options)
    return made, made.texts(model.tokenizer)[0]


@pytest.mark.parametrize("batch", [1, 2])
def test_answers_are_our_own_token_for_token(model, batch):
    """Documents in batches, by length; their own randomness is that of their number."""
    causal = model.card.causal
    sampler = "autoregressive" if causal else "llada(block_length=4, temperature=1.0)"
    harness = UnmaskLM(model, batch_size=batch, sampler=sampler, steps=6, temperature=1.0, seed=3)
    found = harness.generate_until(generation(*PROMPTS, until=["zzz"], max_gen_toks=8))
    rows = rows_of(model, [Query(prompt=prompt) for prompt in PROMPTS], 8)
    rule = ending(model, ["zzz"])
    for number, (text, row) in enumerate(zip(found, rows, strict=True)):
        temperature = 1.0
        made, expected = alone(model, row, number, rule, sampler=sampler, steps=6, temperature=temperature, seed=3)
        assert text == expected
        record = next(one for one in harness.records if one["doc"] == number)
        assert record["model_calls"] == int(made.model_calls[0])
        assert (record["row"], record["text"]) == (number, expected)
    assert [record["batch"] for record in harness.records] == ([1, 1, 1] if batch == 1 else [2, 2, 1])


def test_an_answer_ends_early_and_without_what_ends_it(model):
    options = {"sampler": "autoregressive" if model.card.causal else "left-to-right", "temperature": 1.0}
    asked = {"max_gen_toks": 12, "do_sample": True}
    whole = UnmaskLM(model, **options).generate_until(generation(PROMPTS[0], **asked))[0]
    until = next(sign for sign in whole[3:-3] if sign not in whole[:3] and sign != "\ufffd")
    harness = UnmaskLM(model, **options)
    assert harness.generate_until(generation(PROMPTS[0], until=[until, ""], **asked))[0] == whole.partition(until)[0]
    record = harness.records[0]
    assert record["reason"] == "stopped"
    assert record["tokens"] < 12
    assert record["model_calls"] < 12  # what stands behind it was not even asked for


def test_who_says_how_it_is_written(models):
    """The model's arguments, then the task; a task that does not sample takes the likeliest, by the sampler's own
    temperature where it has one."""
    masked, ar = models["masked"], models["ar"]

    def options(model, said, **arguments):
        harness = UnmaskLM(model, **arguments)
        harness.generate_until(generation("a", max_gen_toks=4, **said))
        return harness.records[0]["options"]

    greedy, sampling = {"do_sample": False, "temperature": 0.7}, {"do_sample": True, "temperature": 0.7, "top_p": 0.5}
    assert options(ar, greedy) == {"sampler": "autoregressive", "temperature": 0.0}
    assert options(ar, sampling) == {"sampler": "autoregressive", "temperature": 0.7, "top_p": 0.5}
    assert options(ar, sampling, temperature=0.2)["temperature"] == 0.2
    assert options(masked, greedy) == {"sampler": "llada(block_length=4, temperature=0.0)", "steps": 4}
    assert options(masked, sampling) == {
        "sampler": "llada(block_length=4, temperature=0.7)",
        "steps": 4,
        "top_p": 0.5,
    }
    own = "threshold(threshold=0.5, temperature=0.3)"
    assert options(masked, greedy, sampler=own, steps=2)["sampler"].count("0.3") == 1
    assert options(masked, sampling, sampler="ancestral")["temperature"] == 0.7


def test_repeats_are_other_rows(models):
    harness = UnmaskLM(models["masked"], sampler="ancestral", temperature=1.0)
    first = harness.generate_until(generation(*PROMPTS[:2], repeats=2, max_gen_toks=8))
    assert sorted(record["row"] for record in harness.records) == [0, 1, 2, 3]
    assert first[0] != first[1]
    again = UnmaskLM(models["masked"], sampler="ancestral", temperature=1.0, batch_size=3)
    assert again.generate_until(generation(*PROMPTS[:2], repeats=2, max_gen_toks=8)) == first


def test_likelihoods_do_not_depend_on_their_batch_and_stand_in_the_record(model, tmp_path):
    """Chains up to 3 tokens and bounds beyond; the same alone, among others and at other batch sizes."""
    pairs = [(PROMPTS[0], " the mat and the dog"), (PROMPTS[1], "b"), (PROMPTS[2], " a"), ("", "the")]
    harness = UnmaskLM(model, draws=3, batch_size=2, record=str(tmp_path / "said.jsonl"))
    found = harness.loglikelihood(requests("loglikelihood", *pairs))
    for number, pair in enumerate(pairs):
        one = Instance("loglikelihood", {}, pair, 0, ("task", number, 1))
        (other,) = UnmaskLM(model, draws=3).loglikelihood([one])
        assert other[0] == pytest.approx(found[number][0], abs=1e-9)
        assert other[1] == found[number][1]
    lines = sorted((line for _, line in read_lines(tmp_path / "said.jsonl")), key=lambda line: line["doc"])
    assert lines == sorted(harness.records, key=lambda line: line["doc"])
    assert [line["nats"] for line in lines] == [nats for nats, _ in found]
    assert lines[0]["by"] == ("read" if model.card.causal else "bound")
    assert (lines[0]["standard_error"] > 0) == (not model.card.causal)
    assert lines[1]["standard_error"] == 0
    assert [line["target_tokens"] for line in lines][1] == 1


def test_likelihoods_of_a_sampler(models):
    """One token per step from left to right is the chain, in as many calls; one of random orders has an error."""
    pair = (PROMPTS[0], " the mat")
    found = {}
    for kind, options in (
        ("chain", {}),
        ("path", {"sampler": "left-to-right"}),
        ("path", {"sampler": "ancestral", "steps": 2, "draws": 3}),
    ):
        harness = UnmaskLM(models["masked"], likelihood=kind, **options)
        harness.loglikelihood(requests("loglikelihood", pair))
        (found[options.get("sampler")],) = harness.records
    assert found["left-to-right"]["nats"] == pytest.approx(found[None]["nats"], abs=1e-9)
    assert found["left-to-right"]["model_calls"] == found[None]["model_calls"]
    assert found["ancestral"]["standard_error"] > 0 == found["left-to-right"]["standard_error"]
    with pytest.raises(UnmaskError, match="chooses positions by drawn tokens"):
        UnmaskLM(models["masked"], likelihood="path", sampler="low-confidence").loglikelihood(
            requests("loglikelihood", pair)
        )
    with pytest.raises(UnmaskError, match="is an AR model"):
        UnmaskLM(models["ar"], likelihood="path", sampler="left-to-right")


def test_a_space_belongs_to_what_follows(model):
    """As in lm-eval's own models; and a target is read behind its whole context."""
    harness = UnmaskLM(model)
    spaced, moved = harness._pair("the cat ", "sat"), harness._pair("the cat", " sat")
    assert spaced == moved
    assert spaced[0] + spaced[1] == model.tokenizer.encode("the cat sat").tolist()


def test_a_long_text_is_read_in_windows(model):
    """Each token once; of the last window as much context as there is room for."""
    harness = UnmaskLM(model)
    text = "the cat sat on the mat and the dog did not. " * 6
    assert len(model.tokenizer.encode(text)) > 2 * model.length
    read = []
    likely = harness._likely
    harness._likely = lambda rows: [read.append((row, first)) for row, first, _ in rows] and likely(rows)
    (nats,) = harness.loglikelihood_rolling(requests("loglikelihood_rolling", (text,)))
    assert nats < 0
    assert sum(len(row) - first for row, first in read) == len(model.tokenizer.encode(text))
    assert max(len(row) for row, _ in read) <= model.length
    assert harness.records[0]["windows"] == len(read) > 2


def test_conversations_go_through_as_what_they_are(model):
    harness = UnmaskLM(model)
    said = [{"role": "system", "content": "s"}, {"role": "user", "content": "ends<|im_end|> no turn"}]
    context = harness.apply_chat_template(said)
    assert harness.chat_template(True) == "unmask:chatml"
    before, after = harness._pair(context, "yes")
    messages = [Message(**one) for one in said]
    assert before == rows_of(model, [Query(messages=messages)], 0)[0].tolist()
    end = model.tokenizer.control("<|im_end|>")
    assert before.count(end) == 2  # of the system, and of the user
    assert model.tokenizer.decode(before).endswith("<|im_start|>assistant\n")
    assert model.tokenizer.written(after) == "yes"
    begun = harness.apply_chat_template([*said, {"role": "assistant", "content": "So"}], add_generation_prompt=False)
    assert model.tokenizer.decode(harness._pair(begun, " it")[0]).endswith("<|im_start|>assistant\nSo")
    with pytest.raises(UnmaskError, match="without a name"):
        harness.chat_template("other")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"samplr": "llada"}, "unknown model argument 'samplr'; did you mean sampler"),
        ({"sampler": "lada"}, "unknown sampler 'lada'"),
        ({"likelihood": "exactly"}, "unknown likelihood 'exactly'"),
        ({"batch_size": "auto"}, "batch_size is 'auto'; expected a whole number"),
        ({"draws": 1}, "draws is 1"),
    ],
)
def test_mistakes(models, arguments, words):
    with pytest.raises(UnmaskError, match=words):
        UnmaskLM(models["masked"], **arguments)


def test_what_is_too_long(model):
    harness = UnmaskLM(model)
    with pytest.raises(UnmaskError, match="expected at most 64"):
        harness.generate_until(generation("the cat " * 40, max_gen_toks=8))
    context = "the cat " * 40
    (said,) = harness.loglikelihood(requests("loglikelihood", (context, "sat")))
    assert said[0] < 0
    assert harness.records[-1]["context_cut"] > 0
    with pytest.raises(UnmaskError, match="a target of"):
        harness.loglikelihood(requests("loglikelihood", ("a", context)))


def test_a_sampler_with_commas_in_its_brackets(places):
    place = places["masked"]
    text = (
        f"model={place},card={place}/card.json,sampler=llada(block_length=2,remasking=random,temperature=0.5),steps=4"
    )
    options = {"sampler": "llada(block_length=2, remasking=random, temperature=0.5)", "steps": 4}
    harness = UnmaskLM.create_from_arg_string(text, {"batch_size": 2, "device": None})
    assert (harness.options, harness.batch) == (options, 2)
    with pytest.raises(UnmaskError, match="expected a closing bracket"):
        UnmaskLM.create_from_arg_string("model=x,sampler=llada(block_length=2")
    with pytest.raises(UnmaskError, match="names no model"):
        UnmaskLM.create_from_arg_string("")


@pytest.fixture
def tasks(tmp_path):
    """Three small tasks, of local documents."""
    (tmp_path / "docs.jsonl").write_text("\n".join(map(json.dumps, DOCS)))
    files = {"data_files": {"test": str(tmp_path / "docs.jsonl")}, "cache_dir": str(tmp_path / "cache")}
    common = {"dataset_path": "json", "dataset_kwargs": files, "test_split": "test", "doc_to_text": "{{q}}"}
    kinds = {
        "generate_until": {"doc_to_target": "{{q}}", "generation_kwargs": {"until": ["zz"], "max_gen_toks": 4}},
        "multiple_choice": {"doc_to_target": "{{right}}", "doc_to_choice": "{{options}}"},
        "loglikelihood_rolling": {"doc_to_target": "{{q}}"},
    }
    metrics = {"generate_until": "exact_match", "multiple_choice": "acc", "loglikelihood_rolling": "word_perplexity"}
    (tmp_path / "tasks").mkdir()
    for kind, about in kinds.items():
        aggregated = "weighted_perplexity" if kind == "loglikelihood_rolling" else "mean"
        metric = {"metric": metrics[kind], "aggregation": aggregated, "higher_is_better": True}
        task = common | about | {"task": f"small-{kind}", "output_type": kind, "metric_list": [metric]}
        (tmp_path / "tasks" / f"{kind}.yaml").write_text(yaml.safe_dump(task))
    return tmp_path / "tasks", [f"small-{kind}" for kind in kinds]


@pytest.mark.filterwarnings("ignore")  # those of its own
def test_tasks_of_lm_eval(models, tasks, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    directory, names = tasks
    harness = UnmaskLM(models["masked"])
    manager = TaskManager(include_path=str(directory), include_defaults=False)
    found = lm_eval.simple_evaluate(harness, tasks=names, task_manager=manager, bootstrap_iters=0)
    samples = found["samples"]["small-generate_until"]
    for number, (sample, prompt) in enumerate(zip(samples, PROMPTS, strict=True)):
        row = rows_of(models["masked"], [Query(prompt=prompt)], 4)[0]
        options = {"sampler": "llada(block_length=4)", "steps": 4}
        assert sample["resps"] == [[alone(models["masked"], row, number, ending(models["masked"]), **options)[1]]]
    assert found["results"]["small-loglikelihood_rolling"]["word_perplexity,none"] > 1
    assert 0 <= found["results"]["small-multiple_choice"]["acc,none"] <= 1
    chosen = [record for record in harness.records if record["task"] == "small-multiple_choice"]
    assert sorted((record["doc"], record["choice"]) for record in chosen) == [
        (d, c) for d in range(3) for c in range(2)
    ]


@pytest.mark.filterwarnings("ignore")  # those of its own
def test_the_command_answers_a_task_of_a_local_file(places, tasks, tmp_path, monkeypatch):
    """With the same words as for any task of lm-eval; the record has each answer."""
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    directory, names = tasks
    place, record = places["masked"], tmp_path / "answers.jsonl"
    words = ["--model", "unmask", "--tasks", names[0], "--include_path", str(directory)]
    words += ["--model_args", f"model={place},card={place}/card.json,record={record}"]
    assert main(["eval", "lm-eval", *words, "--output_path", str(tmp_path / "out")]) == 0
    assert not (tmp_path / "out" / "requests.jsonl").exists()  # since the arguments name another file
    answers = [json.loads(line) for line in record.read_text().splitlines()]
    assert sorted(answer["doc"] for answer in answers) == list(range(len(DOCS)))
    results = json.loads(next((tmp_path / "out").rglob("results_*.json")).read_text())
    assert 0 <= results["results"][names[0]]["exact_match,none"] <= 1


@pytest.mark.filterwarnings("ignore")  # those of its own
def test_scores_and_costs_are_in_one_record(places, tasks, tmp_path, monkeypatch, capsys):
    """All three kinds of tasks in one directory, and the rolling one, which has no score of an item, beside them."""
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    directory, names = tasks
    place, out = places["masked"], tmp_path / "out"
    words = ["--model", "unmask", "--tasks", ",".join(names), "--include_path", str(directory)]
    words += ["--model_args", f"model={place},card={place}/card.json,steps=2", "--output_path", str(out)]
    assert main(["eval", "lm-eval", *words]) == 0
    items = [json.loads(line) for line in (out / "items.jsonl").read_text().splitlines()]
    requests = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
    assert {one["task"] for one in items} == {"small-generate_until: exact_match", "small-multiple_choice: acc"}
    assert len(items) == 2 * len(DOCS)
    for kind, task in (("generate_until", "exact_match"), ("multiple_choice", "acc")):
        own = [one for one in items if one["task"] == f"small-{kind}: {task}"]
        asked = [one for one in requests if one["task"] == f"small-{kind}"]
        assert sum(one["calls"] for one in own) == sum(one["model_calls"] for one in asked)
        assert sum(one["seconds"] for one in own) == pytest.approx(sum(one["seconds"] for one in asked))
        assert all(one["seconds"] > 0 for one in own)
    assert all(0 < one["tokens_per_call"] <= 4 for one in items if "generate" in one["task"])
    capsys.readouterr()
    assert main(["eval", "show", str(out), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["settings"]
    results = json.loads(next(out.rglob("results_*.json")).read_text())["results"]
    for one in shown:
        task, _, metric = one["task"].partition(": ")
        assert one["accuracy"]["value"] == pytest.approx(results[task][f"{metric},none"])
        assert one["model"] == f"{place}, steps=2"
    assert main(["eval", "compare", str(out), str(out), "--json"]) == 0
    same = json.loads(capsys.readouterr().out)["tasks"]
    assert [one["p"] for one in same.values()] == [1.0, 1.0]


def test_the_entry_point_is_this_class():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["lm_eval.models"]["unmask"].partition(":")
    assert getattr(importlib.import_module(module), name) is UnmaskLM
