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

V, MASK = 40, 37
WIDTH = 32
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


def card(label: str, **fields: Any) -> Card:
    """A card; the family is that of `published`, unless it is given."""
    about = {"name": f"small-{label}", "repository": f"small/{label}", "licence": "none"}
    about |= {"family": "mdlm" if label in CONFIGS else label}
    return Card(**(about | {"tokens": Tokens(mask=MASK, eos=1, end_of_turn=2), "context": 64} | fields))


def published(directory: Path, label: str, config: Mapping[str, Any], seed: int = 0, shards: int = 1) -> Path:
    """A random checkpoint of an MDLM, which needs no library: with the vocabulary and the context of this config.json,
    norms that are not one, biases that are not zero."""
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary = config.get("vocab_size", config.get("embedding_size"))
    context = config.get("max_position_embeddings", config.get("max_sequence_length"))
    rng, at = torch.Generator().manual_seed(seed), "backbone."

    def some(*shape: int) -> Tensor:
        scale = 0.3 if len(shape) == 1 else shape[-1] ** -0.5
        return torch.randn(shape, generator=rng, dtype=torch.float64) * scale

    tensors = {f"{at}vocab_embed.embedding": some(vocabulary, WIDTH) * 2}
    tensors |= {f"{at}output_layer.norm_final.weight": some(WIDTH) + 1}
    tensors |= {f"{at}output_layer.linear.weight": some(vocabulary, WIDTH)}
    tensors |= {f"{at}output_layer.linear.bias": some(vocabulary)}
    for number in range(2):
        of = f"{at}blocks.{number}."
        tensors |= {f"{of}norm1.weight": some(WIDTH) + 1, f"{of}norm2.weight": some(WIDTH) + 1}
        tensors |= {f"{of}attn_qkv.weight": some(3 * WIDTH, WIDTH), f"{of}attn_out.weight": some(WIDTH, WIDTH)}
        tensors |= {f"{of}mlp.0.weight": some(4 * WIDTH, WIDTH), f"{of}mlp.0.bias": some(4 * WIDTH)}
        tensors |= {f"{of}mlp.2.weight": some(WIDTH, 4 * WIDTH), f"{of}mlp.2.bias": some(WIDTH)}
    sizes = {"hidden_dim": WIDTH, "n_blocks": 2, "n_heads": 4, "model_length": context, "vocab_size": vocabulary}
    write(directory, {"model_type": "mdlm"} | sizes, tensors, shards)
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
    config = json.loads((directory / "config.json").read_text())
    return OpenModel(which, FAMILIES[which.family].read(directory, which, config, dtype), **options)


def tokens(rows: int, length: int, hidden: float = 0.4, seed: int = 0) -> Tensor:
    """(B, L), V where hidden."""
    rng = torch.Generator().manual_seed(seed)
    found = torch.randint(0, V, (rows, length), generator=rng)
    found[torch.rand((rows, length), generator=rng) < hidden] = V
    return found
