"""Cards: plain data about published checkpoints that their files do not contain (cards.toml).

Loading compares the card with the files, which define tokens, context and shape.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import torch

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, shown, unknown
from unmask.core.reading import read_json
from unmask.models.trained.checkpoints import MODEL_TYPE

if TYPE_CHECKING:
    from unmask.models.open.body import Body

READERS = ("Qwen2ForCausalLM", "Qwen3ForCausalLM")  # AR models, unless the name of the directory fits a card
UNIFORM = "diffusion_gemma"  # a model type with uniform noise instead of a mask
Id = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Prediction = Literal["same", "shifted"]
Frame = tuple[tuple[Id, ...], tuple[Id, ...]]  # ids before and after each sequence, as [CLS] and [SEP]
OWN = "Write its six lines and pass --model module:Name: docs/contracts.md"  # the way out where files do not suffice


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
    frame: Frame = ((), ())
    template: str | None = None  # a name in chat.TEMPLATES; None for base models
    context: int = 4096
    recipes: tuple[Recipe, ...] = ()
    issue: str = ""  # a known one

    def check_fits(self, symbols: int) -> None:
        """Raise an error if a network does not read one of its tokens; symbols: number of those that it reads."""
        around = {"frame": max((*self.frame[0], *self.frame[1]), default=None)}
        for name, token in entries.given(msgspec.structs.asdict(self.tokens) | around).items():
            if token >= symbols:
                raise UnmaskError(
                    f"the card {self.name} has {name} = {token}, and the model reads {symbols} tokens",
                    f"expected at most {symbols - 1}",
                    "Use the card of this model, or your own (--card FILE.json)",
                )

    @property
    def causal(self) -> bool:
        """Whether it is an AR model."""
        return self.block == 1

    @property
    def title(self) -> str:
        """The name of its repository without the owner, in small letters."""
        return self.repository.rpartition("/")[2].lower()

    @property
    def attention(self) -> str:
        """The attention pattern."""
        if self.causal:
            return "causal"
        if self.block is None:
            return "bidirectional"
        return f"blocks of {self.block}, block-causal"


class Family(NamedTuple):
    """How the files of a family become a body: from a directory, its card, its config.json, and a type of weights."""

    types: tuple[str, ...]  # values of model_type in config.json; (): any that transformers has
    read: Callable[[Path, Card, dict[str, Any], torch.dtype | None], Body]

    def accepts(self, config: Mapping[str, Any]) -> bool:
        """Whether a config.json belongs to it."""
        return not self.types or config.get("model_type") in self.types


FAMILIES: dict[str, Family] = {}


def _published() -> Iterator[Card]:
    """The cards of the table: those of its repositories, "owner/name" or "owner/name as name of the card"."""
    for fields in tomllib.loads(Path(__file__).with_name("cards.toml").read_text())["cards"]:
        for repository in fields.pop("repositories"):
            place, _, name = repository.partition(" as ")
            own = {"name": name or place.rpartition("/")[2].lower(), "repository": place}
            yield msgspec.convert(fields | own, Card)


CARDS = {card.name: card for card in _published()}


def find(name: str) -> Card:
    """The card of this name or repository, or from this JSON file."""
    arguments.of_kind("card", name, str, "a name of `unmask show model`, or a JSON file")
    if name.endswith(".json") and os.path.isfile(name):
        card: Card = read_json(name, Card, 2**20)
        if card.family not in FAMILIES:
            families = ", ".join(sorted(FAMILIES))
            raise UnmaskError(f"{name}: family is {shown(card.family)}; expected one of {families}")
        return card
    for card in CARDS.values():
        if name.lower() in (card.name, card.repository.lower()):
            return card
    raise unknown("model (neither a directory nor a card of `unmask show model`):", name, CARDS)


def recognised(config: Mapping[str, Any], directory: Path) -> Card | None:
    """The card that fits a directory, by its config.json and, if several fit, by its name; None if none does."""
    kind = config.get("model_type")
    if kind == UNIFORM:
        raise UnmaskError(
            f"{directory} contains a model with uniform noise ({shown(kind)})",
            "expected a model with a mask token. docs/uniform.md has networks of that noise",
        )
    if kind == MODEL_TYPE:
        raise UnmaskError(
            f"{directory} is a network of `unmask train`",
            "expected an open model",
            f"Use `unmask generate --model {directory}` or `unmask model learning`",
        )

    fitting = [card for card in CARDS.values() if FAMILIES[card.family].accepts(config)]
    label = directory.resolve().name.lower()
    by_size = entries.grouped([card for card in fitting if card.title in label], lambda card: len(card.title))
    named = by_size.get(max(by_size, default=0), [])  # the fullest names

    if not fitting or (not named and (config.get("architectures") or [None])[0] in READERS):
        return None

    # cards that differ in their names alone are one
    behave = entries.grouped(named or fitting, attrgetter("prediction", "block", "tokens", "banned", "template"))
    if len(behave) > 1:
        candidates = ", ".join(cards[-1].name for cards in behave.values())
        raise UnmaskError(f"{directory} fits several cards: {candidates}. Choose one: --card NAME")
    return (named or fitting)[0]
