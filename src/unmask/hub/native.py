"""Classes of transformers behind our question: any AR model of its own, its cache being ours.

Its code is the library's, never the checkpoint's: trust_remote_code is never set, and weights are safetensors alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, cut, shown
from unmask.core.extras import needed
from unmask.core.reading import read_json
from unmask.hub.body import Body, Sizes
from unmask.hub.card import FAMILIES, Card, Family, Tokens
from unmask.hub.weights import opened
from unmask.networks.model.cache import Reach

FULL = ("full_attention", None)
TOLERANCE = 1e-3  # of a logit, between what is read with the cache and without it


def library() -> Any:
    """transformers, or what to install."""
    with needed("hub", "a class of transformers"):
        import transformers
    transformers.utils.logging.disable_progress_bar()  # commands have their own
    return transformers


def pretrained(directory: Path, auto: str, dtype: torch.dtype | None, **options: Any) -> Any:
    """A model of transformers from a directory, every tensor of which is accounted for."""
    made = library()
    if "gguf_file" not in options:
        with opened(directory):
            pass  # which says what is wrong with files better than what follows would
        options |= {"use_safetensors": True}
    options |= {"local_files_only": True, "trust_remote_code": False}
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}  # they are told apart, and refused, below
    log, usual = made.utils.logging, made.utils.logging.get_verbosity()
    log.set_verbosity(log.CRITICAL)
    try:
        model, info = getattr(made, auto).from_pretrained(directory, dtype=dtype or "auto", **options)
    except (ValueError, OSError, RuntimeError, KeyError) as error:
        raise UnmaskError(f"transformers cannot load {directory}: {cut(str(error).splitlines()[0])}") from error
    finally:
        log.set_verbosity(usual)
    wrong = {name: sorted(map(str, keys)) for name, keys in info.items() if keys}
    if wrong:
        raise UnmaskError(f"the weights in {directory} do not fit its config.json: {cut(json.dumps(wrong))}")
    return model.eval().requires_grad_(False)


class NativeCausal(Body):
    """An AutoModelForCausalLM, whose cache is the reader's memory."""

    def __init__(self, model: Any, where: str) -> None:
        super().__init__()
        config = model.config
        kinds = set(getattr(config, "layer_types", None) or [None])
        windows = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
        if windows or not kinds <= set(FULL):
            what = "its layers do not see all that was read (windows, or states in the place of keys)"
            raise UnmaskError(f"{where} holds a model of type {config.model_type!r}: {what}, and cannot be read here")
        self.model, self.base, self.head = model, model.base_model, model.get_output_embeddings()
        self.vocabulary, self.hidden = self.head.weight.shape[0], config.hidden_size
        self.context = getattr(config, "max_position_embeddings", 4096)
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.sizes: Sizes = Sizes(config.num_hidden_layers, heads, width)
        self._check()

    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        if columns is None:
            columns = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        if seen is None:
            seen = torch.ones((1, 1, 1, tokens.shape[1]), dtype=torch.bool, device=tokens.device)
        seen = seen.expand(len(tokens), 1, tokens.shape[1], -1)
        memory = None if reach is None else _memory(reach)
        return self.base(
            input_ids=tokens,
            position_ids=columns,
            attention_mask=seen,
            past_key_values=memory,
            use_cache=memory is not None,
        ).last_hidden_state

    def logits(self, states: Tensor) -> Tensor:
        return self.head(states)

    def parameters_used(self) -> int:
        outside = {id(self.head.weight), id(self.model.get_input_embeddings().weight)}
        return sum(weight.numel() for weight in self.parameters() if id(weight) not in outside)

    @torch.no_grad()
    def _check(self) -> None:
        """That it reads with our cache and our mask as it does by itself."""
        length = min(6, self.context)
        tokens = torch.arange(length, device=self.device)[None] % self.vocabulary
        layers, heads, width = self.sizes
        kept = torch.zeros((layers, 2, 1, heads, length + 1, width), device=self.device, dtype=self.dtype)
        parts = []
        place = torch.arange(length, device=self.device)
        for columns in place.split(length // 2):
            seen = (place <= columns.unsqueeze(1))[None, None]
            reach = Reach(kept, None, 0, columns[None], length, None, False)
            parts.append(self.states(tokens[:, columns], columns[None], seen, reach))
        ours, theirs = self.logits(torch.cat(parts, 1)).float(), self.model(tokens, use_cache=False).logits.float()
        scale = float(theirs.abs().max()) + 1
        most = TOLERANCE if self.dtype in (torch.float32, torch.float64) else 50 * TOLERANCE
        if float((ours - theirs).abs().max()) > most * scale:
            kind = self.model.config.model_type
            raise UnmaskError(
                f"a model of type {kind!r} does not read with a cache of ours as by itself; it is refused"
            )


def _memory(reach: Reach) -> Any:
    """A cache of transformers that keeps nothing itself."""

    class Kept(library().Cache):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(layers=[])

        def update(
            self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
        ) -> tuple[Tensor, Tensor]:
            return reach.write(layer_idx, key_states, value_states)

        def get_seq_length(self, layer_idx: int = 0) -> int:
            return reach.end

    return Kept()


def accepts(config: Mapping[str, Any]) -> bool:
    return any(str(name).endswith(("ForCausalLM", "LMHeadModel")) for name in config.get("architectures") or ())


def read(directory: Path, config: Mapping[str, Any], dtype: torch.dtype | None) -> Body:
    kind = config.get("model_type")
    if kind not in library().AutoConfig.for_model.__globals__["CONFIG_MAPPING"]:
        raise UnmaskError(f"{directory} holds a model of type {shown(kind)}, which is no class of transformers")
    return NativeCausal(pretrained(directory, "AutoModelForCausalLM", dtype), str(directory))


CACHED = re.compile(r"models--(?P<owner>.+?)--(?P<name>.+)")  # as the cache of the hub calls a repository


def card_of(config: Mapping[str, Any], directory: Path) -> Card:
    """Of an AR model that has no card: what its files say of it."""
    about: dict[str, Any] = {}
    if (path := directory / "tokenizer_config.json").exists():
        about = read_json(path, dict[str, Any])

    def first(name: str) -> int | None:
        found = config.get(name)
        return found[0] if isinstance(found, list) and found else found if isinstance(found, int) else None

    begins = bool(about.get("add_bos_token"))
    kept = CACHED.fullmatch(directory.parents[1].name) if len(directory.parents) > 1 else None
    return Card(
        name=kept["name"].lower() if kept else directory.resolve().name,
        repository=f"{kept['owner']}/{kept['name']}" if kept else str(directory),
        revision=directory.name if kept else None,
        licence="not known",
        family="causal",
        tokens=Tokens(
            eos=first("eos_token_id"), pad=first("pad_token_id"), bos=first("bos_token_id") if begins else None
        ),
        prediction="shifted",
        block=1,
        context=int(config.get("max_position_embeddings") or config.get("n_positions") or 4096),
    )


FAMILIES["causal"] = Family(accepts, read=read)
