"""Checkpoints of the library transformers: any AR model or masked language model that it loads, without a card.

Only the library's code runs, never that of a checkpoint: trust_remote_code is off. Weights are safetensors, or else a
.bin file that is read as tensors alone (weights_only).

    AR models        with the cache of this package, if all layers have full attention; otherwise a prefix is read again
    masked models    mask, frame and banned tokens are those of the tokenizer: it puts the frame around a text, and its
                     other special tokens, and ids that it does not know, are never written
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from unmask.core import entries, progress
from unmask.core.errors import UnmaskError, cut, needed, shown
from unmask.core.reading import read_json
from unmask.models.open import weights
from unmask.models.open.body import Body, Sizes, count, symbols_of
from unmask.models.open.card import FAMILIES, OWN, Card, Family, Tokens
from unmask.models.open.own import Wrapped
from unmask.models.text import published
from unmask.models.trained.memory import Reach

TOLERANCE = 1e-3  # relative, between logits with the cache and without; in half precision 50 times
CACHED = re.compile(r"models--(?P<owner>.+?)--(?P<name>.+)")  # the name of a repository in the hub's cache
UNUSED = r"^lm_head\.weight$|rotary_emb\.inv_freq$"  # a second copy of a tied head, and constants
CONTEXT = 4096  # tokens, of a config.json that does not have their number
ENDS = {"masked": r"ForMaskedLM\b", "causal": r"(ForCausalLM|LMHeadModel)\b"}  # of names of architectures


def library(what: str = "a class of transformers", otherwise: str = "") -> Any:
    """The module transformers; an error names the extra to install."""
    with needed("open", what, otherwise):
        import transformers
    transformers.utils.logging.disable_progress_bar()  # commands have a progress bar
    return transformers


def pretrained(directory: Path, kind: str, dtype: torch.dtype | None, *, others: bool = False, **options: Any) -> Any:
    """A model of transformers from a directory. Missing and misshaped tensors are an error.

    others: tensors that the network does not have are ignored, and a command names them. Old checkpoints have buffers,
    and checkpoints of several tasks have several heads.
    """
    transformers = library()
    options |= {"weights_only": True, "local_files_only": True, "trust_remote_code": False}
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}  # reported below
    log, usual = transformers.utils.logging, transformers.utils.logging.get_verbosity()
    log.set_verbosity(log.CRITICAL)

    try:
        files = None if "state_dict" in options else directory
        model, info = getattr(transformers, kind).from_pretrained(files, dtype=dtype or "auto", **options)
    except UnpicklingError as error:
        problem = f"a .bin file in {directory} has more than tensors, which could run code, and is not loaded"
        raise UnmaskError(f"{problem}. Convert it to safetensors. {OWN}") from error
    except MemoryError:
        raise
    except Exception as error:  # any that the configuration of a stranger causes
        reason = cut((str(error).strip() or repr(error)).splitlines()[0])
        raise UnmaskError(f"transformers cannot load {directory}: {reason}. {OWN}") from error
    finally:
        log.set_verbosity(usual)

    unused = sorted(name for name in info["unexpected_keys"] if not re.search(UNUSED, name))
    if others and unused:
        progress.tell(f"{directory}: ignored tensors, which the network does not have: {weights.some(unused)}")

    info["unexpected_keys"] = [] if others else unused
    problems = {name: sorted(map(str, keys)) for name, keys in info.items() if keys}
    if problems:
        raise UnmaskError(f"the weights in {directory} do not fit its config.json: {cut(json.dumps(problems))}")
    return model.eval().requires_grad_(False)


class Native(Body):
    """An AR model of transformers with the cache of its reader."""

    def __init__(self, model: Any) -> None:
        config, head = model.config, model.get_output_embeddings()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        sizes = Sizes(config.num_hidden_layers, heads, width)
        attended = config.num_attention_heads * width
        super().__init__(head.weight.shape[0], config.hidden_size, context_of(config.to_dict()), sizes, attended)

        self.symbols = symbols_of(model)
        self.model, self.base, self.head = model, model.base_model, head
        named = inspect.signature(self.base.forward).parameters
        self.memory = "past_key_values" if "past_key_values" in named else "cache"  # the name depends on the release

    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        if columns is None:
            columns = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        if seen is None:
            seen = torch.ones((1, 1, 1, tokens.shape[1]), dtype=torch.bool, device=tokens.device)
        return self.base(
            input_ids=tokens,
            position_ids=columns,
            attention_mask=seen.expand(len(tokens), 1, tokens.shape[1], -1),
            use_cache=reach is not None,
            **{self.memory: entries.perhaps(_memory, reach)},
        ).last_hidden_state

    def logits(self, states: Tensor) -> Tensor:
        return self.head(states)

    @cached_property
    def parameters_used(self) -> int:
        return count(self, (self.head.weight, self.model.get_input_embeddings().weight))

    @torch.no_grad()
    def agrees(self) -> bool:
        """Whether it computes the same logits with this package's cache and attention mask as without."""
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

        ours = self.logits(torch.cat(parts, 1)).float()
        theirs = self.model(tokens, use_cache=False).logits.float()
        most = TOLERANCE if self.dtype in (torch.float32, torch.float64) else 50 * TOLERANCE
        return float((ours - theirs).abs().max()) <= most * (float(theirs.abs().max()) + 1)


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


def has_windows(config: Any) -> bool:
    """Whether a layer attends to a window only, or has states in place of keys."""
    windows = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    return bool(windows) or not set(getattr(config, "layer_types", None) or ()) <= {"full_attention"}


def read_causal(directory: Path, card: Card, config: dict[str, Any], dtype: torch.dtype | None) -> Body:
    """With our cache if it computes the same logits: not so with windows, or states in place of keys."""
    model = pretrained(directory, "AutoModelForCausalLM", dtype, others=True)
    try:
        body = Native(model)
        agrees = body.agrees()
    except (AttributeError, TypeError, ValueError, RuntimeError, IndexError):  # of layers without such keys and values
        agrees = False
    if agrees and not has_windows(model.config):
        return body
    return Wrapped(model, 0, card.context, causal=True)


def read_masked(directory: Path, card: Card, config: dict[str, Any], dtype: torch.dtype | None) -> Body:
    model = pretrained(directory, "AutoModelForMaskedLM", dtype, others=True)

    longest = card.context
    for name, part in model.named_modules():  # positions of RoBERTa begin behind the padding's
        padding = getattr(part, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            longest = min(longest, len(part.weight) - padding - 1 - sum(map(len, card.frame)))
    return Wrapped(model, card.tokens.mask or 0, longest, card.frame)


def context_of(config: Mapping[str, Any]) -> int:
    return int(config.get("max_position_embeddings") or config.get("n_positions") or CONTEXT)


def kind_of(config: Mapping[str, Any], directory: Path) -> str:
    """The family, masked or causal, of a directory without a card: by its architecture, or else by its tokenizer."""
    kind = config.get("model_type")
    names = list(map(str, config.get("architectures") or ()))
    problem = f"{directory} contains a model of type {shown(kind)}"
    auto = library(f"{problem}, which fits no card and", OWN[0].lower() + OWN[1:]).models.auto.modeling_auto

    known = {
        "masked": auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        "causal": auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    }

    # by the exact class, then the end of its name, then the tokenizer
    families = [family for family, classes in known.items() if classes.get(kind) in names]
    if not families:
        families = [family for family, end in ENDS.items() if re.search(end, " ".join(names))]
    if not families:
        masks = published.has_tokenizer(directory) and published.read(directory).mask is not None
        families = ["masked", "causal"] if masks else ["causal", "masked"]

    for family in families:
        if kind in known[family]:
            return family
    raise UnmaskError(f"{problem}, which neither a card nor transformers has as a language model. {OWN}")


def card_of(config: Mapping[str, Any], directory: Path) -> Card:
    """A card for a directory without one, from its files."""
    family = kind_of(config, directory)
    about: dict[str, Any] = {"name": directory.resolve().name, "repository": str(directory)}
    about |= {"licence": "unknown", "family": family}
    if cached := CACHED.fullmatch(directory.parent.parent.name):
        owner, name = cached.groups()
        about |= {"name": name.lower(), "repository": f"{owner}/{name}", "revision": directory.name}

    if family == "causal":
        return Card(**about, tokens=_ends(config, directory), prediction="shifted", block=1, context=context_of(config))

    if not published.has_tokenizer(directory) or (tokenizer := published.read(directory)).mask is None:
        raise UnmaskError(
            f"{directory} is a masked language model, and no tokenizer in it has a mask token",
            "expected one",
            f"Add mask_token to tokenizer_config.json, or pass a card. {OWN}",
        )

    frame = tokenizer.frame
    rows = max(int(config.get("vocab_size") or 0), tokenizer.vocabulary)
    ends = {tokenizer.eos} - {*frame[0], *frame[1]}
    banned = {*tokenizer.controls.values(), *range(tokenizer.vocabulary, rows)} - ends
    tokens = Tokens(mask=tokenizer.mask, eos=next(iter(ends), None), pad=tokenizer.pad)
    context = context_of(config) - len(frame[0]) - len(frame[1])
    return Card(**about, tokens=tokens, banned=tuple(sorted(banned)), frame=frame, context=context)


def _ends(config: Mapping[str, Any], directory: Path) -> Tokens:
    """The special tokens of an AR model; ids beyond its vocabulary are ignored, and a command names them."""
    path = directory / "tokenizer_config.json"
    about: dict[str, Any] = read_json(path, dict[str, Any]) if path.exists() else {}
    rows = int(config.get("vocab_size") or 2**31)

    def known(name: str) -> list[int | None]:
        ids = [one for one in entries.several(config.get(name)) if isinstance(one, int)]
        if ids and max(ids) >= rows:
            progress.tell(f"{directory}: ignored {name} {shown(config[name])}, as the vocabulary has {rows} tokens")
        return [one for one in ids if 0 <= one < rows] or [None]

    ends = known("eos_token_id")
    bos = known("bos_token_id")[0] if about.get("add_bos_token") else None
    return Tokens(eos=ends[0], end_of_turn=ends[-1], pad=known("pad_token_id")[0], bos=bos)


FAMILIES["causal"] = Family((), read_causal)
FAMILIES["masked"] = Family((), read_masked)
