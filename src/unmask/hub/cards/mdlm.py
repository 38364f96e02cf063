"""MDLM (arXiv 2406.07524) and BD3-LM (arXiv 2503.09573) on OpenWebText: the small DiT, seeing all or blocks of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.cards.llada import Count, Depth
from unmask.hub.cards.qwen import of_type
from unmask.hub.dit import DiT, modulation

SHIFT, SCALE, GATE = 0, 1, 2  # of the attention; three further those of the MLP


class Config(msgspec.Struct):
    vocab_size: Count
    model_length: Count
    hidden_dim: Count
    n_blocks: Depth
    n_heads: Count
    time_conditioning: bool = False
    causal: bool = False
    block_size: Count | None = None


def body(config: Mapping[str, Any], where: str) -> Body:
    said: Config = fit(dict(config), Config, where)
    if said.time_conditioning or said.causal:
        what = "time_conditioning" if said.time_conditioning else "causal"
        raise UnmaskError(f"{where}: {what} is true, and only models without it are known here; take a published one")
    if said.hidden_dim % (2 * said.n_heads):
        raise UnmaskError(f"{where}: hidden_dim {said.hidden_dim} does not make {said.n_heads} heads of even width")
    made = DiT(said.vocab_size, said.hidden_dim, said.n_blocks, said.n_heads, said.model_length)
    made.block = said.block_size
    return made


def sources(body: Body, found: frozenset[str]) -> dict[str, Source]:
    """Their conditions folded in; of models without conditions the weights as they are."""
    assert isinstance(body, DiT)
    conditioned = "backbone.sigma_map.mlp.0.weight" in found
    made = {
        "embed": Source(("backbone.vocab_embed.embedding",)),
        "head.weight": Source(("backbone.output_layer.linear.weight",)),
        "head.bias": Source(("backbone.output_layer.linear.bias",)),
    }
    made |= _norm("norm", "backbone.output_layer.", "norm_final", 0, 2, conditioned)
    for number in range(len(body.blocks)):
        ours, theirs = f"blocks.{number}.", f"backbone.blocks.{number}."
        made |= _norm(f"{ours}norm1", theirs, "norm1", 0, 6, conditioned)
        made |= _norm(f"{ours}norm2", theirs, "norm2", 3, 6, conditioned)
        made[f"{ours}qkv.weight"] = Source((f"{theirs}attn_qkv.weight",))
        made[f"{ours}up.weight"] = Source((f"{theirs}mlp.0.weight",))
        made[f"{ours}up.bias"] = Source((f"{theirs}mlp.0.bias",))
        for name, what, gate in (
            ("out.weight", "attn_out.weight", GATE),
            ("down.weight", "mlp.2.weight", GATE + 3),
            ("down.bias", "mlp.2.bias", GATE + 3),
        ):
            made[ours + name] = _conditioned(theirs, what, 6, partial(_gated, gate), conditioned, None)
    return made


def _norm(ours: str, theirs: str, what: str, first: int, parts: int, conditioned: bool) -> dict[str, Source]:
    name = f"{what}.weight"
    return {
        f"{ours}.weight": _conditioned(theirs, name, parts, partial(_scaled, first + SCALE), conditioned, None),
        f"{ours}.bias": _conditioned(theirs, name, parts, partial(_shifted, first + SHIFT), conditioned, _nothing),
    }


def _conditioned(
    theirs: str,
    what: str,
    parts: int,
    change: Callable[[Tensor, Tensor], Tensor],
    conditioned: bool,
    otherwise: Callable[[Sequence[Tensor]], Tensor] | None,
) -> Source:
    """The tensor `what` changed by its layer's modulation, where there is one."""
    if not conditioned:
        return Source((theirs + what,), otherwise)
    of_level = (f"backbone.sigma_map.mlp.{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias"))
    names = (theirs + what, *(f"{theirs}adaLN_modulation.{part}" for part in ("weight", "bias")), *of_level)

    def make(tensors: Sequence[Tensor]) -> Tensor:
        try:
            return change(tensors[0].double(), modulation(tensors[1:], parts)).to(tensors[0].dtype)
        except RuntimeError as error:
            shapes = ", ".join(f"{name} {tuple(of.shape)}" for name, of in zip(names, tensors, strict=True))
            raise UnmaskError(f"what one layer is made of does not fit together: {shapes}") from error

    return Source(names, make)


def _scaled(part: int, weight: Tensor, modulated: Tensor) -> Tensor:
    return weight * (1 + modulated[part])


def _shifted(part: int, weight: Tensor, modulated: Tensor) -> Tensor:
    return modulated[part]


def _gated(part: int, weight: Tensor, modulated: Tensor) -> Tensor:
    return modulated[part].view(-1, *[1] * (weight.dim() - 1)) * weight


def _nothing(tensors: Sequence[Tensor]) -> Tensor:
    return torch.zeros_like(tensors[0])


UNUSED = (r"rotary_emb\.inv_freq$", r"^sampling_eps_(min|max)$")
FAMILIES["mdlm"] = Family(of_type("mdlm"), body, sources, UNUSED)
FAMILIES["bd3lm"] = Family(of_type("bd3lm"), body, sources, UNUSED)
TOKENS = Tokens(mask=50257, eos=50256, pad=50256, bos=50256)
MDLM, BD3LM = "github.com/kuleshov-group/mdlm: README", "github.com/kuleshov-group/bd3lms: README"
TRAPS = (
    "its tokenizer is GPT-2's, which its repository does not hold, and which knows no mask: 50257, the last row",
    "trained under bfloat16 autocast; the published code needs flash-attn and CUDA",
    "its logits are raw: the published model leaves it to its caller that the mask is never written",
)
RECIPE = Recipe("published", "--sampler as-published-mdlm --steps 1000 --length 1024", MDLM)
add(
    *(
        Card(
            name=name.lower(),
            repository=f"kuleshov-group/{name}",
            licence="Apache-2.0",
            family="mdlm",
            billions=0.17,
            tokens=TOKENS,
            context=1024,
            recipes=(RECIPE,),
            traps=TRAPS,
        )
        for name in ("mdlm-owt", "mdlm-no_flashattn-fp32-owt")
    ),
    *(
        Card(
            name=f"bd3lm-owt-block{block}",
            repository=f"kuleshov-group/bd3lm-owt-block_size{block}",
            licence="Apache-2.0",
            family="bd3lm",
            billions=0.17,
            tokens=TOKENS,
            block=block,
            context=1024,
            recipes=(
                Recipe(
                    "published",
                    f'--sampler "blocks(block_length={block}, inner=first-hitting)" --length 1024 --top-p 0.9',
                    BD3LM,
                ),
            ),
            traps=(*TRAPS, "published samples begin with the end of text (50256), and slide a window beyond 1024"),
        )
        for block in (4, 8, 16)
    ),
    Card(
        name="bd3lm-owt-pretrain",
        repository="kuleshov-group/bd3lm-owt-block_size1024-pretrain",
        licence="Apache-2.0",
        family="bd3lm",
        billions=0.17,
        tokens=TOKENS,
        context=1024,
        traps=(*TRAPS, "one block of 1024: what the block models were trained on from"),
    ),
)
