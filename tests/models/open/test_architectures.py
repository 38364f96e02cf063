"""Architectures of transformers, and what is peculiar to their checkpoints: as the library reads them, or refused."""

from __future__ import annotations

import re

import pytest
import torch

import unmask
from benchmarks.architectures import CAUSAL, MASKED, MOST, PECULIAR, made, peculiar, tried
from tests.needs import needs
from unmask.core import progress

FEW = ("roberta", "distilbert", "gpt2", "qwen3")
REFUSED = {
    "no tokenizer: a masked model": "no tokenizer in it has a mask token; expected one",
    "a tokenizer without words": r"no words for its tokenizer; expected .*, or merges\.txt and vocab\.json\. Download",
    "a missing weight": r"do not fit its config\.json: .*missing_keys",
    "a vocabulary larger than the weights": r"do not fit its config\.json: .*mismatched_keys",
}
NOTES = {
    "buffers of old releases": r"ignored tensors, which .*: 'transformer\.h\.0\.attn\.masked_bias'",
    "an end beyond the vocabulary": "ignored eos_token_id 50256, as the vocabulary has 40 tokens",
}
pytestmark = [needs("open"), pytest.mark.filterwarnings("ignore")]  # those of transformers


@pytest.mark.sampled(42)
@pytest.mark.parametrize(
    "kind",
    [kind if kind in FEW else pytest.param(kind, marks=pytest.mark.long) for kind in f"{MASKED} {CAUSAL}".split()],
)
def test_an_architecture_says_what_the_library_says(kind):
    row = tried(kind)
    assert row.difference is not None, row
    assert row.difference < MOST


@pytest.mark.parametrize("name", PECULIAR)
def test_a_peculiar_checkpoint(name, capsys):
    with progress.command("generate"):
        row = peculiar(name)
    said = capsys.readouterr().err
    assert re.search(NOTES.get(name, ""), said)
    assert ("ignored" in said) == (name in NOTES or "another task" in name)
    if name in REFUSED:
        assert re.search(REFUSED[name], row.reads)
    else:
        assert row.difference is not None, row
        assert row.difference < (1e-3 if "bfloat16" in name else MOST)


def test_words_of_a_file_and_ends_of_a_list(tmp_path):
    """vocab.txt beside a type whose tokenizer has other files; words with capitals are not read in small letters."""
    made("gpt2", tmp_path)
    for change in (PECULIAR["vocab.txt, where the type has other files"], PECULIAR["several ends"]):
        change[1](tmp_path)
    words = (tmp_path / "vocab.txt").read_text().replace("cat", "Cat")
    (tmp_path / "vocab.txt").write_text(words)
    model = unmask.load(tmp_path, dtype=torch.bfloat16)
    assert model.tokenizer.encode("the Cat sat").tolist() == [5, 6, 7]
    assert (model.card.tokens.eos, model.card.tokens.end_of_turn) == (3, 7)
    assert model.body.dtype == torch.bfloat16
