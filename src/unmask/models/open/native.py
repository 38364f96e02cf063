"""AR models of the library transformers, with the cache of this package.

Only the library's code runs, never that of a checkpoint: trust_remote_code is off, and weights must be safetensors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, cut, needed, shown
from unmask.core.reading import read_json
from unmask.models.open.card import FAMILIES, Card, Family, Tokens
from unmask.models.open.decoder import Body, Sizes
from unmask.models.trained.trunk import Reach

TOLERANCE = 1e-3  # relative, between logits with the cache and without; in half precision 50 times
CACHED = re.compile(r"models--(?P<owner>.+?)--(?P<name>.+)")  # the name of a repository in the hub's cache


def library() -> Any:
    """The module transformers; an error names the extra to install."""
    with needed("open", "a class of transformers"):
        import transformers
    transformers.utils.logging.disable_progress_bar()  # commands have a progress bar
    return transformers


def pretrained(directory: Path, auto: str, dtype: torch.dtype | None) -> Any:
    """A model of transformers from a directory; missing, unused or misshaped tensors are an error."""
    transformers = library()
    options: dict[str, Any] = {"use_safetensors": True, "local_files_only": True, "trust_remote_code": False}
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}  # reported below
    log, usual = transformers.utils.logging, transformers.utils.logging.get_verbosity()
    log.set_verbosity(log.CRITICAL)
    try:
        model, info = getattr(transformers, auto).from_pretrained(directory, dtype=dtype or "auto", **options)
    except (ValueError, OSError, RuntimeError, KeyError) as error:
        raise UnmaskError(f"transformers cannot load {directory}: {cut(str(error).splitlines()[0])}") from error
    finally:
        log.set_verbosity(usual)
    problems = {name: sorted(map(str, keys)) for name, keys in info.items() if keys}
    if problems:
        raise UnmaskError(f"the weights in {directory} do not fit its config.json: {cut(json.dumps(problems))}")
    return model.eval().requires_grad_(False)


class Native(Body):
    """A model of transformers with the cache of its reader."""

    def __init__(self, model: Any, where: str) -> None:
        config, head = model.config, model.get_output_embeddings()
        windows = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
        if windows or not set(getattr(config, "layer_types", None) or ()) <= {"full_attention", None}:
            kind = f"{where} contains a model of type {config.model_type!r}"
            problem = f"{kind} with windows, or with states instead of keys"
            raise UnmaskError(f"{problem}; expected full attention in all layers")
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        context = getattr(config, "max_position_embeddings", 4096)
        sizes = Sizes(config.num_hidden_layers, heads, width)
        super().__init__(head.weight.shape[0], config.hidden_size, context, sizes)
        self.model, self.base, self.head = model, model.base_model, head

    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        if columns is None:
            columns = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        if seen is None:
            seen = torch.ones((1, 1, 1, tokens.shape[1]), dtype=torch.bool, device=tokens.device)
        return self.base(
            input_ids=tokens,
            position_ids=columns,
            attention_mask=seen.expand(len(tokens), 1, tokens.shape[1], -1),
            past_key_values=None if reach is None else _memory(reach),
            use_cache=reach is not None,
        ).last_hidden_state

    def logits(self, states: Tensor) -> Tensor:
        return self.head(states)

    def parameters_used(self) -> int:
        outside = {id(self.head.weight), id(self.model.get_input_embeddings().weight)}
        return sum(weight.numel() for weight in self.parameters() if id(weight) not in outside)

    @torch.no_grad()
    def check(self) -> None:
        """Check that it computes the same logits with this package's cache and attention mask as without."""
        assert self.sizes is not None
        length = min(6, self.context)
        tokens = torch.arange(length, device=self.device)[None] % self.vocabulary
        layers, heads, width = self.sizes
        cache = torch.zeros((layers, 2, 1, heads, length + 1, width), device=self.device, dtype=self.dtype)
        parts = []
        position = torch.arange(length, device=self.device)
        for columns in position.split(length // 2):
            seen = (position <= columns.unsqueeze(1))[None, None]
            reach = Reach(cache, None, 0, columns[None], length, None, False)
            parts.append(self.states(tokens[:, columns], columns[None], seen, reach))
        ours, theirs = self.logits(torch.cat(parts, 1)).float(), self.model(tokens, use_cache=False).logits.float()
        most = TOLERANCE if self.dtype in (torch.float32, torch.float64) else 50 * TOLERANCE
        if float((ours - theirs).abs().max()) > most * (float(theirs.abs().max()) + 1):
            problem = f"models of type {self.model.config.model_type!r} have different logits with the cache of unmask"
            raise UnmaskError(f"{problem}. Use a model of another type")


def _memory(reach: Reach) -> Any:
    """A cache of transformers that stores its entries in `reach`."""

    class Memory(library().Cache):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(layers=[])

        def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
            return reach.write(layer_idx, key_states, value_states)

        def get_seq_length(self, layer_idx: int = 0) -> int:
            return reach.end

    return Memory()


def read(directory: Path, config: dict[str, Any], dtype: torch.dtype | None) -> Body:
    kind = config.get("model_type")
    if kind not in library().AutoConfig.for_model.__globals__["CONFIG_MAPPING"]:
        problem = f"{directory} contains a model of type {shown(kind)}"
        raise UnmaskError(f"{problem}; expected a type that transformers supports")
    body = Native(pretrained(directory, "AutoModelForCausalLM", dtype), str(directory))
    body.check()
    return body


def card_of(config: Mapping[str, Any], directory: Path) -> Card:
    """A card for an AR model without one, from its files."""
    path = directory / "tokenizer_config.json"
    about: dict[str, Any] = read_json(path, dict[str, Any]) if path.exists() else {}

    def first(name: str) -> int | None:
        value = config.get(name)
        return value[0] if isinstance(value, list) and value else value if isinstance(value, int) else None

    bos = first("bos_token_id") if about.get("add_bos_token") else None
    cached = CACHED.fullmatch(directory.parents[1].name) if len(directory.parents) > 1 else None
    return Card(
        name=cached["name"].lower() if cached else directory.resolve().name,
        repository=f"{cached['owner']}/{cached['name']}" if cached else str(directory),
        revision=directory.name if cached else None,
        licence="unknown",
        family="causal",
        tokens=Tokens(eos=first("eos_token_id"), pad=first("pad_token_id"), bos=bos),
        prediction="shifted",
        block=1,
        context=int(config.get("max_position_embeddings") or config.get("n_positions") or 4096),
    )


FAMILIES["causal"] = Family((), read=read)
