"""Cards: plain data about published checkpoints that their files do not contain.

Loading compares the card with the files, which define tokens, context and shape.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import read_json
from unmask.core.registry import installed
from unmask.models.trained.checkpoints import MODEL_TYPE

if TYPE_CHECKING:
    from unmask.models.open.decoder import Body

READERS = ("Qwen2ForCausalLM", "Qwen3ForCausalLM")  # AR models, unless the name of the directory fits a card
UNIFORM = "diffusion_gemma"  # a model type with uniform noise instead of a mask
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
        return "bidirectional" if self.block is None else f"blocks of {self.block}, block-causal"


class Source(NamedTuple):
    """The source of a parameter."""

    names: tuple[str, ...]  # tensors of the checkpoint
    make: Callable[[Sequence[Tensor]], Tensor] | None = None  # None: the tensor itself
    shapes: tuple[tuple[int, ...], ...] = ()  # of the tensors; (): those of the parameter, or any with `make`


class Family(NamedTuple):
    """Loads the files of a family: with `body` and `sources`, or, if a library does it, with `read`."""

    types: tuple[str, ...]  # values of model_type in config.json; (): any AR model of transformers
    body: Callable[[dict[str, Any], str], Body] | None = None  # from config.json and its path, on the meta device
    sources: Callable[[Body, frozenset[str]], Mapping[str, Source]] | None = None  # by parameter, from names in files
    unused: tuple[str, ...] = ()  # regular expressions of unused tensors
    read: Callable[[Path, dict[str, Any], torch.dtype | None], Body] | None = None

    def accepts(self, config: Mapping[str, Any]) -> bool:
        """Whether a config.json belongs to it."""
        if self.types:
            return config.get("model_type") in self.types
        return any(str(name).endswith(("ForCausalLM", "LMHeadModel")) for name in config.get("architectures") or ())


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
        card: Card = read_json(name, Card, 2**20)
        if card.family not in FAMILIES:
            families = ", ".join(sorted(FAMILIES))
            raise UnmaskError(f"{name}: family is {shown(card.family)}; expected one of {families}")
        return card
    cards = known()
    for card in cards.values():
        if name.lower() in (card.name, card.repository.lower()):
            return card
    near = get_close_matches(name.lower(), cards, 1, 0.5)
    hint = f". Did you mean {near[0]}?" if near else ""
    raise UnmaskError(f"{shown(name)} does not exist; expected a directory, or a name of `unmask show model`{hint}")


def recognised(config: Mapping[str, Any], directory: Path) -> Card | None:
    """The card that fits a directory, by its config.json and, if several fit, by its name. None for AR models."""
    fitting = [card for card in known().values() if FAMILIES[card.family].accepts(config)]
    if not fitting and FAMILIES["causal"].accepts(config):
        return None
    if not fitting:
        raise UnmaskError(f"{directory} {_stranger(directory, config.get('model_type'))}")
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


def _stranger(directory: Path, kind: Any) -> str:
    """The problem of a directory whose model fits no card."""
    if kind == UNIFORM:
        return f"contains a model with uniform noise ({shown(kind)}); expected a model with a mask token"
    if kind == MODEL_TYPE:
        remedy = f"Use `unmask generate --model {directory}` or `unmask model learning`"
        return f"is a network of `unmask train`; expected an open model. {remedy}"
    remedy = "See `unmask show model`, or pass your own card: --card FILE.json"
    return f"contains a model of type {shown(kind)}, which fits no card. {remedy}"
