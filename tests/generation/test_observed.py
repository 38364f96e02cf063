"""Streams of other programs as traces: what each step shows, aligned and counted, and what a file is recognised as."""

from __future__ import annotations

import json
import math

import pytest
import torch

from tests.needs import needs
from unmask import generate, languages
from unmask.core.errors import UnmaskError
from unmask.diagnosis import reveal
from unmask.diagnosis.difference import difference
from unmask.diagnosis.gap import reading
from unmask.generation import observed
from unmask.generation.trace import check
from unmask.ideal import as_denoiser

MASK = 99


def events(trace, row=0):
    check(trace)
    return trace.rows[row].events


def chunk(text, index=0):
    return {"object": "chat.completion.chunk", "choices": [{"index": index, "delta": {"content": text}}]}


def saved(tmp_path, objects, sse=True):
    """A file of server-sent events, or of JSON Lines."""
    lines = [f"data: {json.dumps(one)}\n" if sse else json.dumps(one) for one in objects]
    (tmp_path / "s").write_text("\n".join([": a comment", "event: append", *lines, "data: [DONE]"] if sse else lines))
    return tmp_path / "s"


def test_whole_canvases_are_aligned_with_the_last(tmp_path):
    """An inserted word moves no other; a replaced word is hidden first; what is not in the last text has no place."""
    texts = ["xx cat qq", "the cat qq mat", "the cat sat on mat", "the cat sat on the mat", None]
    trace = observed.read(saved(tmp_path, [chunk(text) for text in texts]))
    words = trace.symbols
    told = [(step, place, words[str(token)] if token is not None else None) for step, place, token, _ in events(trace)]
    assert told[:2] == [(1, 1, " cat"), (2, 0, "the")] or told[0] == (1, 0, "xx")
    assert {place: token for _, place, token in told if token is not None} == dict(
        enumerate(["the", " cat", " sat", " on", " the", " mat"])
    )
    last = {place: step for step, place, token, _ in events(trace)}
    assert (last[1], last[4]) == (1, 4)
    assert trace.rows[0].length == 6
    assert not trace.likely


def test_several_answers_and_chunks_that_append(tmp_path):
    trace = observed.of_diffusing([chunk("a b", 0), chunk("c", 1), chunk("a d", 0), chunk("c d", 1)])
    assert [row.length for row in trace.rows] == [2, 2]
    with pytest.raises(UnmaskError, match="answer 0 append text; expected the whole text"):
        observed.read(saved(tmp_path, [chunk(text) for text in ("the", " cat", " sat", " on")]))


def test_snapshots_of_a_window(tmp_path):
    """A prompt of 5 tokens; two blocks of 3, an edit, and finished tokens; steps are forward passes."""
    stream = [
        {"token_ids": [MASK] * 3, "absolute_start": 5, "absolute_end": 8, "nfe": 0},
        {"token_ids": [7, MASK, MASK], "absolute_start": 5, "absolute_end": 8, "nfe": 1},
        {"token_ids": [8, MASK, 9], "absolute_start": 5, "absolute_end": 8, "nfe": 2},
        {"token_ids": [8, 3, 9], "token_offset": 0, "nfe": 3, "finished": False},
        {"token_ids": [MASK, 4, MASK], "absolute_start": 8, "absolute_end": 11, "nfe": 5},
        {"token_ids": [1, 4, 2], "token_offset": 3, "nfe": 6, "finished": True},
    ]
    trace = observed.read(saved(tmp_path, stream))
    n = None
    first = [(1, 0, 7, n), (2, 0, n, n), (2, 0, 8, n), (2, 2, 9, n), (3, 1, 3, n)]
    assert events(trace) == [*first, (5, 4, 4, n), (6, 3, 1, n), (6, 5, 2, n)]
    assert trace.order_profile().tokens_per_step == pytest.approx(6 / 4)
    assert trace.order_profile().certain is trace.order_profile().nats_per_token is None
    assert events(observed.of_snapshots(stream, mask=MASK)) == events(trace)
    assert len(events(observed.of_snapshots(stream, mask=7))) > len(events(trace))


def test_trajectories(tmp_path):
    outputs = [
        {"text": "x", "token_ids": [5, 6, 7], "trajectory": [2, 0, 2], "logprobs": [-1.0, 0.0, -2.0]},
        {"text": "y", "token_ids": [5, 6], "trajectory": [0, 1]},
    ]
    trace = observed.read(saved(tmp_path, outputs, sse=False))
    assert events(trace) == [(1, 1, 6, 1.0), (3, 0, 5, math.exp(-1)), (3, 2, 7, math.exp(-2))]
    assert events(trace, 1) == [(1, 0, 5, None), (2, 1, 6, None)]
    assert events(observed.read(saved(tmp_path, [outputs], sse=False))) == events(trace)  # a list of all


def test_edits_are_the_trace_of_generate(tmp_path):
    """Of a sampler that re-masks: the changes of each step, as a server sends them, are its trace again."""
    made = generate(
        languages.load("paper-2gram"), sampler="remdm", length=12, steps=8, rows=2, seed=3, trace=True
    ).trace()
    stream = []
    for index, row in enumerate(made.rows):
        for step in row.steps():
            edits = [(place, *step.after.get(place, (None, None))) for place in {*step.revealed, *step.hidden}]
            stream.append({"choices": [{"index": index, "delta": {}, "edits": edits}]})
    trace = observed.read(saved(tmp_path, stream))
    assert trace.likely
    for ours, theirs in zip(trace.rows, made.rows, strict=True):
        assert [step.after for step in ours.steps()] == [step.after for step in theirs.steps()]


def test_drafts_of_a_streamer():
    """Batches, drafts that change, a canvas that is padded behind its end, and probabilities of logits."""
    streamer = observed.Drafts()
    streamer.put(torch.tensor([[1, 2], [1, 3]]))
    for canvas in ([[4, 5], [6, 7]], [[4, 6], [6, 7]]):
        streamer.put_draft(value=torch.tensor(canvas))
    streamer.put(torch.tensor([[4, 6], [6, 0]]))
    streamer.put_draft(value=torch.tensor([[8, 8], [0, 0]]))
    streamer.end()
    trace, n = streamer.trace(), None
    assert trace.rows[0].given == [(0, 1), (1, 2)]
    assert events(trace) == [(1, 2, 4, n), (1, 3, 5, n), (2, 3, n, n), (2, 3, 6, n), (4, 4, 8, n), (4, 5, 8, n)]
    assert events(trace, 1)[2:4] == [(3, 3, n, n), (3, 3, 0, n)]
    streamer = observed.Drafts(logits=True)
    streamer.put(torch.tensor([1]))
    logits = torch.tensor([[[0.0, 1.0, 3.0], [2.0, 0.0, 0.0]]])
    streamer.put_draft(logits=logits)
    chances = logits.double().softmax(-1).amax(-1)[0].tolist()
    assert events(streamer.trace()) == [(1, 1, 2, chances[0]), (1, 2, 0, chances[1])]
    with pytest.raises(UnmaskError, match="no drafts were received"):
        observed.Drafts().trace()


@needs("hub")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the import of transformers
@pytest.mark.parametrize("logits", [False, True])
def test_drafts_of_a_random_diffusion_gemma(logits):
    """Of Transformers itself: the trace ends with its output, and has a step for each of its forward passes."""
    from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion

    torch.manual_seed(0)
    tiny = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
    tiny |= {"head_dim": 8, "global_head_dim": 8}
    text = tiny | {"vocab_size": 32, "num_hidden_layers": 2, "sliding_window": 16, "num_experts": 2}
    text |= {"top_k_experts": 1, "moe_intermediate_size": 8, "layer_types": ["sliding_attention", "full_attention"]}
    image = {"image_token_id": 31, "boi_token_id": 30, "eoi_token_id": 29}
    vision = tiny | {"num_hidden_layers": 1, "patch_size": 4}
    config = DiffusionGemmaConfig(text_config=text, vision_config=vision, canvas_length=8, **image)
    model = DiffusionGemmaForBlockDiffusion(config).eval()
    streamer = observed.Drafts(logits)
    made = model.generate(torch.tensor([[2, 3, 4]]), max_new_tokens=16, max_denoising_steps=4, streamer=streamer)
    trace = streamer.trace()
    check(trace)
    assert [trace.rows[0].final[place] for place in range(trace.rows[0].length)] == made.sequences[0].tolist()
    assert trace.likely == logits
    steps = len({event[0] for event in trace.rows[0].events})
    assert steps == 8  # of a random network: each draft differs
    assert float(made.tokens_per_forward[0]) == 16 / steps


def test_unknown_probabilities(tmp_path):
    """They are null in a file; nothing is computed from them, and traces are compared by their tokens."""
    language = languages.load("paper-2gram")
    made = generate(language, length=12, steps=4, rows=2, seed=1).trace()
    bare = made.bare()
    bare.write(tmp_path / "t.json")
    again = observed.read(tmp_path / "t.json")
    assert again.rows == bare.rows
    assert difference(made, again).equal
    assert not difference(generate(language, length=12, steps=4, rows=2, seed=2).trace(), again).equal
    for use in (lambda: reveal.read(language, again, 0), lambda: reading.read(as_denoiser(language), again)):
        with pytest.raises(UnmaskError, match="the trace has no probabilities, as a stream of texts or tokens"):
            use()
    assert (again.order_profile().tau, again.order_profile().certain) == (made.order_profile().tau, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", 'is not a trace; expected "format": "unmask-trace"'),
        ("[1, 2]", "is not a trace"),
        ("", "is not JSON"),
        ("data: {", "is not JSON"),
        ('{"choices": [{"edits": [[0, 1]]}]}', "looks like a stream of edits, but an entry is missing"),
        ('{"trajectory": [1, 2], "token_ids": [1]}', "looks like a stream of trajectories, but an entry is missing"),
        ('{"steps": 1, "rid": "x"}', "looks like a stream of blocks, but an entry is missing"),
        ('{"choices": [{"edits": [[-1, 1, 0.5]]}]}', "rows[0].length is 0; expected"),
        ('{"choices": [{"edits": [[0, 1, 2.0]]}]}', "row 0, event 0: the probability is 2.0"),
        ('{"choices": [{"edits": [["x", 1, 0.5]]}]}', "looks like a stream of edits, but an entry is missing"),
        ('{"absolute_start": -3, "token_ids": "ab"}', "looks like a stream of snapshots, but an entry is missing"),
    ],
)
def test_files_that_are_no_stream(tmp_path, text, words):
    (tmp_path / "t").write_text(text)
    with pytest.raises(UnmaskError) as refused:
        observed.read(tmp_path / "t")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
