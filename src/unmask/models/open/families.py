"""Families that are Llama, Qwen2 or Qwen3 of transformers under another name, for any attention.

`loading.card_of` recognises a directory; native.py has families that transformers knows.

llada              LLaDA-8B (arXiv 2502.09992), LLaDA-1.5: Llama under its own names
qwen2, dream       Qwen2: Dream (arXiv 2508.15487) and its relatives
qwen3, sdar        Qwen3: SDAR (arXiv 2510.06303)
fast-dllm          Fast-dLLM v2 (arXiv 2509.26328): Qwen2, whose config.json has a block length
smdm               SMDM (arXiv 2410.18514), the network of the paper's Figure 2: Llama under the names of Lit-GPT

Three things of SMDM differ from Llama. Queries, keys and values are one tensor, head by head. The rotary angles are
rounded to bfloat16. And the mask is a row of the embedding, but not of the head: it is read and never written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unmask.core.entries import without
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
SMDM = {  # the entries of its config.json, as Llama calls them, and their usual values
    "n_embd": ("hidden_size", None),
    "n_layer": ("num_hidden_layers", None),
    "n_head": ("num_attention_heads", None),
    "n_query_groups": ("num_key_value_heads", None),
    "intermediate_size": ("intermediate_size", None),
    "block_size": ("max_position_embeddings", 2048),
}
SMDM_TENSORS = {
    r"^transformer\.wte\.": "model.embed_tokens.",
    r"^transformer\.ln_f\.": "model.norm.",
    r"^transformer\.h\.": "model.layers.",
    r"\.norm_1\.": ".input_layernorm.",
    r"\.norm_2\.": ".post_attention_layernorm.",
    r"\.attn\.proj\.": ".self_attn.o_proj.",
    r"\.mlp\.swiglu\.w1\.": ".mlp.gate_proj.",
    r"\.mlp\.swiglu\.w2\.": ".mlp.up_proj.",
    r"\.mlp\.swiglu\.w3\.": ".mlp.down_proj.",
}
FUSED = ".attn.attn."


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
        entries = without(config, NOT_OURS)
        if kind == "Llama":
            entries = llada(entries)
        rotary = entries.pop("rope_parameters", None) or entries.pop("rope_scaling", None) or {}
        theta = rotary.get("rope_theta", entries.pop("rope_theta", 1e4))
        kinds = {"rope_type": rotary.get("rope_type", rotary.get("type", "default"))}

        try:
            shape = getattr(library(), f"{kind}Config")(
                rope_parameters=rotary | kinds | {"rope_theta": theta}, **entries
            )
        except Exception as error:  # any that transformers raises for entries that cannot be
            raise UnmaskError(f"{directory}: config.json does not fit {kind}: {error}") from error

        how: dict[str, Any] = {"config": shape}
        if tensors is not None:
            how["state_dict"] = renamed(weights.read(directory), tensors)
        body = Native(pretrained(directory, f"{kind}ForCausalLM", dtype, **how))
        if has_windows(shape) or not body.agrees():
            raise UnmaskError(f"{directory} has windows, or other keys than {kind}; expected full attention")
        body.block = fit(config.get(block), Count | None, f"{directory}/config.json: {block}")
        return body

    return Family(types, read)


class Rounded(nn.Module):
    """Cosines and sines in bfloat16, as SMDM publishes them."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.bfloat16().to(x.dtype) for part in self.inner(x.float(), position_ids))


def read_smdm(directory: Path, card: Card, config: Config, dtype: torch.dtype | None) -> Body:
    where = f"{directory}/config.json"
    config = {"n_query_groups": config.get("n_head")} | config
    sizes = {llama: fit(config.get(name, usual), Count, f"{where}: {name}") for name, (llama, usual) in SMDM.items()}
    heads, groups = sizes["num_attention_heads"], sizes["num_key_value_heads"]
    if sizes["hidden_size"] % heads or heads % groups:
        raise UnmaskError(
            f"{where} has {heads} heads of {sizes['hidden_size']} numbers, and {groups} of keys and values",
            "expected that they divide each other",
            "Check its sizes.",
        )

    symbols = fit(config.get("vocab_size"), Count, f"{where}: vocab_size")
    transformers = library()
    about = {"vocab_size": symbols + 1, "rms_norm_eps": config.get("norm_eps", 1e-5), "tie_word_embeddings": False}
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **about))
        model.lm_head = nn.Linear(sizes["hidden_size"], symbols, bias=False)

    tensors = split(renamed(weights.read(directory), SMDM_TENSORS), heads, groups)
    tensors = {name: part.to(dtype or part.dtype) for name, part in tensors.items()}
    try:
        model.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        raise UnmaskError(f"the weights in {directory} do not fit its config.json: {error}") from error

    model.model.rotary_emb = Rounded(type(model.model.rotary_emb)(model.config))
    return Native(model.eval().requires_grad_(False))


def split(tensors: Mapping[str, Tensor], heads: int, groups: int) -> dict[str, Tensor]:
    """The tensors with separate queries, keys and values; a group of a fused one has its queries, a key and a value."""
    apart = {name: tensor for name, tensor in tensors.items() if FUSED not in name}
    for name in tensors.keys() - apart.keys():
        parts = tensors[name].unflatten(0, (groups, heads // groups + 2, -1)).split([heads // groups, 1, 1], 1)
        for kind, part in zip("qkv", parts, strict=True):
            apart[name.replace(FUSED, f".self_attn.{kind}_proj.")] = part.flatten(0, 2)
    return apart


FAMILIES |= {
    "llada": family("Llama", "llada", tensors=LLADA_TENSORS),
    "qwen2": family("Qwen2", "a2d-qwen2", "qwen2"),
    "qwen3": family("Qwen3", "a2d-qwen3", "qwen3"),
    "dream": family("Qwen2", "Dream", "dream"),
    "fast-dllm": family("Qwen2", "Fast_dLLM_Qwen", block="bd_size"),
    "sdar": family("Qwen3", "sdar"),
    "smdm": Family(("smdm",), read_smdm),
}
