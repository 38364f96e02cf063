"""Text in and out with every family: a small random checkpoint as it is published, a tokenizer of letters beside it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from tests.models.open import small, test_dense, test_dit, test_smdm
from tests.needs import needs
from unmask.core.samples import read_tokens
from unmask.models.open.card import Tokens
from unmask.models.text.tokenizer import FILE

LETTERS = "abcdefghijklmnopqrstuvwxyz .?"
LIBRARY = find_spec("transformers") is not None


def letters(directory: Path, mask: int, eos: int) -> None:
    """Forty symbols: of 1 and 2 one ends a text, the other a turn, 3 begins one; the mask where the card has it."""
    special = {"<|endoftext|>": eos, "<|im_end|>": 3 - eos, "<|im_start|>": 3, "<|mask|>": mask}
    free = [number for number in range(40) if number not in special.values()]
    byte_letters = [*LETTERS.replace(" ", "\u0120"), "\u010a"]  # as GPT-2 writes a space and a line end
    made = tokenizers.Tokenizer(models.BPE(dict(zip(byte_letters, free, strict=False)) | special, []))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    content = json.loads(made.to_str())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}
    content["added_tokens"] = [{"id": number, "content": name} | flags for name, number in sorted(special.items())]
    (directory / FILE).write_text(json.dumps(content))
    roles = {"eos_token": "<|endoftext|>", "mask_token": "<|mask|>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(roles))


def dense(family):
    return lambda place: test_dense.checkpoint(place, family)[2]


def dit(block):
    def make(place):
        family = "mdlm" if block is None else "bd3lm"
        small.write(
            place,
            test_dit.CONFIG | {"model_type": family} | ({"block_size": block} if block else {}),
            test_dit.tensors(),
        )
        return small.card(family, tokens=Tokens(mask=test_dit.MASK, eos=1), block=block, context=16)

    return make


def smdm(place):
    test_smdm.checkpoint(place)
    return small.card("smdm", tokens=Tokens(mask=small.V, eos=2, bos=1), context=32)


FAMILIES = {
    **{name: dense(name) for name in test_dense.FAMILIES},
    "smdm": smdm,
    "mdlm": dit(None),
    "bd3lm": dit(4),
}
OF_LIBRARY = ("smdm", *test_dense.FAMILIES)


EVERY = [pytest.param(name, marks=needs("open")) if name in OF_LIBRARY else name for name in FAMILIES]


@pytest.fixture(params=EVERY)
def family(request, run):
    """In the directory m, its card in card.json; returns how to run commands with it."""
    place = Path("m")
    place.mkdir()
    made = FAMILIES[request.param](place)
    talks = made.context >= 64
    made = msgspec.structs.replace(made, template="chatml" if talks else None)
    letters(place, made.tokens.mask, made.tokens.eos)
    Path("card.json").write_text(json.dumps(msgspec.to_builtins(made)))
    return lambda command, *words: run(command, "--model", "m", "--card", "card.json", *words), made


@pytest.mark.sampled(4)
def test_prompts_and_gaps(family):
    run, _ = family
    options = ("--length", 6, "--steps", 6, "--seed", 3, "--json")
    ran = run("generate", "--prompt", "the cat", "--rows", 2, *options, "--out", "a.jsonl")
    assert ran.code == 0, ran.err
    assert ran.result["tokens_written"] <= 12
    assert int(read_tokens("a.jsonl").max()) < 40
    ran = run("generate", "--template", "a___b___.", "--length", 2, "--out", "b.txt")
    assert ran.code == 0, ran.err


@pytest.mark.sampled(4)
def test_blocks_and_thresholds_and_repairs(family):
    """Samplers of three kinds: semi-autoregressive, as many as are sure, and one that takes back."""
    run, _ = family
    for sampler in ("llada(block_length=4)", "threshold(threshold=0.3, temperature=0)", "remdm"):
        ran = run("generate", "--prompt", "ab", "--length", 8, "--steps", 4, "--sampler", sampler, "--out", "a.txt")
        assert ran.code == 0, ran.err


@needs("open")
@pytest.mark.filterwarnings("ignore")  # those of its own
def test_an_ar_model_of_transformers(run, monkeypatch):
    from tests.models.open import test_native

    Path("m").mkdir()
    test_native.made("Qwen2", "m")
    letters(Path("m"), 39, 2)
    options = ("--sampler", "autoregressive", "--length", 8, "--rows", 2)
    ran = run("generate", "--model", "m", "--prompt", "the cat", *options, "--out", "a.txt")
    assert ran.code == 0, ran.err
    ran = run("generate", "--model", "m", "--prompt", "the cat", "--length", 8, "--out", "a.txt")
    assert "Generate with --sampler autoregressive" in ran.err


def test_every_family_is_here():
    from unmask.models.open.card import FAMILIES as REGISTERED

    assert set(REGISTERED) == set(FAMILIES) | {"causal", "masked"}  # of transformers: test_any_model.py
