"""Evaluation of a model behind a server: accuracies, missing answers, resuming, costs and refusals."""

from __future__ import annotations

import json
import random

import pytest

from unmask import UnmaskError
from unmask.endpoint import DIALECTS
from unmask.endpoint.client import OUTCOMES
from unmask.experiments.evaluation import compare, read
from unmask.experiments.evaluation.remote import ANSWERS, Remote, evaluate_endpoint
from unmask.tasks.sample import UNANSWERED
from unmask.testing import FakeServer


def sums(prompt: str, rng: random.Random) -> str:
    """The answer to an item of the task `sums`, with an incorrect last digit in one of four answers."""
    question = prompt.strip().splitlines()[-1].rstrip("=")
    if "+" not in question:
        return "hello"
    operands, steps = [int(digit) for digit in question.split("+")], []
    while len(operands) > 1:
        operands = [sum(operands[:2]) % 10, *operands[2:]]
        steps.append("+".join(map(str, operands)))
    if rng.random() < 0.25:
        steps[-1] = str((operands[0] + 1) % 10)
    return "=".join(steps) + "\nNext"


def evaluated(server, out, **options):
    return evaluate_endpoint(Remote("http://fake", "sums", **{"limit": 40} | options), out, server.link)


def test_outcomes_are_those_of_the_client():
    assert {"ok", "truncated", *UNANSWERED} == set(OUTCOMES)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_has_the_accuracy_of_the_answers(dialect, tmp_path):
    with FakeServer(dialect, text=sums) as server:
        evaluation, (run,) = evaluated(server, tmp_path)
    (group,) = evaluation.groups
    assert (group.accuracy.n, run.requests) == (40, 40)
    assert 0.4 < group.accuracy.value < 0.95  # outside with probability below 1e-6; the seed is fixed
    assert group.accuracy.value == group.value("every_step").value
    assert group.accuracy_of_all is None
    assert group.settings["sampler"] == dialect
    cost = group.cost()
    assert 5 <= cost["answer_tokens"] <= 9
    assert bool(cost["model_calls"]) == (dialect != "mercury")
    assert group.value("tokens_per_second").value > 0
    assert read(tmp_path) == evaluation.samples


def test_missing_answers_count_in_one_of_two_accuracies(tmp_path):
    with FakeServer(faults={"not-json": 0.1, "die": 0.1}, text=sums, seed=4) as server:
        evaluation, _ = evaluate_endpoint(Remote(server.url, "sums", limit=60), tmp_path)
    (group,) = evaluation.groups
    missing = sum(group.unanswered.values())
    assert 0 < missing < 40
    assert set(group.unanswered) <= {"malformed", "transport"}
    right = round(group.accuracy.value * group.accuracy.n)
    assert group.accuracy.n == 60 - missing
    assert group.accuracy_of_all.value == pytest.approx(right / 60)
    assert f"{missing} of 60 requests not answered" in group.too_long
    assert len(evaluation.samples) == 60


def test_the_same_command_resumes(tmp_path):
    server = FakeServer(text=sums, faults={"not-json": 0.2})
    first, _ = evaluated(server, tmp_path)
    missing = sum(first.groups[0].unanswered.values())
    assert missing > 0
    server.faults.clear()
    second, (run,) = evaluated(server, tmp_path)
    assert run.requests == missing
    assert second.groups[0].unanswered == {}
    _, (run,) = evaluated(server, tmp_path, limit=45)
    assert run.requests == 5
    texts = {sample.item: sample.text for sample in first.samples if sample.answered}
    assert texts.items() <= {sample.item: sample.text for sample in second.samples}.items()


def test_concurrency_is_an_axis_and_settings_are_compared(tmp_path):
    server = FakeServer(text=sums)
    evaluation, runs = evaluated(server, tmp_path, concurrency=(1, 8), seed=3, send={"temperature": 0.5})
    assert [run.requests for run in runs] == [40, 40]
    one, many = evaluation.groups
    assert (one.settings["concurrency"], many.settings["concurrency"]) == (1, 8)
    assert one.settings["temperature"] == 0.5
    assert compare(one.counted, many.counted).first_alone == 0  # equal seeds, equal answers
    evaluated(server, tmp_path)
    assert len({sample.about["how"]["concurrency"] for sample in read(tmp_path)}) == 2
    assert len(read(tmp_path)) == 120


def test_only_what_was_asked_is_sent(tmp_path):
    server = FakeServer("openai-completions", text=sums)
    server.requests = []
    evaluated(server, tmp_path / "a", dialect="openai-completions", limit=1)
    assert set(server.requests[-1]["body"]) == {"prompt", "model", "max_tokens"}
    evaluated(
        server, tmp_path / "b", dialect="openai-completions", limit=1, send={"max_tokens": None, "top_p": 0.9}, seed=1
    )
    assert set(server.requests[-1]["body"]) == {"prompt", "model", "top_p", "seed"}


def test_a_budget_stops_between_items(tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"fake": {"in": 0, "out": 10**6 / 100}}))  # 1 cent per token
    _, (run,) = evaluated(FakeServer(text=sums), tmp_path, prices=prices, max_usd=1.0)
    assert 1.0 <= run.usd < 1.2
    assert "--max-usd is 1" in run.stopped
    assert run.requests < 40
    assert not run.refused
    with pytest.raises(UnmaskError, match="--max-usd needs prices"):
        evaluated(FakeServer(text=sums), tmp_path, max_usd=1.0)
    prices.write_text("{}")
    with pytest.raises(UnmaskError, match=r'has no prices "in" and "out" of model \'fake\''):
        evaluated(FakeServer(text=sums), tmp_path, prices=prices)


def test_refusals_stop_the_run_and_name_the_field(tmp_path):
    _, (run,) = evaluated(FakeServer(text=sums), tmp_path, send={"min_p": 0.1}, limit=200)
    assert run.refused
    assert run.requests == 5  # more than 2% of 200
    assert "It names the field min_p: add --drop min_p" in run.stopped


def test_a_line_that_is_no_answer(tmp_path):
    (tmp_path / ANSWERS).write_text('{"no": "answer"}\n')
    with pytest.raises(UnmaskError, match=r"answers\.jsonl, byte 0 is not an answer"):
        evaluated(FakeServer(text=sums), tmp_path)


def test_a_system_message_needs_a_conversation(tmp_path):
    with pytest.raises(UnmaskError, match="--system needs a conversation, and diffulex has none"):
        evaluated(FakeServer("diffulex", text=sums), tmp_path, system="Add.")
    server = FakeServer(text=sums)
    server.requests = []
    evaluated(server, tmp_path, system="Add.", limit=1)
    assert server.requests[-1]["body"]["messages"][0] == {"role": "system", "content": "Add."}
