"""MDLM (arXiv 2406.07524) and BD3-LM (arXiv 2503.09573) on OpenWebText: small DiTs, bidirectional or block-causal."""

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
from unmask.hub.dit import RATIO, DiT, modulation

Shape = tuple[int, ...]
Make = Callable[[Sequence[Tensor]], Tensor]
Change = Callable[[Tensor, Tensor], Tensor]  # of a tensor, and the modulation (parts, hidden) of its layer
ADA = "adaLN_modulation"
FREQUENCIES = 256  # width of the embedding of the noise level
SHIFT, SCALE, GATE = 0, 1, 2  # of the attention; those of the MLP are 3, 4 and 5


class Config(msgspec.Struct):
    vocab_size: Count
    model_length: Count
    hidden_dim: Count
    n_blocks: Depth
    n_heads: Count
    cond_dim: Count = 129  # the default of the published class
    time_conditioning: bool = False
    causal: bool = False
    block_size: Count | None = None


def body(config: Mapping[str, Any], where: str) -> Body:
    settings: Config = fit(dict(config), Config, where)
    if settings.time_conditioning or settings.causal:
        name = "time_conditioning" if settings.time_conditioning else "causal"
        raise UnmaskError(f"{where}: {name} is true; expected a published model, without it")
    if settings.hidden_dim % (2 * settings.n_heads):
        raise UnmaskError(
            f"{where}: hidden_dim is {settings.hidden_dim}; expected {settings.n_heads} heads of even width"
        )
    model = DiT(
        settings.vocab_size,
        settings.hidden_dim,
        settings.n_blocks,
        settings.n_heads,
        settings.model_length,
        settings.cond_dim,
    )
    model.block = settings.block_size
    return model


def sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    """Fold conditions into the weights; models without conditions have the weights themselves."""
    assert isinstance(body, DiT)
    hidden, level = body.hidden, _level(body.conditions)
    conditioned = not level.keys().isdisjoint(names)

    def folded(at: str, name: str, shape: Shape, parts: int, change: Change, plain: Make | None = None) -> Source:
        """A tensor changed by its layer's modulation of `parts` parts; without conditions, `plain` of the tensor."""
        if not conditioned:
            return Source((at + name,), plain, (shape,))
        of_layer = {f"{at}{ADA}.weight": (parts * hidden, body.conditions), f"{at}{ADA}.bias": (parts * hidden,)}
        tensors = {at + name: shape} | of_layer | level
        return Source(tuple(tensors), partial(_folded, change, parts), tuple(tensors.values()))

    def norm(ours: str, at: str, theirs: str, first: int, parts: int) -> dict[str, Source]:
        name = f"{theirs}.weight"
        return {
            f"{ours}.weight": folded(at, name, (hidden,), parts, partial(_scaled, first + SCALE)),
            f"{ours}.bias": folded(at, name, (hidden,), parts, partial(_shifted, first + SHIFT), _nothing),
        }

    parameters = {
        "embed": Source(("backbone.vocab_embed.embedding",)),
        "head.weight": Source(("backbone.output_layer.linear.weight",)),
        "head.bias": Source(("backbone.output_layer.linear.bias",)),
    }
    parameters |= norm("norm", "backbone.output_layer.", "norm_final", 0, 2)
    for number in range(len(body.blocks)):
        ours, at = f"blocks.{number}.", f"backbone.blocks.{number}."
        parameters |= norm(f"{ours}norm1", at, "norm1", 0, 6) | norm(f"{ours}norm2", at, "norm2", 3, 6)
        parameters[f"{ours}qkv.weight"] = Source((f"{at}attn_qkv.weight",))
        parameters[f"{ours}up.weight"] = Source((f"{at}mlp.0.weight",))
        parameters[f"{ours}up.bias"] = Source((f"{at}mlp.0.bias",))
        attention, mlp = partial(_gated, GATE), partial(_gated, GATE + 3)
        parameters[f"{ours}out.weight"] = folded(at, "attn_out.weight", (hidden, hidden), 6, attention)
        parameters[f"{ours}down.weight"] = folded(at, "mlp.2.weight", (hidden, RATIO * hidden), 6, mlp)
        parameters[f"{ours}down.bias"] = folded(at, "mlp.2.bias", (hidden,), 6, mlp)
    return parameters


def _level(conditions: int) -> dict[str, Shape]:
    """The tensors of the network that computes conditions from the noise level."""
    at = "backbone.sigma_map.mlp"
    first = {f"{at}.0.weight": (conditions, FREQUENCIES), f"{at}.0.bias": (conditions,)}
    return first | {f"{at}.2.weight": (conditions, conditions), f"{at}.2.bias": (conditions,)}


def _folded(change: Change, parts: int, tensors: Sequence[Tensor]) -> Tensor:
    return change(tensors[0].double(), modulation(tensors[1:], parts)).to(tensors[0].dtype)


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
    "its repository lacks its tokenizer, that of GPT-2, which has no mask: it is 50257, the last row",
    "trained under bfloat16 autocast; the published code needs flash-attn and CUDA",
    "its logits include the mask; in the published code the caller removes it",
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
                    f'--sampler "blocks(block_length={block}, inner=first-hitting, nucleus=0.9)" --length 1024',
                    BD3LM,
                ),
            ),
            traps=(
                *TRAPS,
                "published samples begin with the end of text (50256), and use a sliding window beyond 1024",
                "the published top-p drops the token that crosses p, unless it is the first; --top-p keeps it",
            ),
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
        traps=(*TRAPS, "one block of 1024: the initial weights of the block models"),
    ),
)
