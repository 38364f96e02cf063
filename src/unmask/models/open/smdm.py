"""SMDM (arXiv 2410.18514), the network of the paper's Figure 2: Llama of transformers, under the names of Lit-GPT.

Three things differ from Llama. Queries, keys and values are one tensor, head by head. The rotary angles are rounded to
bfloat16. And the mask is a row of the embedding, but not of the head: it is read and never written.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unmask.core.errors import UnmaskError
from unmask.core.reading import fit
from unmask.models.open import weights
from unmask.models.open.body import Body, Count
from unmask.models.open.card import FAMILIES, Card, Family
from unmask.models.open.native import Native, library

SIZES = {  # the entries of its config.json, as Llama calls them, and their usual values
    "n_embd": ("hidden_size", None),
    "n_layer": ("num_hidden_layers", None),
    "n_head": ("num_attention_heads", None),
    "n_query_groups": ("num_key_value_heads", None),
    "intermediate_size": ("intermediate_size", None),
    "block_size": ("max_position_embeddings", 2048),
}
NAMES = {
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


class Rounded(nn.Module):
    """Cosines and sines in bfloat16, as SMDM publishes them."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.bfloat16().to(x.dtype) for part in self.inner(x.float(), position_ids))


def read(directory: Path, card: Card, config: dict[str, Any], dtype: torch.dtype | None) -> Body:
    where = f"{directory}/config.json"
    config = {"n_query_groups": config.get("n_head")} | config
    sizes = {llama: fit(config.get(name, usual), Count, f"{where}: {name}") for name, (llama, usual) in SIZES.items()}
    heads, groups = sizes["num_attention_heads"], sizes["num_key_value_heads"]
    if sizes["hidden_size"] % heads or heads % groups:
        problem = f"{heads} heads of {sizes['hidden_size']} numbers, and {groups} of keys and values"
        raise UnmaskError(f"{where} has {problem}; expected that they divide each other. Check its sizes.")
    symbols, transformers = fit(config.get("vocab_size"), Count, f"{where}: vocab_size"), library()
    about = {"vocab_size": symbols + 1, "rms_norm_eps": config.get("norm_eps", 1e-5), "tie_word_embeddings": False}
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **about))
        model.lm_head = nn.Linear(sizes["hidden_size"], symbols, bias=False)
    tensors = {
        name: part.to(dtype or part.dtype) for name, part in named(weights.read(directory), heads, groups).items()
    }
    try:
        model.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        raise UnmaskError(f"the weights in {directory} do not fit its config.json: {error}") from error
    model.model.rotary_emb = Rounded(type(model.model.rotary_emb)(model.config))
    return Native(model.eval().requires_grad_(False))


def named(tensors: dict[str, Tensor], heads: int, groups: int) -> dict[str, Tensor]:
    """The tensors under the names of Llama; each group of a fused one has its queries, a key and a value."""
    renamed = {}
    for name, tensor in tensors.items():
        for theirs, llama in NAMES.items():
            name = re.sub(theirs, llama, name)
        if FUSED not in name:
            renamed[name] = tensor
            continue
        parts = tensor.unflatten(0, (groups, heads // groups + 2, -1)).split([heads // groups, 1, 1], 1)
        renamed |= {
            name.replace(FUSED, f".self_attn.{kind}_proj."): p.flatten(0, 2)
            for kind, p in zip("qkv", parts, strict=True)
        }
    return renamed


FAMILIES["smdm"] = Family(("smdm",), read)
