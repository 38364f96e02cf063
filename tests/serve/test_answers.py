"""Answers of the endpoint: those that `generate` makes, alone or in company, whole or as a stream."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serve.conftest import LIMITS, asking
from unmask.generation import generate
from unmask.hub.answering import before_any
from unmask.hub.chat import Message
from unmask.hub.prompted import Query, ending, rows_of
from unmask.serve.app import Endpoint
from unmask.serve.batches import Batches, Row, settled
from unmask.serve.requests import EACH, Completion, read
from unmask.text.published import LETTERS

SAID = [{"role": "user", "content": "the cat"}]
LUCKY = {"masked": {"sampler": "left-to-right"}, "ar": {}}


def chat(client, **fields):
    return client.post("/v1/chat/completions", json={"model": "small", "messages": SAID, "max_tokens": 8} | fields)


def completion(client, prompt="the cat", **fields):
    return client.post("/v1/completions", json={"model": "small", "prompt": prompt, "max_tokens": 8} | fields)


def lucky(model, **fields):
    return LUCKY["ar" if model.card.causal else "masked"] | {"temperature": 1.0, "seed": 5} | fields


def events(answer):
    """What a stream has sent, without its end."""
    lines = [line for line in answer.text.split("\n\n") if line]
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def streamed(answer):
    """(texts by index, reasons by index)."""
    texts, reasons = {}, {}
    for event in events(answer):
        for choice in event["choices"]:
            index = choice["index"]
            assert index not in reasons  # nothing behind an end
            text = choice["text"] if "text" in choice else choice["delta"].get("content", "")
            texts[index] = texts.get(index, "") + text
            if choice["finish_reason"]:
                reasons[index] = choice["finish_reason"]
    return texts, reasons


def made(model, asked, number, stop=None, **options):
    (row,) = rows_of(model, [asked], 8)
    found = generate(model, given=row[None], first_row=number, stop=stop, **options)
    return found, found.texts(model.tokenizer)[0]


def test_models(client, model):
    (one,) = client.get("/v1/models").json()["data"]
    assert (one["id"], one["object"], one["owned_by"]) == ("small", "model", "small/small")
    assert client.get("/v1/models/small").json() == one


def test_a_conversation_is_answered_as_generate_does(client, model):
    answer = chat(client).json()
    options = {"sampler": "llada(block_length=8)", "steps": 8}
    if model.card.causal:
        options = {"sampler": "autoregressive", "temperature": 0.0}
    asked = Query(messages=[Message("user", "the cat")])
    found, text = made(model, asked, answer["diffusion"]["first_row"], ending(model, chat=True), **options)
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": text, "refusal": None}
    assert choice["finish_reason"] == ("length" if found.reasons == ("filled",) else "stop")
    given = len(rows_of(model, [asked], 0)[0])
    written, forwards = int(found.written[0]), int(found.model_calls[0])
    assert answer["usage"] | {"forwards_details": {}} == {
        "prompt_tokens": given,
        "completion_tokens": written,
        "total_tokens": given + written,
        "forwards": forwards,
        "tokens_per_forward": written / forwards,
        "completion_tokens_details": {"canvas_tokens": 8, "pad_tokens": 8 - written, "revised_tokens": 0},
        "forwards_details": {},
    }


def test_answers_have_the_luck_of_their_seed_and_place(client, model):
    """The k-th answer to a seed is row 1024 seed + k of `generate`."""
    answer = completion(client, ["the cat", "a"], n=2, **lucky(model)).json()
    sampler = "autoregressive" if model.card.causal else "left-to-right"
    texts = []
    for place, prompt in enumerate(["the cat", "the cat", "a", "a"]):
        options = {"sampler": sampler, "temperature": 1.0, "steps": 8}
        texts.append(made(model, Query(prompt=prompt), 5 * EACH + place, ending(model), **options)[1])
    assert [choice["text"] for choice in answer["choices"]] == texts
    assert len(set(texts)) == 4
    prompts = sum(len(row) for row in rows_of(model, [Query(prompt="the cat"), Query(prompt="a")], 0))
    assert answer["usage"]["prompt_tokens"] == prompts
    others = {completion(client, temperature=1.0).json()["diffusion"]["seed"] for _ in range(2)}
    assert len(others) == 2  # where nobody says one, it is said


def test_fields_of_ours(client, model):
    if model.card.causal:
        answer = completion(client, top_k=1, temperature=1.0).json()
        assert answer["choices"][0]["text"] == completion(client).json()["choices"][0]["text"]
        return
    answer = completion(client, sampler="blocks(inner=margin)", block_length=4, steps=4, schedule="cosine").json()
    assert answer["diffusion"]["algorithm"] == "blocks(block_length=4, inner='margin')"
    assert answer["usage"]["forwards"] <= 4
    twice = completion(client, sampler="fixed-size", steps=4, guidance=1.5).json()
    assert twice["usage"]["forwards_details"]["probe"] == twice["usage"]["forwards_details"]["denoise"] > 2


def test_strings_end_an_answer_and_are_none_of_it(client, model):
    whole = completion(client, **lucky(model, max_tokens=16)).json()["choices"][0]["text"]
    places = [place for place, sign in enumerate(whole) if place and sign not in {"\ufffd", *whole[:place]}]
    sign = whole[places[0]]
    for stop in (sign, ["zzzz", sign, ""]):
        (choice,) = completion(client, stop=stop, **lucky(model, max_tokens=16)).json()["choices"]
        assert (choice["text"], choice["finish_reason"]) == (whole.partition(sign)[0], "stop")


def test_what_an_answer_begins_with(client, model):
    begun = [*SAID, {"role": "assistant", "content": "So"}]
    answer = chat(client, messages=begun).json()
    asked = Query(messages=[Message("user", "the cat")], begun="So")
    assert answer["usage"]["prompt_tokens"] == len(rows_of(model, [asked], 0)[0])
    parts = [{"role": "developer", "content": [{"type": "text", "text": "be"}, {"type": "text", "text": " brief"}]}]
    asked = Query(messages=[Message("system", "be brief"), Message("user", "the cat")])
    answer = chat(client, messages=[*parts, *SAID]).json()
    assert answer["usage"]["prompt_tokens"] == len(rows_of(model, [asked], 0)[0])


@pytest.mark.parametrize("ask", [chat, completion])
def test_a_stream_says_what_is_said_at_once(client, model, ask):
    fields = lucky(model, n=3, max_tokens=16)
    whole = ask(client, **fields).json()
    answer = ask(client, **fields, stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    texts, reasons = streamed(answer)
    for choice in whole["choices"]:
        expected = choice["message"]["content"] if ask is chat else choice["text"]
        assert texts[choice["index"]] == expected
        assert reasons[choice["index"]] == choice["finish_reason"]
    told = events(answer)[-1]["usage"]
    for usage in (told, whole["usage"]):
        usage["forwards_details"].pop("batched_idle")
    assert told == whole["usage"]
    assert sum("\ufffd" in text for text in texts.values()) > 0  # characters that never became whole: at the end
    assert len(events(answer)) > 10  # token by token
    if ask is chat:
        assert events(answer)[0]["choices"][0]["delta"]["role"] == "assistant"


@pytest.mark.parametrize(
    "sampler", ["llada(block_length=4)", "ancestral", "remdm", "gibbs", "blocks(inner=remdm)", "self-speculative"]
)
def test_no_sampler_takes_back_what_was_streamed(models, sampler):
    """Those that revise are sent when they are done."""
    fields = {"sampler": sampler, "seed": 3, "n": 2, "max_tokens": 16, "steps": 16}
    with asking(Endpoint(models["masked"], limits=LIMITS)) as client:
        whole = completion(client, **fields).json()["choices"]
        answer = completion(client, **fields, stream=True)
    texts, _ = streamed(answer)
    assert [texts[place] for place in range(2)] == [choice["text"] for choice in whole]
    if "remdm" in sampler or sampler == "gibbs":
        assert len(events(answer)) == 5  # the last one warns


def test_company_changes_nothing(model):
    """Requests of the same settings, of other prompts, seeds, lengths of prompts: one batch, and the same as alone."""
    fields = {"model": "small"} | lucky(model, max_tokens=8)
    bodies = [
        fields | {"prompt": prompt, "seed": seed, "stop": "zzz"}
        for seed, prompt in enumerate(["the cat", "a", "why? because of the dog", "the"])
    ]
    tasks = [read(json.dumps(body).encode(), Completion, model, ["small"], LIMITS) for body in bodies]
    tasks.append(read(json.dumps(bodies[0] | {"max_tokens": 6}).encode(), Completion, model, ["small"], LIMITS))

    def answered(tasks):
        """(batches, texts) of tasks that wait before anybody works."""
        found, done = {}, threading.Event()

        def tell(row, event):
            found[tasks.index(row.task)] = event.answer.text
            if len(found) == len(tasks):
                done.set()

        batches = Batches(model, LIMITS)
        batches.put([Row(task, 0, tell) for task in tasks])
        batches.start()
        assert done.wait(60)
        batches.close()
        return batches.batches, [found[place] for place in range(len(tasks))]

    count, together = answered(tasks)
    alone = [answered([task])[1][0] for task in tasks]
    assert together == alone
    assert count == 2  # the fifth has another length


@given(
    text=st.text(alphabet="abc", max_size=12),
    strings=st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=3),
    cut=st.integers(0, 12),
)
def test_what_is_settled_is_never_taken_back(text, strings, cut):
    """Of any begin of a text it is a begin of what the text comes to; and of a whole one all but what may go on."""
    whole = before_any(text, strings)
    early = settled(text[:cut], strings)
    assert whole.startswith(early)
    assert settled(text, strings) == early or len(settled(text, strings)) >= len(early)
    if not strings:
        assert early == text[:cut]


@given(text=st.text(max_size=8), cut=st.integers(0, 40))
def test_half_a_character_waits(models, text, cut):
    """Byte by byte: what is said of the first bytes is a begin of the text."""
    tokenizer = models["ar"].tokenizer
    letters = {byte: letter for letter, byte in LETTERS.items()}
    tokens = [tokenizer.numbers[letters[byte]] for byte in text.encode()]
    assert text.startswith(tokenizer.begun(tokens[:cut]))
    assert tokenizer.begun(tokens) == tokenizer.written(tokens) == text
