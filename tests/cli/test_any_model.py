"""Every command that takes a model takes any of transformers, and your own by module:Name: one line each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models.open import foreign
from tests.models.open.test_any import MINE
from tests.needs import needs, require

COMMANDS = {  # the words of each command, the flag of its model, and the sentence of an AR model, if it refuses one
    "generate": (("--prompt", "the cat", "--steps", 4, "--length", 8, "--out", "g.jsonl"), "--model", "autoregressive"),
    "gap": (("--steps", 4, "--length", 8, "--rows", 20), "--model", "autoregressive"),
    "play": (("--gap", "--steps", 4, "--length", 8, "--out", "p.json"), "--model", "autoregressive"),
    "plan": (("--prompts", "p.jsonl", "--length", 8), "--model", "is an AR model, which needs one step per token"),
    "model judge": (("t.jsonl", "--draws", 4), "--by", ""),
    "eval run": (("--task", "sums(shots=0, terms=2)", "--limit", 2, "--length", 8, "--engine", "here"), "--model", ""),
    "show model": ((), "", ""),
}
KINDS = ("BertForMaskedLM", "ModernBertForMaskedLM", "LlamaForCausalLM")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    require("open")
    place = tmp_path_factory.mktemp("saved")
    for kind in KINDS:
        foreign.made(kind, place / kind, max_position_embeddings=128)
    return place


@pytest.fixture
def place(run):
    Path("p.jsonl").write_text('"the cat"\n"a mat on"\n')
    Path("t.jsonl").write_text('"the cat sat on a mat"\n"you saw that house"\n')
    return run


@pytest.mark.sampled(12)
@needs("open")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_transformers_in_every_command(place, saved, kind, command):
    Path("m").symlink_to(saved / kind)
    words, flag, refusal = COMMANDS[command]
    ran = place(*command.split(), *words, *([flag] if flag else []), "m", "--json")
    if refusal and "Causal" in kind:
        assert (ran.code, refusal in ran.err, ran.err.count("\n")) == (2, True, 1)
        return
    assert ran.code == 0, ran.err
    noted = f"{kind}, read without a card: attention bidirectional, mask [MASK] (4), frame [CLS] (2) .. [SEP] (3)"
    assert (noted in ran.err) == ("Masked" in kind and command not in ("show model", "eval run"))


@needs("open")
def test_a_directory_of_an_ar_model_writes_from_left_to_right(place, saved):
    Path("m").symlink_to(saved / "LlamaForCausalLM")
    options = ("--sampler", "autoregressive", "--length", 8, "--out", "a.txt")
    assert place("generate", "--model", "m", "--prompt", "the cat", *options).code == 0


OWN = {
    "generate": (("--steps", 4, "--length", 8, "--rows", 3, "--out", "g.npy"), "--model"),
    "gap": (("--steps", 4, "--length", 8, "--rows", 20), "--model"),
    "play": (("--gap", "--steps", 4, "--length", 8, "--rows", 3, "--out", "p.json"), "--model"),
}
TEXTS = ("plan", "model judge", "eval run")  # which need a tokenizer


@pytest.mark.parametrize("name", ["mine.py:Uniform(symbols=5)", "mine.py:network"])
@pytest.mark.parametrize("command", OWN)
def test_your_own_class_or_function(place, name, command):
    Path("mine.py").write_text(MINE)
    words, flag = OWN[command]
    ran = place(*command.split(), *words, flag, name, "--json")
    assert ran.code == 0, ran.err
    if command == "gap" and "Uniform" in name:
        assert '"value": 0.0' in json.dumps(ran.result)


@pytest.mark.parametrize("name", ["mine.py:Uniform", "mine.py:network"])
@pytest.mark.parametrize("command", TEXTS)
def test_a_model_without_a_tokenizer_says_what_it_lacks(place, name, command):
    Path("mine.py").write_text(MINE)
    words, flag, _ = COMMANDS[command]
    ran = place(*command.split(), *words, flag, name)
    assert ran.code == 2
    assert "tokenizer" in ran.err
    assert ran.err.strip().count("\n") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gap", "--model", "mine.py:Nothing"), "Nothing"),
        (("gap", "--model", "mine.py:Uniform", "--dtype", "float32"), "--dtype is for checkpoints"),
        (
            ("gap", "--model", "mine.py:Uniform", "--batch", 2),
            "Write it as an option of its name: module:Name(batch=..)",
        ),
        (("plan", "--model", "mine.py:Uniform", "--target", "10%"), "Add --prompts or --texts"),
        (("generate", "--model", "mine.py:Uniform", "--out", "a.txt"), "expected .npy or .jsonl"),
    ],
)
def test_mistakes(place, words, message):
    Path("mine.py").write_text(MINE)
    ran = place(*words)
    assert (ran.code, ran.err.strip().count("\n")) == (2, 0)
    assert message in ran.err
