"""Small random open models that speak: a checkpoint as it is published, with a tokenizer beside its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.models.open.small import CONFIGS, published
from tests.models.text.test_published import byte_level
from unmask.models.open.card import Card, Tokens
from unmask.models.text.published import read

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>")


def spoken(directory: Path, family: str = "llada", **fields: Any) -> str:
    """The name of a directory with a checkpoint; the JSON file of its card lies in card.json."""
    byte_level(directory, SPECIALS, {"eos_token": "<|endoftext|>", "mask_token": "<|mask|>"})
    found = read(directory)
    size = "embedding_size" if family == "llada" else "vocab_size"
    published(directory, family, CONFIGS[family] | {size: found.vocabulary})
    tokens = Tokens(mask=found.mask, eos=found.eos, pad=found.eos, end_of_turn=found.control("<|im_end|>"))
    about: dict[str, Any] = {"name": "small", "repository": "small/small", "licence": "none", "family": "mdlm"}
    card = Card(**(about | {"tokens": tokens, "template": "chatml", "context": 64} | fields))
    import msgspec

    (directory / "card.json").write_text(json.dumps(msgspec.to_builtins(card)))
    return str(directory)
