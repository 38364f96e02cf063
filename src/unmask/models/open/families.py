"""Families that are Llama, Qwen2 or Qwen3 of transformers under another name, for any attention.

`loading.card_of` recognises a directory; native.py has families that transformers knows.

llada              LLaDA-8B (arXiv 2502.09992), LLaDA-1.5: Llama under its own names
qwen2, dream       Qwen2: Dream (arXiv 2508.15487) and its relatives
qwen3, sdar        Qwen3: SDAR (arXiv 2510.06303)
fast-dllm          Fast-dLLM v2 (arXiv 2509.26328): Qwen2, whose config.json has a block length
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.reading import fit
from unmask.models.open import weights
from unmask.models.open.body import Body, Count
from unmask.models.open.card import FAMILIES, Card, Family
from unmask.models.open.native import Native, has_windows, library, pretrained

Config = dict[str, Any]
NOT_OURS = ("model_type", "architectures", "auto_map", "transformers_version", "dtype", "torch_dtype")
LLADA = {  # the entries of its config.json, as Llama calls them
    "d_model": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "mlp_hidden_size": "intermediate_size",
    "embedding_size": "vocab_size",
    "max_sequence_length": "max_position_embeddings",
    "rms_norm_eps": "rms_norm_eps",
    "rope_theta": "rope_theta",
    "weight_tying": "tie_word_embeddings",
}
LLADA_TENSORS = {  # the names of its tensors, and those of Llama, which converted copies have
    r"^model\.transformer\.wte\.": "model.embed_tokens.",
    r"^model\.transformer\.ln_f\.": "model.norm.",
    r"^model\.transformer\.ff_out\.": "lm_head.",
    r"^model\.transformer\.blocks\.(\d+)\.attn_norm\.": r"model.layers.\1.input_layernorm.",
    r"^model\.transformer\.blocks\.(\d+)\.ff_norm\.": r"model.layers.\1.post_attention_layernorm.",
    r"^model\.transformer\.blocks\.(\d+)\.attn_out\.": r"model.layers.\1.self_attn.o_proj.",
    r"^model\.transformer\.blocks\.(\d+)\.([qkv])_proj\.": r"model.layers.\1.self_attn.\2_proj.",
    r"^model\.transformer\.blocks\.(\d+)\.ff_proj\.": r"model.layers.\1.mlp.gate_proj.",
    r"^model\.transformer\.blocks\.(\d+)\.up_proj\.": r"model.layers.\1.mlp.up_proj.",
    r"^model\.transformer\.blocks\.(\d+)\.ff_out\.": r"model.layers.\1.mlp.down_proj.",
}


def llada(config: Config) -> Config:
    named = {theirs: config[ours] for ours, theirs in LLADA.items() if ours in config}
    return {"rope_theta": 5e5, "rms_norm_eps": 1e-5} | named


def renamed(tensors: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, Tensor]:
    """The same tensors, their names changed by patterns."""
    by_name = {}
    for name, tensor in tensors.items():
        for pattern, replacement in names.items():
            name = re.sub(pattern, replacement, name)
        by_name[name] = tensor
    return by_name


def family(kind: str, *types: str, block: str = "", tensors: Mapping[str, str] | None = None) -> Family:
    """A family of a class of transformers; block: the name of its block length in config.json."""

    def read(directory: Path, card: Card, config: Config, dtype: torch.dtype | None) -> Body:
        entries = {name: value for name, value in config.items() if name not in NOT_OURS}
        entries = llada(entries) if kind == "Llama" else entries
        rotary = entries.pop("rope_parameters", None) or entries.pop("rope_scaling", None) or {}
        theta = rotary.get("rope_theta", entries.pop("rope_theta", 1e4))
        kinds = {"rope_type": rotary.get("rope_type", rotary.get("type", "default"))}
        try:
            shape = getattr(library(), f"{kind}Config")(
                rope_parameters=rotary | kinds | {"rope_theta": theta}, **entries
            )
        except Exception as error:  # any that transformers raises for entries that cannot be
            raise UnmaskError(f"{directory}: config.json does not fit {kind}: {error}") from error
        how: dict[str, Any] = {} if tensors is None else {"state_dict": renamed(weights.read(directory), tensors)}
        body = Native(pretrained(directory, f"{kind}ForCausalLM", dtype, config=shape, **how))
        if has_windows(shape) or not body.agrees():
            raise UnmaskError(f"{directory} has windows, or other keys than {kind}; expected full attention")
        body.block = fit(config.get(block), Count | None, f"{directory}/config.json: {block}")
        return body

    return Family(types, read)


FAMILIES |= {
    "llada": family("Llama", "llada", tensors=LLADA_TENSORS),
    "qwen2": family("Qwen2", "a2d-qwen2", "qwen2"),
    "qwen3": family("Qwen3", "a2d-qwen3", "qwen3"),
    "dream": family("Qwen2", "Dream", "dream"),
    "fast-dllm": family("Qwen2", "Fast_dLLM_Qwen", block="bd_size"),
    "sdar": family("Qwen3", "sdar"),
}
