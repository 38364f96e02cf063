"""What an answer has cost, and how it came about: sums, streams of canvases and edits, traces, limits, abilities."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from tests.needs import needs
from tests.serve.conftest import LIMITS, asking
from tests.serve.test_answers import SAID, chat, completion, events, lucky, streamed
from tests.serve.test_running import serving
from unmask.generation.trace import Trace, check
from unmask.hub import engine
from unmask.hub.prompted import Query, rows_of
from unmask.serve.app import Endpoint
from unmask.serve.batches import HIDDEN
from unmask.serve.requests import Limits

ASKING = ("wino", "informed-corrector", "self-speculative")  # samplers that read other contexts, too
SAMPLERS = (
    *("llada(block_length=4)", "ancestral", "remdm", "wino", "gibbs", "blocks(inner=threshold)", "informed-corrector"),
    *("self-speculative", "multi-block(block_length=4)"),
)


@pytest.fixture
def computed(monkeypatch):
    """[rows, positions] that networks have computed."""
    sums, usual = [0, 0], engine.Computer.compute

    def compute(self, tokens, rows, first, last):
        sums[0] += len(rows)
        sums[1] += int((last - first).sum())
        return usual(self, tokens, rows, first, last)

    monkeypatch.setattr(engine.Computer, "compute", compute)
    return sums


def asked(model):
    """Requests of all kinds."""
    if model.card.causal:
        return [lucky(model), lucky(model, n=3)]
    return [{"sampler": sampler, "steps": 8, "seed": 4, "n": n} for sampler in SAMPLERS for n in (1, 3)] + [
        {"sampler": "fixed-size", "steps": 4, "guidance": 1.5, "seed": 1}
    ]


def test_the_sums(client, model, computed):
    for fields in asked(model):
        computed[:] = 0, 0
        answer = completion(client, max_tokens=12, **fields).json()
        assert "usage" in answer, (fields, answer)
        usage, parts = answer["usage"], answer["usage"]["forwards_details"]
        forwards = usage["forwards"]
        assert forwards == sum(parts[name] for name in ("prefill", "denoise", "commit", "probe")) > 0
        assert sum(parts["per_block"]) + parts["prefill"] == forwards - parts["probe"]
        assert answer["meta_info"]["dllm_forward_counts"] == parts["per_block"]
        assert (forwards, parts["positions"]) == tuple(computed), fields  # those that networks have computed
        tokens = usage["completion_tokens_details"]
        assert tokens["canvas_tokens"] == 12 * fields.get("n", 1) == usage["completion_tokens"] + tokens["pad_tokens"]
        assert usage["tokens_per_forward"] == usage["completion_tokens"] / forwards
        assert parts["prefill"] == (fields.get("n", 1) if model.card.causal else 0)
        revises = fields.get("n") == 3 and any(name in fields.get("sampler", "") for name in ("remdm", "gibbs"))
        assert (tokens["revised_tokens"] > 0) >= revises, fields
        assert (parts["probe"] > 0) <= ("guidance" in fields or fields.get("sampler") in ASKING)
        assert (parts["probe"] == parts["denoise"]) == ("guidance" in fields)
        if not model.card.causal and "self" not in fields["sampler"]:  # each reads all of the row
            length = 12 + len(rows_of(model, [Query(prompt="the cat")], 0)[0])
            assert parts["positions"] == forwards * length


def test_forwards_of_blocks(models):
    with asking(Endpoint(models["masked"], limits=LIMITS)) as client:
        answer = completion(client, sampler="llada(block_length=5)", steps=6, seed=2).json()
        assert answer["usage"]["forwards_details"]["per_block"] == [3, 3]
        assert (answer["diffusion"]["blocks"], answer["diffusion"]["canvas_length"]) == (2, 5)
        assert answer["diffusion"]["deterministic"] is True  # float64
        asked = {"algorithm": "blocks(inner=fixed-size)", "steps": 4, "canvas_length": 2}
        answer = completion(client, diffusion=asked, seed=2).json()
        assert answer["usage"]["forwards_details"]["per_block"] == [1, 1, 1, 1]
        for bound, algorithm in (
            ("threshold", "threshold(threshold=0.5"),
            ("entropy_bound", "entropy-bounded(gamma=0.5"),
        ):
            answer = completion(client, diffusion={bound: 0.5}).json()
            assert answer["diffusion"]["algorithm"] == f"{algorithm}, temperature=0.0)"
            answer = completion(client, diffusion={bound: 0.5, "block_length": 4}).json()
            assert answer["diffusion"]["algorithm"].startswith("blocks(block_length=4, inner='" + algorithm)
            assert len(answer["usage"]["forwards_details"]["per_block"]) == 2


def test_a_row_that_is_done_waits_for_its_batch(models):
    """The idle passes are those between its last call and that of the batch."""
    with asking(Endpoint(models["masked"], limits=LIMITS)) as client:
        alone = completion(client, sampler="threshold(threshold=0.01)", seed=1).json()["usage"]
        assert (alone["forwards"], alone["forwards_details"]["batched_idle"]) == (1, 0)
        several = completion(client, ["a", "the cat", "why"], n=1, sampler="threshold(threshold=0.08)", seed=1).json()
        passes = several["usage"]["forwards_details"]
        assert 0 < passes["batched_idle"] <= 3 * max(passes["per_block"])


@pytest.mark.parametrize("sampler", ["llada(block_length=4)", "ancestral", "remdm", "self-speculative"])
def test_company_and_streams_change_neither_answer_nor_forwards(models, sampler):
    """Eight requests one after another, and all at once; whole, and as a stream in each mode."""
    fields = {"sampler": sampler, "temperature": 1.0, "steps": 8, "max_tokens": 12}
    limits = Limits(tokens=32, answers=4, waiting=60, batch=8, body=4000)

    def told(client, seed, **more):
        answer = completion(client, ["the cat", "a", "why? the dog"][seed % 3], seed=seed, **fields | more)
        if not more:
            whole = answer.json()
            return whole["choices"][0]["text"], whole["usage"]["forwards_details"] | {"batched_idle": None}
        usage = events(answer)[-1]["usage"]
        return streamed(answer)[0][0], usage["forwards_details"] | {"batched_idle": None}

    with serving(models["masked"], limits=limits) as server:
        import http.client

        class Client:
            def post(self, path, json):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
                connection.request("POST", path, msgspec.json.encode(json), {"content-type": "application/json"})
                body = connection.getresponse().read().decode()
                connection.close()
                return type("Reply", (), {"text": body, "json": lambda self: msgspec.json.decode(body)})()

        client = Client()
        alone = [told(client, seed) for seed in range(8)]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda seed: told(client, seed), range(8)))
        options = {"stream": True, "stream_options": {"include_usage": True}}
        for mode in ("append", "canvas", "edits"):
            assert [told(client, seed, stream_mode=mode, **options) for seed in range(3)] == alone[:3]
    assert together == alone


@pytest.mark.parametrize("sampler", ["llada(block_length=4)", "ancestral", "remdm"])
def test_streams_of_canvases_and_edits(models, sampler):
    fields = {"sampler": sampler, "temperature": 1.0, "steps": 8, "seed": 4, "stream": True, "trace": "steps"}
    model = models["masked"]
    with asking(Endpoint(model, limits=LIMITS)) as client:
        whole = completion(client, **fields | {"stream": False}).json()["choices"][0]
        drawn = events(completion(client, stream_mode="canvas", **fields))
        edited = events(completion(client, stream_mode="edits", **fields))
    canvases = [choice["canvas"] for event in drawn for choice in event["choices"] if "canvas" in choice]
    assert canvases[-1]["masked"] == 0
    assert canvases[-1]["text"].startswith(whole["text"])
    text = ""
    for event in drawn:
        for choice in event["choices"]:
            assert choice["text"] == "" or "canvas" not in choice
            text += choice["text"]
            if "canvas" in choice:
                state = choice["canvas"]
                assert state["text"].count(HIDDEN) == state["masked"]
                assert state["final_prefix"] == len(text)
                assert sampler == "remdm" or whole["text"].startswith(text)
    assert text == whole["text"]
    assert [state["forward"] for state in canvases] == sorted({state["forward"] for state in canvases})
    canvas, steps = {}, {}
    for event in edited:
        for choice in event["choices"]:
            for place, token, p in choice.get("edits", ()):
                assert (p is None) == (token is None)
                assert p is None or 0 < p <= 1
                canvas[place] = token
    for _, place, token in whole["trace"]:
        steps[place] = token
    assert canvas == steps
    assert model.tokenizer.written([canvas[place] for place in sorted(canvas)]).startswith(whole["text"])


def test_traces(client, model):
    fields = lucky(model)
    alone = completion(client, trace=False, **fields).json()
    assert "trace" not in alone["choices"][0]
    for kind in ("summary", "steps", "probs", True):
        answer = completion(client, trace=kind, **fields).json()
        (choice,) = answer["choices"]
        assert choice["text"] == alone["choices"][0]["text"]
        if kind == "summary":
            assert choice["trace"]["tau"] == pytest.approx(1)
        elif kind == "probs":
            trace = msgspec.convert(choice["trace"], Trace)
            check(trace)
            assert trace.order_profile().leftmost == 1
        else:
            assert [place for _, place, _ in choice["trace"]] == list(range(len(choice["trace"])))


def test_a_trace_that_is_too_long_is_left_out_with_a_warning(client, model, monkeypatch):
    monkeypatch.setattr("unmask.serve.batches.LONGEST_TRACE", 10)
    answer = completion(client, trace="steps", **lucky(model)).json()
    assert answer["choices"][0]["trace"] is None
    assert [warning.partition(":")[0] for warning in answer["warnings"]] == ["trace has no effect"]


@pytest.mark.parametrize("most", [1, 3])
def test_a_limit_of_forwards_ends_an_answer(client, model, most):
    fields = lucky(model, max_tokens=16)
    whole = completion(client, **fields).json()["choices"][0]["text"]
    most += model.card.causal  # the prompt is read first
    answer = completion(client, diffusion={"max_forwards": most}, **fields).json()
    (choice,) = answer["choices"]
    assert answer["usage"]["forwards"] == most
    assert choice["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == most - model.card.causal
    assert whole.startswith(choice["text"].rstrip("\ufffd"))


def test_what_has_no_effect_is_told(models):
    with asking(Endpoint(models["masked"], limits=LIMITS)) as client:
        answer = chat(client, user="me", service_tier="auto", tool_choice="none", stream_mode="canvas")
        told = ["user has no effect", "service_tier has no effect", "tool_choice has no effect"]
        assert answer.json()["warnings"] == [*told, "stream_mode has no effect without stream"]
        answer = completion(client, sampler="threshold", steps=3, temperature=0).json()
        assert answer["warnings"] == ["steps has no effect on sampler threshold(temperature=0.0)"]
        assert events(completion(client, user="me", stream=True))[-1]["warnings"] == ["user has no effect"]
        assert "warnings" not in events(completion(client, stream=True))[-1]
        refused = completion(client, sampler="gibbs", diffusion={"max_forwards": 3}).json()["error"]
        assert (refused["code"], refused["param"]) == ("unsupported_for_diffusion", "diffusion.max_forwards")


def test_abilities_and_counters(client, model, computed):
    about = client.get("/v1/models").json()["data"][0]["diffusion"]
    assert ("llada" in about["algorithms"], "autoregressive" in about["algorithms"]) == (
        not model.card.causal,
        model.card.causal,
    )
    assert about["limits"]["tokens"] == 32
    assert about["canvas_lengths"] == {"least": 1, "most": 32}
    body = {"model": "small", "prompt": "a"} | about["defaults"]  # they can be sent
    assert client.post("/v1/completions", json=body).status_code == 200
    completion(client, n=2, **lucky(model))
    counters = {}
    for line in client.get("/metrics").text.splitlines():
        if not line.startswith("#"):
            name, value = line.split()
            counters[name.removeprefix("unmask_")] = int(value)
    assert (counters["forward_rows_total"], counters["forward_positions_total"]) == tuple(computed)
    assert (counters["answers_total"], counters["batches_total"], counters["queue"]) == (3, 2, 0)
    assert 0 < counters["forwards_total"] < counters["forward_rows_total"]


@needs("openai")
def test_the_client_of_openai_in_every_mode(models):
    import openai

    with (
        serving(models["masked"]) as server,
        openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client,
    ):
        ask = {"model": "small", "messages": SAID, "max_tokens": 8, "seed": 3}
        extra = {"diffusion": {"algorithm": "llada", "block_length": 4}, "trace": "probs"}
        whole = client.chat.completions.create(**ask, extra_body=extra)
        assert whole.usage.forwards == sum(whole.usage.forwards_details["per_block"]) == 8
        assert whole.usage.completion_tokens_details.canvas_tokens == 8
        assert whole.diffusion["deterministic"] is True
        for mode in ("append", "canvas", "edits"):
            chunks = list(
                client.chat.completions.create(
                    **ask,
                    extra_body=extra | {"stream_mode": mode},
                    stream=True,
                    stream_options={"include_usage": True},
                )
            )
            said = [choice for chunk in chunks for choice in chunk.choices]
            assert "".join(choice.delta.content or "" for choice in said) == whole.choices[0].message.content
            assert chunks[-1].usage.forwards == 8
            assert sum(hasattr(choice, mode) for choice in said) == (0 if mode == "append" else 8)
            assert said[-1].trace == whole.choices[0].trace
            assert chunks[-1].usage.forwards_details | {"batched_idle": 0} == whole.usage.forwards_details
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(**ask, logprobs=True)
        assert (refused.value.param, refused.value.code) == ("logprobs", "unsupported_for_diffusion")
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(**ask, extra_body={"diffusion": {"revise": True}})
        assert refused.value.param == "diffusion.revise"
