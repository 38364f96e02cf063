"""A card says of a published checkpoint what neither its files nor its code can be asked: plain data, one a family.

What files do say, its tokens, context and shape, is compared with the card when it is loaded.
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
from unmask.hub.body import Body

READERS = ("Qwen2ForCausalLM", "Qwen3ForCausalLM")  # AR models, where no name says that they have learned otherwise
UNIFORM = ("diffusion_gemma",)  # model types whose noise is no mask
GROUP = "unmask.cards"  # entry points of other packages: each a Card, or several
Id = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Prediction = Literal["same", "shifted"]


class Tokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ids, None where there is none."""

    mask: Id | None = None  # None of an AR model alone
    eos: Id | None = None
    pad: Id | None = None
    bos: Id | None = None
    end_of_turn: Id | None = None
    start: Id | None = None  # what an AR model reads before a first token, where it has no bos; its eos otherwise


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How its makers, or others, have let it write."""

    name: str
    options: str  # of `unmask generate`
    source: str


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str  # "llada-8b-instruct"
    repository: str  # "GSAI-ML/LLaDA-8B-Instruct"
    licence: str
    family: str  # of FAMILIES: how its files become a body
    tokens: Tokens
    revision: str | None = None  # a commit; None: the newest
    package: str | None = None  # a Python package that holds it in a GGUF file
    prediction: Prediction = "same"  # shifted: what stands at i says what stands at i + 1
    block: Annotated[int, msgspec.Meta(ge=1)] | None = None  # None: all see all; else blocks see those before them
    past: Literal["blocks", "causal"] = "blocks"  # causal: what is settled is read from left to right
    banned: tuple[Id, ...] = ()  # what is never written, besides the mask
    plain: bool = False  # symbols of control are never written but for its ends, nor numbers without a symbol
    template: str | None = None  # of chat.py; None of a base model
    context: int = 4096
    billions: float | None = None  # of parameters, as its makers say; those of all experts
    recipes: tuple[Recipe, ...] = ()
    traps: tuple[str, ...] = ()

    @property
    def causal(self) -> bool:
        """Whether it is an AR model."""
        return self.block == 1

    @property
    def sees(self) -> str:
        """The context of a position, in words."""
        if self.causal:
            return "reads from left to right"
        if self.block is None:
            return "sees both sides"
        before = "the tokens before, from left to right" if self.past == "causal" else "the blocks before"
        return f"sees blocks of {self.block} and {before}"


class Source(NamedTuple):
    """What a parameter of ours is made of."""

    names: tuple[str, ...]  # tensors of the checkpoint
    make: Callable[[Sequence[Tensor]], Tensor] | None = None  # None: of the one that is named, as it is
    shapes: tuple[tuple[int | None, ...], ...] = ()  # of those it is made of; None: of any size


class Family(NamedTuple):
    """How the files of a family become a body: by `body` and `sources`, or, where a library does it, by `read`."""

    accepts: Callable[[Mapping[str, Any]], bool]  # whether a config.json is one of its
    body: Callable[[Mapping[str, Any], str], Body] | None = None  # of config.json and where it lies; on the meta device
    sources: Callable[[Body, frozenset[str]], Mapping[str, Source]] | None = None  # by our names, given theirs
    unused: tuple[str, ...] = ()  # regular expressions: tensors that nobody needs
    read: Callable[[Path, Mapping[str, Any], torch.dtype | None], Body] | None = None


FAMILIES: dict[str, Family] = {}
CARDS: dict[str, Card] = {}


def known() -> dict[str, Card]:
    """All cards by their names: ours, then those of installed packages."""
    cards = dict(CARDS)
    for entry in installed(GROUP):
        offered = entry.load()
        for card in [offered] if isinstance(offered, Card) else offered:
            cards.setdefault(card.name, card)
    return cards


def find(name: str) -> Card:
    """The card of this name or this repository, or in this JSON file."""
    arguments.of_kind("card", name, str, "a name of `unmask model list`, or a JSON file")
    if name.endswith(".json") and os.path.isfile(name):
        return read(name)
    cards = known()
    for card in cards.values():
        if name.lower() in (card.name, card.repository.lower()):
            return card
    near = get_close_matches(name.lower(), cards, 1, 0.5)
    what = f"; the nearest is {near[0]}" if near else ""
    raise UnmaskError(f"{shown(name)} is no directory here, and no name of `unmask list models`{what}")


def read(path: str | Path) -> Card:
    """A card of one's own: a JSON file of these fields."""
    card: Card = read_json(path, Card, 2**20)
    if card.family not in FAMILIES:
        raise UnmaskError(f"{path}: family is {shown(card.family)}; expected one of {', '.join(sorted(FAMILIES))}")
    return card


def recognised(config: Mapping[str, Any], directory: Path) -> Card | None:
    """The card of a directory that nobody has named: by its config.json, and where that is not enough by its name.

    None where it is an AR model, whose files say what there is to say.
    """
    fitting = [card for card in known().values() if FAMILIES[card.family].accepts(config)]
    if not fitting and FAMILIES["causal"].accepts(config):
        return None
    if config.get("model_type") in UNIFORM:
        what = "whose canvas begins as random tokens, and not as masks: no sampler here can fill it"
        raise UnmaskError(f"{directory} holds a model of uniform noise ({shown(config['model_type'])}), {what}")
    if not fitting:
        kind = shown(config.get("model_type"))
        what = "unmask list models says which are known; a card of your own is a file: --card FILE.json"
        raise UnmaskError(f"{directory} holds a model of type {kind}, of which no card is known; {what}")
    label = directory.resolve().name.lower()
    names = {card.name: card.repository.rpartition("/")[2].lower() for card in fitting}
    fullest = max((len(name) for name in names.values() if name in label), default=0)
    named = [card for card in fitting if names[card.name] in label and len(names[card.name]) == fullest]
    if not named and (config.get("architectures") or [None])[0] in READERS:
        return None
    behave = {
        msgspec.json.encode([card.prediction, card.block, card.tokens, card.banned, card.plain, card.template]): card
        for card in named or fitting
    }
    if len(behave) > 1:
        which = ", ".join(card.name for card in behave.values())
        raise UnmaskError(f"{directory} may be any of {which}, which behave differently; say which: --card NAME")
    return (named or fitting)[0]


def add(*cards: Card) -> None:
    for card in cards:
        CARDS[card.name] = card
