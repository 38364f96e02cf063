"""Tokenizers as checkpoints publish them: every byte comes back, no text is ever a symbol of control, files that are
wrong are one line. Held against the package `tokenizers` itself, on tokenizers made here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from tests.models.text.test_tokenizers import LEARNT, TEXTS
from unmask import UnmaskError
from unmask.models.text.published import CONFIG, Published, read
from unmask.models.text.tokenizer import FILE

CONTROLS = ("<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>")
NAMED = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "mask_token": {"content": "<|mask|>"}}
ENCODES = settings(max_examples=100, deadline=None)


def byte_level(path: Path, specials=CONTROLS, config=NAMED) -> tokenizers.Tokenizer:
    """A byte-level BPE with specials, as those of Qwen and LLaDA are, in the files of a checkpoint."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(LEARNT, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    made.add_tokens([tokenizers.AddedToken("    ", normalized=False)])  # whitespace: no control
    made.add_special_tokens(list(specials))
    return written(path, made, config)


def sentence_piece(path: Path) -> tokenizers.Tokenizer:
    """BPE of characters with a sign for spaces and bytes to fall back on, as TinyLlama's."""
    made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>", "<s>", "</s>", *bytes_])
    made.train_from_iterator(LEARNT, trainer)
    content = json.loads(made.to_str())
    content["added_tokens"] = content["added_tokens"][:3]  # the bytes are symbols as others are
    made = tokenizers.Tokenizer.from_str(json.dumps(content))
    return written(path, made, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})


def meta_space(path: Path) -> tokenizers.Tokenizer:
    """The same in the newer form: what tells words apart puts the sign, before the first alone."""
    old = json.loads(sentence_piece(path).to_str())
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    made = tokenizers.Tokenizer.from_str(json.dumps(old | {"normalizer": None, "pre_tokenizer": space}))
    return written(path, made, {"eos_token": "</s>", "unk_token": "<unk>"})


def written(path: Path, made: tokenizers.Tokenizer, config: dict) -> tokenizers.Tokenizer:
    path.mkdir(exist_ok=True)
    (path / FILE).write_text(made.to_str())
    (path / CONFIG).write_text(json.dumps(config))
    return made


KINDS = {"byte level": byte_level, "sentence piece": sentence_piece, "metaspace": meta_space}


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """(what the package makes of the files, what we make of them)."""
    path = tmp_path_factory.mktemp("files")
    return KINDS[request.param](path), read(path)


@ENCODES
@given(text=TEXTS)
def test_every_byte_comes_back_and_tokens_are_those_of_the_package(pair, text):
    theirs, ours = pair
    tokens = ours.encode(text).tolist()
    space = ours.to_dict()["content"]["pre_tokenizer"] or {}
    if space.get("type") == "Metaspace" and text.startswith((" ", "\u2581")):  # to it such texts are those without one
        assert ours.decode(tokens) == text[1:].replace("\u2581", " ")
    else:
        assert ours.decode(tokens) == (text if space.get("type") == "ByteLevel" else text.replace("\u2581", " "))
    if not any(name in text for name in ours.controls):
        assert tokens == theirs.encode(text, add_special_tokens=False).ids


@ENCODES
@given(parts=st.lists(st.one_of(st.text(), st.sampled_from([*CONTROLS, "</s>", "<s>", "<|im_", "end|>", "[MASK]"]))))
def test_no_text_is_ever_a_symbol_of_control(pair, parts):
    ours = pair[1]
    text = "".join(parts)
    for tokens in (ours.encode(text), ours.encode_inside(text)):
        assert not set(ours.controls.values()) - {ours.controls.get("<unk>")} & set(tokens.tolist())


@ENCODES
@given(first=TEXTS, second=TEXTS)
def test_what_goes_on_within_a_row_has_no_space_before_it(pair, first, second):
    ours = pair[1]
    begun, inside = ours.encode(first).tolist(), ours.encode_inside(second).tolist()
    assert ours.written(inside) == second
    assert ours.written([*begun, *inside]) == ours.written(begun) + second


def test_the_roles_are_what_the_files_say(tmp_path):
    byte_level(tmp_path)
    ours = read(tmp_path)
    theirs = json.loads((tmp_path / FILE).read_text())
    numbers = {one["content"]: one["id"] for one in theirs["added_tokens"]}
    assert (ours.eos, ours.mask, ours.pad) == (numbers["<|endoftext|>"], numbers["<|mask|>"], None)
    assert ours.separator == ours.eos
    assert ours.vocabulary == max(numbers.values()) + 1
    assert ours.controls == {name: numbers[name] for name in CONTROLS}
    assert ours.control("<|im_end|>") == numbers["<|im_end|>"]
    with pytest.raises(UnmaskError, match=r"did you mean <\|im_end\|>"):
        ours.control("<|im_ends|>")
    assert ours.written([*ours.encode("a"), ours.eos, *ours.encode("b")]) == "ab"
    assert ours.decode([*ours.encode("a"), ours.eos, *ours.encode("b")]) == "a\n\nb"
    assert ours.decode([*ours.encode("a"), ours.control("<|im_end|>")]) == "a<|im_end|>"


def test_a_symbol_that_a_file_names_is_of_control_whatever_another_calls_it(tmp_path):
    """As with fast tokenizers whose added mask is not called special there."""
    made = byte_level(tmp_path, specials=CONTROLS[:-1])
    made.add_tokens([tokenizers.AddedToken("<|mask|>", normalized=False)])
    written(tmp_path, made, NAMED)
    ours = read(tmp_path)
    assert ours.mask is not None
    assert ours.mask not in ours.encode("<|mask|>")


def test_another_models_tokenizer_is_told(tmp_path):
    byte_level(tmp_path)
    ours = read(tmp_path)
    ours.check_fits(ours.vocabulary)
    ours.check_fits(ours.vocabulary + 7)  # rows that nobody uses
    ours.check_fits(ours.mask, ours.mask)  # the mask is behind the head, as SMDM's
    with pytest.raises(UnmaskError, match=r"has a symbol \d+, '<\|mask\|>'"):
        ours.check_fits(ours.mask)


GOOD = {"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, "added_tokens": []}


@pytest.mark.parametrize(
    ("content", "config", "words"),
    [
        ([], {}, "is not readable by the package tokenizers"),
        ({}, {}, "Model missing"),
        (GOOD | {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}, {}, "out of vocabulary"),
        (GOOD | {"model": {"type": "BPE", "vocab": {"a": 4 * 10**9}, "merges": []}}, {}, "go up to 4000000000"),
        (GOOD, {"eos_token": "</s>"}, "eos_token is '</s>', which is not one of its symbols"),
        (GOOD, {"eos_token": 3}, "eos_token "),
    ],
)
def test_files_that_are_wrong(tmp_path, content, config, words):
    (tmp_path / FILE).write_text(json.dumps(content))
    (tmp_path / CONFIG).write_text(json.dumps(config))
    with pytest.raises(UnmaskError, match=re.escape(words)) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_symbol_that_no_splitting_prevents_is_refused():
    """A vocabulary that reads one wherever it stands: better no tokens than those of control."""
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["</s>", -1.0], ["a", -5.0], ["<", -5.0]]}
    content = GOOD | {"model": model, "added_tokens": [{"id": 1, "content": "</s>", "special": True}]}
    content["added_tokens"][0] |= dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    coder = tokenizers.Tokenizer.from_str(json.dumps(content))
    made = Published("unigram", coder, {"unk_token": "<unk>"}, "there")
    assert made.encode("a<").tolist() == [2, 3]
    with pytest.raises(UnmaskError, match=r"contains '</s>', which unigram reads as a special symbol"):
        made.encode("a</s>")
