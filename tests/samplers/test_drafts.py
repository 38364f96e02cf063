"""Traces of other programs: drafts of a streamer, blocks of an engine, and files that are neither."""

from __future__ import annotations

import json

import pytest
import torch

from tests.needs import needs
from unmask import generate, languages
from unmask.core.errors import UnmaskError
from unmask.denoisers import as_denoiser
from unmask.diagnosis import reveal
from unmask.diagnosis.difference import difference
from unmask.diagnosis.gap import reading
from unmask.samplers import trace as traces
from unmask.samplers.trace import check

MASK = 99


def events(trace, row=0):
    check(trace)
    return trace.rows[row].events


def test_drafts_of_a_streamer():
    """Batches, drafts that change, a canvas that is padded behind its end, and probabilities of logits."""
    streamer = traces.Drafts()
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
    streamer = traces.Drafts(logits=True)
    streamer.put(torch.tensor([1]))
    logits = torch.tensor([[[0.0, 1.0, 3.0], [2.0, 0.0, 0.0]]])
    streamer.put_draft(logits=logits)
    chances = logits.double().softmax(-1).amax(-1)[0].tolist()
    assert events(streamer.trace()) == [(1, 1, 2, chances[0]), (1, 2, 0, chances[1])]
    with pytest.raises(UnmaskError, match="no drafts were received"):
        traces.Drafts().trace()


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
    streamer = traces.Drafts(logits)
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
    again = traces.read(tmp_path / "t.json")
    assert again.rows == bare.rows
    assert difference(made, again).equal
    assert not difference(generate(language, length=12, steps=4, rows=2, seed=2).trace(), again).equal
    for use in (lambda: reveal.read(language, again, 0), lambda: reading.read(as_denoiser(language), again)):
        with pytest.raises(UnmaskError, match="the trace has no probabilities, as a stream of texts or tokens"):
            use()


def test_blocks_of_an_engine(tmp_path):
    """Two requests, whose blocks come in turn: positions and steps of a second block follow those of the first."""
    about = {"length": 2, "vocabulary": 9}
    lines = [
        {"rid": "x", "steps": 3, "given": [(0, 4)], "events": [(2, 1, 5, 0.5), (3, 1, None, None), (3, 1, 6, 0.25)]},
        {"rid": "y", "steps": 1, "given": [], "events": [(1, 0, 1, None), (1, 1, 2, None)]},
        {"rid": "x", "steps": 2, "given": [], "events": [(1, 1, 7, 1.0), (2, 0, 8, 0.5)]},
    ]
    (tmp_path / "t").write_text("\n".join(json.dumps(line | about) for line in lines) + "\n")
    trace, n = traces.read(tmp_path / "t"), None
    assert (trace.vocabulary, [row.length for row in trace.rows]) == (9, [4, 2])
    assert trace.rows[0].given == [(0, 4)]
    assert events(trace) == [(2, 1, 5, 0.5), (3, 1, n, n), (3, 1, 6, 0.25), (4, 3, 7, 1.0), (5, 2, 8, 0.5)]
    assert events(trace, 1) == [(1, 0, 1, n), (1, 1, 2, n)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", 'is not a trace; expected "format": "unmask-trace"'),
        ("[1, 2]", "is not a trace"),
        ("", "is not JSON"),
        ("data: {", "is not JSON"),
        ('{"steps": 1, "rid": "x"}', "line 1"),
        ('{"rid": "x", "length": 1, "vocabulary": 2, "steps": 1, "events": []}\n{"rid": 3}', "line 2"),
        (
            '{"rid": "x", "length": 1, "vocabulary": 2, "steps": 1, "events": [[1, 1, 1, 0.5]]}',
            "position is 1; expected",
        ),
        (
            '{"rid": "x", "length": 1, "vocabulary": 2, "steps": 1, "events": [[1, 0, 1, 2.0]]}',
            "the probability is 2.0",
        ),
    ],
)
def test_files_that_are_no_trace(tmp_path, text, words):
    (tmp_path / "t").write_text(text)
    with pytest.raises(UnmaskError) as refused:
        traces.read(tmp_path / "t")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
