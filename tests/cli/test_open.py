"""unmask generate and model with open models: text in and out, and what is refused, in a line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.models.open.speaking import spoken
from tests.models.text.test_published import byte_level
from unmask import UnmaskError, generate
from unmask.cli.generate import command as generate_command
from unmask.cli.options import parser_of
from unmask.core.samples import read_tokens
from unmask.models.open import CARDS, find, load_model
from unmask.models.open.chat import TEMPLATES
from unmask.models.open.prompted import Query, ending, rows_of
from unmask.models.text import published
from unmask.samplers import trace as traces
from unmask.samplers.contract import as_sampler

MODEL = ("--model", "m", "--card", "m/card.json")


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A small LLaDA, and a small block-causal Qwen3, beside each other."""
    place = tmp_path_factory.mktemp("models")
    spoken(place / "m")
    spoken(place / "b", "qwen3", block=4, name="blocks", repository="small/blocks")
    return place


@pytest.fixture
def place(run, written):
    for name in ("m", "b"):
        Path(name).symlink_to(written / name)
    return run


def model(name="m"):
    return load_model(name, card=f"{name}/card.json", device="cpu")


def texts(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_the_player_shows_what_it_writes_behind_a_prompt(place):
    """A text: its tokens as text, the prompt as given, and nothing to hold it against."""
    options = ("--sampler", "low-confidence", "--steps", 4, "--length", 8)
    ran = place("play", *MODEL, "--prompt", "the cat", *options, "--out", "p.json", "--json")
    assert (ran.code, ran.err) == (0, "")
    trace = traces.read("p.json")
    tokenizer = model().tokenizer
    prompt = tokenizer.encode("the cat").tolist()
    (row,) = trace.rows
    assert row.given == list(enumerate(prompt))
    assert "".join(trace.symbol(token) for token in prompt) == "the cat"
    assert len(row.final) == row.length <= len(prompt) + 8
    refused = place("play", "--model", "m", "--card", "nowhere.json")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_a_prompt_is_answered_behind_it(place):
    """As in Python: the same tokens, of a row that has the prompt and --length more; the text is what was written."""
    options = ("--sampler", "llada(block_length=4)", "--steps", 8, "--length", 8, "--seed", 2)
    ran = place("generate", *MODEL, "--prompt", "the cat", *options, "--out", "a.jsonl", "--json")
    assert ran.code == 0
    found = model()
    prompt = found.tokenizer.encode("the cat").tolist()
    row = torch.tensor([*prompt, *[found.vocabulary] * 8])
    made = generate(
        found,
        sampler="llada(block_length=4)",
        steps=8,
        given=row,
        rows=1,
        seed=2,
        stop=ending(found),
    )
    assert torch.equal(read_tokens("a.jsonl"), made.tokens)
    (line,) = texts("a.jsonl")
    end = int(made.lengths[0])
    assert line["text"] == found.tokenizer.written(made.tokens[0, len(prompt) : end].tolist())
    assert line["reason"] == made.reasons[0]
    assert ran.result["tokens_written"] == end - len(prompt)
    assert ran.result["tokens_per_second"] == ran.result["tokens_written"] / ran.result["seconds"]


def test_a_turn_that_ends_ends_the_row(place):
    """EOS and the end of a turn end a row; what stands behind is filled with the padding, and is nobody's text."""
    found = model()
    ends = {found.card.tokens.eos, found.card.tokens.end_of_turn}
    (row,) = rows_of(found, [Query(prompt="Hi")], 40, chat=True)
    made = generate(found, given=row, rows=40, steps=40, sampler="left-to-right", seed=1, stop=ending(found, chat=True))
    assert "stopped" in made.reasons
    for tokens, length, reason, text in zip(
        made.tokens.tolist(), made.lengths.tolist(), made.reasons, made.texts(found.tokenizer), strict=True
    ):
        said = tokens[len(row) - 40 : length]
        assert (reason == "stopped") == (said[-1] in ends)
        assert not ends & set(said[:-1])
        assert all(token == found.card.tokens.pad for token in tokens[length:])
        assert text == found.tokenizer.written(said)
    assert int(made.written.sum()) == int((made.lengths - (len(row) - 40)).sum())


def test_prompts_of_a_file_are_rows_of_their_own(place):
    """Each line as it would be alone: ragged rows, repeated rows, conversations, texts and gaps."""
    lines = [
        '"the cat"',
        '{"prompt": "A mat, that sat"}',
        '[{"role": "user", "content": "hi"}]',
        '{"template": "a___b"}',
    ]
    Path("p.jsonl").write_text("\n".join(lines) + "\n\n")
    options = ("--sampler", "left-to-right", "--steps", 6, "--length", 6, "--temperature", 0, "--no-stop")
    made = place("generate", *MODEL, "--prompts", "p.jsonl", *options, "--rows-per-prompt", 2, "--out", "a.jsonl")
    assert made.code == 0
    found = texts("a.jsonl")
    assert [line["text"] for line in found[::2]] == [line["text"] for line in found[1::2]]
    assert len(found) == 8
    for number, line in enumerate(lines):
        Path("one.jsonl").write_text(line)
        assert place("generate", *MODEL, "--prompts", "one.jsonl", *options, "--out", "b.jsonl").code == 0
        assert texts("b.jsonl")[0]["text"] == found[2 * number]["text"]


def test_chat_is_the_conversation_of_the_template(place):
    options = ("--steps", 3, "--length", 3, "--temperature", 0, "--no-stop")
    place("generate", *MODEL, "--prompt", "hi", "--chat", "--system", "Be brief.", *options, "--out", "a.npy")
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    Path("p.jsonl").write_text(json.dumps({"messages": messages}))
    place("generate", *MODEL, "--prompts", "p.jsonl", *options, "--out", "b.npy")
    assert torch.equal(read_tokens("a.npy"), read_tokens("b.npy"))
    found = model()
    said = found.tokenizer.decode(read_tokens("a.npy")[0, :-3].tolist())
    assert said.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")


def test_gaps_are_filled_and_the_rest_stands(place):
    ran = place(
        "generate", *MODEL, "--template", "the cat___ sat___{3}.", "--length", 2, "--rows", 5, "--out", "a.jsonl"
    )
    assert ran.code == 0
    found = model().tokenizer
    pieces = [found.encode("the cat"), found.encode(" sat"), found.encode(".")]
    for line in texts("a.jsonl"):
        tokens = line["tokens"]
        assert tokens[: len(pieces[0])] == pieces[0].tolist()
        assert tokens[len(pieces[0]) + 2 :][: len(pieces[1])] == pieces[1].tolist()
        assert tokens[-len(pieces[2]) :] == pieces[2].tolist()
        assert line["text"] == found.written(tokens[len(pieces[0]) : -len(pieces[2])])


def test_until_a_text_is_complete(place):
    options = ("--sampler", "left-to-right", "--steps", 40, "--length", 40, "--rows", 20, "--no-stop", "--prompt", "a")
    ran = place("generate", *MODEL, *options, "--until", "t", "s", "--out", "a.jsonl")
    assert ran.code == 0
    found = texts("a.jsonl")
    assert {line["reason"] for line in found} >= {"stopped"}
    for line in found:
        assert (line["reason"] == "stopped") == any(sign in line["text"] for sign in "ts")


def test_without_a_prompt_the_canvas_is_the_text(place):
    assert place("generate", *MODEL, "--length", 12, "--rows", 3, "--steps", 4, "--out", "a.txt").code == 0
    assert place("generate", *MODEL, "--steps", 4, "--out", "b.npy").code == 0
    assert read_tokens("b.npy").shape == (1, 64)


def test_the_guidance_and_the_type_are_named_in_the_result(place):
    options = ("--prompt", "a", "--length", 8, "--steps", 8, "--guidance", 0.5)
    assert place("generate", *MODEL, *options, "--dtype", "float32", "--out", "a.txt").code == 0
    account = json.loads(Path("a.txt.json").read_text())
    assert account["origin"]["configuration"]["guidance"] == 0.5
    assert account["source"]["of"]["dtype"] == "float32"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--prompt", "a", "--length", 99), "prompt 0 ('a') and its answer have 100 tokens; expected at most 64"),
        (("--prompt", "a", "--prompts", "p.jsonl"), "exclude each other"),
        (("--prompt", "a", "--given", "p.npy"), "exclude each other"),
        (("--template", "a"), "the template 'a' has no gap. Write ___"),
        (("--template", "___{99999}"), "99999 tokens; expected at most 64"),
        (("--template", "a___", "--chat"), "--chat needs a user message"),
        (("--chat",), "--chat needs a user message"),
        (("--prompt", "a", "--system", "b"), "--system needs --chat"),
        (("--prompts", "nowhere.jsonl"), "cannot read nowhere.jsonl"),
        (("--prompts", "empty.jsonl"), "contains no prompts"),
        (("--prompts", "odd.jsonl"), "odd.jsonl, line 1: it is a whole number; expected"),
        (("--prompts", "both.jsonl"), "expected one of prompt, messages and template"),
        (("--prompts", "other.jsonl"), "unknown key"),
        (("--prompts", "role.jsonl"), "role"),
        (("--prompts", "turn.jsonl"), "the last message is not of the user"),
        (("--prompts", "p.jsonl", "--rows", 3), "--rows is 3; 2 prompts with"),
        (("--rows-per-prompt", 2), "--rows-per-prompt needs prompts"),
        (("--prompt", "a", "--length", 0), "--length is 0"),
        (("--prompt", "a", "--dtype", "int8"), "dtype"),
        (("--language", "interval-5"), "expected either --language"),
        (("--prompt", "a", "--sampler", "autoregressive"), "need an AR model"),
    ],
)
def test_mistakes(place, arguments, words):
    Path("p.jsonl").write_text('"a"\n"b"\n')
    Path("empty.jsonl").write_text("\n")
    Path("odd.jsonl").write_text("3\n")
    Path("both.jsonl").write_text('{"prompt": "a", "template": "___"}\n')
    Path("other.jsonl").write_text('{"prompt": "a", "steps": 3}\n')
    Path("role.jsonl").write_text('[{"role": "robot", "content": "a"}]\n')
    Path("turn.jsonl").write_text('[{"role": "assistant", "content": "a"}]\n')
    ran = place("generate", *MODEL, *arguments, "--out", "a.txt")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err
    assert not Path("a.txt").exists()


@pytest.mark.parametrize(
    "option", [("--prompts", "x"), ("--chat",), ("--until", "x"), ("--no-stop",), ("--dtype", "x")]
)
def test_what_is_for_open_models_alone(run, option):
    ran = run("generate", "--language", "interval-5", *option, "--out", "a.npy")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"{option[0]} needs an open model, --model NAME" in ran.err


def test_a_model_without_conversations_or_a_tokenizer_says_so(place, written, tmp_path):
    found = model()
    base = load_model("m", card=card_with(template=None), device="cpu")
    with pytest.raises(UnmaskError, match="small has no chat template"):
        rows_of(base, [Query(prompt="a")], 3, chat=True)
    found.tokenizer = None
    with pytest.raises(UnmaskError, match=r"small has no tokenizer"):
        rows_of(found, [Query(prompt="a")], 3)


def card_with(**fields):
    Path("card.json").write_text(json.dumps(json.loads(Path("m/card.json").read_text()) | fields))
    return "card.json"


def plain(value):
    return json.loads(json.dumps(value))


def test_list_and_show_say_what_cards_say(run):
    listed = run("show", "model", "--json").result
    assert listed == plain({name: msgspec.to_builtins(card) for name, card in CARDS.items()})
    assert "GSAI-ML/LLaDA-8B-Instruct" in run("show", "model").out
    shown = run("show", "model", "GSAI-ML/LLaDA-8B-Instruct")
    assert "126336" in shown.out
    assert run("show", "model", "llada-8b-instruct", "--json").result == plain(
        msgspec.to_builtins(find("llada-8b-instruct"))
    )
    assert "did you mean llada-8b-instruct" in run("show", "model", "llada-8b-instuct").err


def spoil_config(place, **fields):
    config = json.loads((place / "config.json").read_text()) | fields
    (place / "config.json").write_text(json.dumps(config))


def spoil_weights(place, change):
    tensors = load_file(place / "model.safetensors")
    change(tensors)
    save_file(tensors, place / "model.safetensors")


def shards(place):
    """Three files, of which one is missing."""
    tensors = load_file(place / "model.safetensors")
    names = sorted(tensors)
    where = {name: f"model-{index % 3}.safetensors" for index, name in enumerate(names)}
    for file in set(where.values()):
        save_file({name: tensors[name] for name in names if where[name] == file}, place / file)
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    (place / "model.safetensors").unlink()
    (place / "model-1.safetensors").unlink()


def pickled(place):
    (place / "model.safetensors").unlink()
    (place / "pytorch_model.bin").write_bytes(b"\x80")


def truncated(place):
    raw = (place / "model.safetensors").read_bytes()
    (place / "model.safetensors").write_bytes(raw[: len(raw) // 2])


def other_tokenizer(place):
    byte_level(place, [f"<|{number}|>" for number in range(99)], {"eos_token": "<|0|>", "mask_token": "<|1|>"})


def transposed(tensors):
    name = "backbone.blocks.0.mlp.0.weight"
    tensors[name] = tensors[name].T.contiguous()


def renamed(tensors):
    tensors["backbone.blocks.0.attention.weight"] = tensors.pop("backbone.blocks.0.attn_qkv.weight")


SPOILED = {  # directories, and the error of each
    "missing shard": (shards, "lacks 'model-1.safetensors', listed in model.safetensors.index.json"),
    "wrong shape": (
        lambda place: spoil_weights(place, transposed),
        "size mismatch for blocks.0.up.weight",
    ),
    "pickle": (pickled, "pickles can run any code and are not loaded"),
    "unknown type": (lambda place: spoil_config(place, model_type="nobody"), "expected one of small's family"),
    "another config": (lambda place: spoil_config(place, hidden_dim=64), "size mismatch for embed"),
    "another tokenizer": (other_tokenizer, "Use the tokenizer of this model"),
    "truncated": (truncated, "is not a complete safetensors file"),
    "another name": (
        lambda place: spoil_weights(place, renamed),
        "no 'backbone.blocks.0.attn_qkv.weight'",
    ),
    "no JSON": (lambda place: (place / "config.json").write_text("{"), "config.json is not JSON"),
    "another mask": (lambda place: spoil_config(place, mask_token_id=3), "mask_token_id is 3; expected"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SPOILED)
def test_spoiled_directories_are_told(run, tmp_path, name):
    spoil, words = SPOILED[name]
    spoken(Path("s"))
    card = Path("s/card.json").rename("card.json")
    load_model("s", card=str(card), device="cpu")
    spoil(Path("s"))
    ran = run("generate", "--model", "s", "--card", card, "--prompt", "a", "--length", 4, "--out", "a.jsonl")
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert words in ran.err


def test_a_template_of_another_tokenizer_is_a_problem(place):
    card_with(template="llada")
    with pytest.raises(UnmaskError, match="its chat template is 'llada'"):
        load_model("m", card="card.json", device="cpu")
    assert published.read("m").mask is not None


@pytest.mark.parametrize("name", sorted(CARDS))
def test_recipes_are_options_that_there_are(name):
    """And none sharpens what a sampler scores by: at T = 0 of `generate` all confidences are one."""
    for recipe in CARDS[name].recipes:
        words = shlex.split(recipe.options)
        said = vars(parser_of("unmask generate", generate_command).parse_known_args(words)[0])
        as_sampler(said.get("sampler", "ancestral"))
        assert "--temperature" not in words or float(said["temperature"]) > 0, recipe.options
        if CARDS[name].template is not None:
            assert CARDS[name].template in TEMPLATES
