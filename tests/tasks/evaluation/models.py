"""Small random models that read any text, a letter a symbol, with room for long prompts: masked, and AR."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import tokenizers
from tokenizers import decoders, models

from tests.models.open import small
from unmask.models.open.card import Card, Tokens
from unmask.models.text.tokenizer import FILE

CONTEXT = 4096
SIGNS = "abcdefghijklmnopqrstuvwxyz ?\n0123"
ROLES = {"eos_token": "<|endoftext|>", "mask_token": "<|mask|>", "unk_token": "?"}


def characters(directory: Path, mask: int | None, eos: int) -> None:
    """Forty symbols; what none of them is, is a question mark."""
    special = {"<|endoftext|>": eos, "<|im_end|>": 3 - eos, "<|im_start|>": 3} | (
        {} if mask is None else {"<|mask|>": mask}
    )
    free = [number for number in range(40) if number not in special.values()]
    made = tokenizers.Tokenizer(models.BPE(dict(zip(SIGNS, free, strict=False)) | special, [], unk_token="?"))
    made.decoder = decoders.Fuse()
    content = json.loads(made.to_str())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}
    content["added_tokens"] = [{"id": number, "content": name} | flags for name, number in sorted(special.items())]
    (directory / FILE).write_text(json.dumps(content))
    roles = {role: symbol for role, symbol in ROLES.items() if symbol in special or symbol == "?"}
    (directory / "tokenizer_config.json").write_text(json.dumps(roles))


def kept(place: Path, card: Card) -> Path:
    characters(place, card.tokens.mask, card.tokens.eos)
    place.with_suffix(".json").write_text(json.dumps(msgspec.to_builtins(card)))
    return place


def masked(place: Path, seed: int = 0) -> Path:
    """LLaDA's family; its card in PLACE.json beside the directory."""
    small.published(place, "llada", small.LLADA | {"max_sequence_length": CONTEXT}, seed)
    return kept(place, small.card("llada", context=CONTEXT, template="chatml"))


def causal(place: Path) -> Path:
    """Weights that are read from left to right: a card that says so."""
    small.published(place, "qwen2", small.CONFIGS["qwen2"] | {"max_position_embeddings": CONTEXT}, 1)
    tokens = Tokens(mask=None, eos=1, end_of_turn=2, bos=3)
    return kept(place, small.card("qwen2", name="small-reader", context=CONTEXT, block=1, tokens=tokens))
