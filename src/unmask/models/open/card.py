"""Cards: plain data about published checkpoints that their files do not contain.

Loading compares the card with the files, which define tokens, context and shape.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import read_json
from unmask.core.registry import installed
from unmask.models.open.body import Body

READERS = ("Qwen2ForCausalLM", "Qwen3ForCausalLM")  # AR models, unless the name of the directory fits a card
UNIFORM = ("diffusion_gemma",)  # model types with uniform noise instead of a mask
GROUP = "unmask.cards"  # entry points of other packages: each a Card, or several
Id = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Prediction = Literal["same", "shifted"]


class Tokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ids of special tokens; None if the model has no such token."""

    mask: Id | None = None  # None only for AR models
    eos: Id | None = None
    pad: Id | None = None
    bos: Id | None = None
    end_of_turn: Id | None = None
    start: Id | None = None  # first input of an AR model without bos; by default its eos


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A published setting of generation."""

    name: str
    options: str  # of `unmask generate`
    source: str


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str  # "llada-8b-instruct"
    repository: str  # "GSAI-ML/LLaDA-8B-Instruct"
    licence: str
    family: str  # a name in FAMILIES
    tokens: Tokens
    revision: str | None = None  # a commit; None: the newest
    prediction: Prediction = "same"  # shifted: position i predicts the token at i + 1
    block: Annotated[int, msgspec.Meta(ge=1)] | None = None  # None: full attention; otherwise block-causal attention
    banned: tuple[Id, ...] = ()  # tokens that are never written, besides the mask
    template: str | None = None  # a name in chat.TEMPLATES; None for base models
    context: int = 4096
    billions: float | None = None  # of parameters, with all experts, as published
    recipes: tuple[Recipe, ...] = ()
    traps: tuple[str, ...] = ()

    @property
    def causal(self) -> bool:
        """Whether it is an AR model."""
        return self.block == 1

    @property
    def attention(self) -> str:
        """The attention pattern."""
        if self.causal:
            return "causal"
        if self.block is None:
            return "bidirectional"
        return f"blocks of {self.block}, block-causal"


class Source(NamedTuple):
    """The source of a parameter."""

    names: tuple[str, ...]  # tensors of the checkpoint
    make: Callable[[Sequence[Tensor]], Tensor] | None = None  # None: the tensor itself
    shapes: tuple[tuple[int | None, ...], ...] = ()  # of the tensors; None: any size


class Family(NamedTuple):
    """Loads the files of a family: with `body` and `sources`, or, if a library does it, with `read`."""

    accepts: Callable[[Mapping[str, Any]], bool]  # whether a config.json belongs to it
    body: Callable[[Mapping[str, Any], str], Body] | None = None  # from config.json and its path, on the meta device
    sources: Callable[[Body, frozenset[str]], Mapping[str, Source]] | None = None  # by parameter, from names in files
    unused: tuple[str, ...] = ()  # regular expressions of unused tensors
    read: Callable[[Path, Mapping[str, Any], torch.dtype | None], Body] | None = None


FAMILIES: dict[str, Family] = {}
CARDS: dict[str, Card] = {}


def known() -> dict[str, Card]:
    """All cards by name: those of unmask, then those of installed packages."""
    cards = dict(CARDS)
    for entry in installed(GROUP):
        offered = entry.load()
        for card in [offered] if isinstance(offered, Card) else offered:
            cards.setdefault(card.name, card)
    return cards


def find(name: str) -> Card:
    """The card of this name or repository, or from this JSON file."""
    arguments.of_kind("card", name, str, "a name of `unmask show model`, or a JSON file")
    if name.endswith(".json") and os.path.isfile(name):
        return read(name)
    cards = known()
    for card in cards.values():
        if name.lower() in (card.name, card.repository.lower()):
            return card
    near = get_close_matches(name.lower(), cards, 1, 0.5)
    hint = f". Did you mean {near[0]}?" if near else ""
    raise UnmaskError(f"{shown(name)} does not exist; expected a directory, or a name of `unmask show model`{hint}")


def read(path: str | Path) -> Card:
    """Read a card from a JSON file."""
    card: Card = read_json(path, Card, 2**20)
    if card.family not in FAMILIES:
        raise UnmaskError(f"{path}: family is {shown(card.family)}; expected one of {', '.join(sorted(FAMILIES))}")
    return card


def recognised(config: Mapping[str, Any], directory: Path) -> Card | None:
    """The card that fits a directory, by its config.json and, if several fit, by its name. None for AR models."""
    fitting = [card for card in known().values() if FAMILIES[card.family].accepts(config)]
    if not fitting and FAMILIES["causal"].accepts(config):
        return None
    if config.get("model_type") in UNIFORM:
        problem = f"{directory} contains a model with uniform noise ({shown(config['model_type'])})"
        raise UnmaskError(f"{problem}; expected a model with a mask token")
    if not fitting:
        kind = shown(config.get("model_type"))
        from unmask.models.trained.checkpoints import MODEL_TYPE

        if config.get("model_type") == MODEL_TYPE:
            problem = f"{directory} is a network of `unmask train`; expected an open model"
            raise UnmaskError(f"{problem}. Use `unmask generate --model {directory}` or `unmask model learning`")
        remedy = "See `unmask show model`, or pass your own card: --card FILE.json"
        raise UnmaskError(f"{directory} contains a model of type {kind}, which fits no card. {remedy}")
    label = directory.resolve().name.lower()
    names = {card.name: card.repository.rpartition("/")[2].lower() for card in fitting}
    fullest = max((len(name) for name in names.values() if name in label), default=0)
    named = [card for card in fitting if names[card.name] in label and len(names[card.name]) == fullest]
    if not named and (config.get("architectures") or [None])[0] in READERS:
        return None
    behave = {
        msgspec.json.encode([card.prediction, card.block, card.tokens, card.banned, card.template]): card
        for card in named or fitting
    }
    if len(behave) > 1:
        candidates = ", ".join(card.name for card in behave.values())
        raise UnmaskError(f"{directory} fits several cards: {candidates}. Choose one: --card NAME")
    return (named or fitting)[0]
