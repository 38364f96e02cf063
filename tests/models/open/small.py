"""Small random checkpoints, written as their makers publish them, and what a plain implementation says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from unmask.models.open.card import FAMILIES, Card, Tokens
from unmask.models.open.model import OpenModel
from unmask.models.open.weights import fill

V, MASK = 40, 37
LLADA = {
    "model_type": "llada",
    "d_model": 32,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 4,
    "mlp_hidden_size": 48,
    "embedding_size": V,
    "max_sequence_length": 64,
    "rope_theta": 5e5,
    "rms_norm_eps": 1e-5,
    "weight_tying": False,
}
QWEN = {
    "model_type": "a2d-qwen2",
    "vocab_size": V,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "rope_theta": 1e4,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
CONFIGS = {
    "llada": LLADA,
    "qwen2": QWEN,
    "qwen3": QWEN | {"model_type": "a2d-qwen3", "head_dim": 16, "tie_word_embeddings": True},
    "dream": QWEN | {"model_type": "Dream"},
}


def card(family: str, **fields: Any) -> Card:
    about = {"name": f"small-{family}", "repository": f"small/{family}", "licence": "none"}
    return Card(
        **(about | {"family": family, "tokens": Tokens(mask=MASK, eos=1, end_of_turn=2), "context": 64} | fields)
    )


def published(directory: Path, family: str, config: Mapping[str, Any], seed: int = 0, shards: int = 1) -> Path:
    """A random checkpoint of a family whose tensors are used as they are; norms that are not one, biases that are not
    zero."""
    directory.mkdir(parents=True, exist_ok=True)
    with torch.device("meta"):
        body = FAMILIES[family].body(config, "config.json")
    rng = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, source in FAMILIES[family].sources(body, frozenset()).items():
        shape = body.state_dict()[name].shape
        scale = 0.3 if len(shape) == 1 else shape[-1] ** -0.5
        tensors[source.names[0]] = torch.randn(shape, generator=rng, dtype=torch.float64) * scale + ("norm" in name)
    write(directory, config, tensors, shards)
    return directory


def write(directory: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], shards: int = 1) -> None:
    (directory / "config.json").write_text(json.dumps(config))
    if shards == 1:
        save_file(dict(tensors), directory / "model.safetensors")
        return
    where = {name: f"model-{index % shards + 1:05}-of-{shards:05}.safetensors" for index, name in enumerate(tensors)}
    for file in sorted(set(where.values())):
        save_file({name: tensor for name, tensor in tensors.items() if where[name] == file}, directory / file)
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))


def load(directory: Path, which: Card, dtype: torch.dtype | None = None, **options: Any) -> OpenModel:
    """Without the probe."""
    family = FAMILIES[which.family]
    with torch.device("meta"):
        body = family.body(json.loads((directory / "config.json").read_text()), "config.json")
    fill(body, family, directory, torch.device("cpu"), dtype)
    return OpenModel(which, body, **options)


def tokens(rows: int, length: int, hidden: float = 0.4, seed: int = 0) -> Tensor:
    """(B, L), V where hidden."""
    rng = torch.Generator().manual_seed(seed)
    found = torch.randint(0, V, (rows, length), generator=rng)
    found[torch.rand((rows, length), generator=rng) < hidden] = V
    return found
