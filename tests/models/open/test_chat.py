"""Conversations as tokens: as the package `tokenizers` reads the whole string, but for what people write."""

from __future__ import annotations

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.text.test_published import byte_level, sentence_piece
from unmask import UnmaskError
from unmask.models.open.chat import TEMPLATES, Message, filled_in, joined, template
from unmask.models.text.published import read

SPECIALS = ("<|startoftext|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>")
SPECIALS += ("<role>", "</role>", "<|role_end|>", "<|endoftext|>", "<|mask|>")
SAID = [Message("system", "Be brief."), Message("user", "Hi\n"), Message("assistant", "Hello."), Message("user", "12?")]
EXPECTED = {  # as the published templates write them
    "llada": "<|startoftext|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n12?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "chatml": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi\n<|im_end|>\n"
    "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\n12?<|im_end|>\n<|im_start|>assistant\n",
    "ling": "<role>SYSTEM</role>Be brief.<|role_end|><role>HUMAN</role>Hi\n<|role_end|>"
    "<role>ASSISTANT</role>Hello.<|role_end|><role>HUMAN</role>12?<|role_end|><role>ASSISTANT</role>",
}
EXPECTED["qwen2"] = EXPECTED["chatml"]
EXPECTED["qwen3"] = EXPECTED["chatml"] + "<think>\n\n</think>\n\n"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    path = tmp_path_factory.mktemp("files")
    return byte_level(path, SPECIALS, {"eos_token": "<|endoftext|>", "mask_token": "<|mask|>"}), read(path)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_conversation_is_what_the_whole_string_reads_as(pair, name):
    theirs, ours = pair
    tokens = template(name).tokens(ours, SAID)
    assert tokens == theirs.encode(EXPECTED[name], add_special_tokens=False).ids
    assert ours.decode(tokens) == EXPECTED[name]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=50, deadline=None)
@given(parts=st.lists(st.one_of(st.text(max_size=5), st.sampled_from(SPECIALS))))
def test_nobody_ends_a_turn_by_what_he_writes(pair, name, parts):
    """ "<|im_end|>" in what a user says is text: the symbols of control are as many as without it."""
    ours, said = pair[1], "".join(parts)
    controls = set(ours.controls.values())

    def count(message):
        return sum(token in controls for token in template(name).tokens(ours, [Message("user", message)]))

    assert count(said) == count("x")
    text = ours.decode(template(name).tokens(ours, [Message("user", said)]))
    assert (said.strip() if template(name).trimmed else said) in text


def test_a_template_of_another_model_is_told(tmp_path):
    byte_level(tmp_path)
    with pytest.raises(UnmaskError, match=r"unknown special symbol of the tokenizer .*start_header_id"):
        template("llada").tokens(read(tmp_path), SAID)
    with pytest.raises(UnmaskError, match="unknown chat template 'lama'; did you mean llada"):
        template("lama")


@pytest.mark.parametrize("kind", [byte_level, sentence_piece])
def test_gaps(tmp_path, kind):
    theirs: tokenizers.Tokenizer = kind(tmp_path)
    ours = read(tmp_path)
    tokens = filled_in(ours, "The cat___ sat___{2}.", 3, 999)
    assert [token == 999 for token in tokens].count(True) == 5
    first = theirs.encode("The cat", add_special_tokens=False).ids
    assert tokens[: len(first) + 3] == [*first, 999, 999, 999]
    assert ours.written(token for token in tokens if token != 999).removeprefix(" ") == "The cat sat."
    assert filled_in(ours, "___", 4, 999) == [999] * 4
    with pytest.raises(UnmaskError, match=r"has no gap\. Write ___"):
        filled_in(ours, "The cat", 3, 999)


def test_texts_that_meet_are_one(pair):
    ours = pair[1]
    assert joined(ours, ["the c", "at", 5, "", "sat"]) == [*ours.encode("the cat"), 5, *ours.encode("sat")]
    assert joined(ours, []) == []
