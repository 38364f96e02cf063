"""The tokenizer of a checkpoint's directory: of files that are data. No template is read, and no code.

tokenizer.json                             symbols, merges, how words are told apart, and what is added
tokenizer_config.json                      which symbols begin, end, pad and mask, and more that are added
special_tokens_map.json, added_tokens.json the same in older ones, where the former is silent
vocab.json and merges.txt                  in place of the first where the class is GPT-2's, Qwen2's or Dream's
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from unmask.core.errors import UnmaskError, cut, shown
from unmask.core.reading import fit, read_json, read_text
from unmask.text import bpe
from unmask.text.published import CONFIG, ROLES, Published, added_token
from unmask.text.tokenizer import FILE, MOST_SYMBOLS

MAP, ADDED, VOCABULARY, MERGES, MODEL = (
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
)
GPT2 = 50257  # symbols
SMALL = 2**22  # bytes of the files beside the first
CLASSES: dict[str, bpe.Split] = {
    "GPT2Tokenizer": "gpt2",
    "Qwen2Tokenizer": "qwen2",
    "DreamTokenizer": "qwen2",
}  # of pairs of files
Number = Annotated[int, msgspec.Meta(ge=0, lt=MOST_SYMBOLS)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=2**12)]


class Added(msgspec.Struct):
    content: Text
    special: bool = False


class Numbered(Added, kw_only=True):
    id: Number


class Whole(msgspec.Struct):
    """What is held against a schema of a tokenizer.json; the package `tokenizers` checks the rest."""

    model: dict[str, Any]
    added_tokens: list[Numbered] = []


Symbol = Text | Added | None


class Config(msgspec.Struct):
    """What is read of tokenizer_config.json, or special_tokens_map.json; they say more."""

    bos_token: Symbol = None
    eos_token: Symbol = None
    pad_token: Symbol = None
    mask_token: Symbol = None
    unk_token: Symbol = None
    additional_special_tokens: list[Text | Added] | None = None
    added_tokens_decoder: dict[str, Added] = {}
    tokenizer_class: str | None = None
    name_or_path: str | None = None


def read(directory: str | Path, roles: Mapping[str, str] | None = None) -> Published:
    """The tokenizer that lies in a directory; an error where none does.

    roles: what is known of it besides, and stands in none of its files: {"mask_token": "<|mdm_mask|>"}.
    """
    directory = Path(directory)
    config = read_json(directory / CONFIG, Config, SMALL) if os.path.exists(directory / CONFIG) else Config()
    older = read_json(directory / MAP, Config, SMALL) if os.path.exists(directory / MAP) else Config()
    content = _content(directory, config)
    known: dict[str, dict[str, Any]] = {
        one["content"]: added_token(one["id"], one["content"], False) | one for one in content.get("added_tokens", ())
    }
    for text, number in _added(directory).items():
        _add(known, text, number, True, directory / ADDED)
    for key, one in config.added_tokens_decoder.items():
        if not key.isdecimal() or len(key) > 9:
            raise UnmaskError(f"{directory / CONFIG}: {shown(key)} in added_tokens_decoder is no number of a symbol")
        _add(known, one.content, int(key), one.special, directory / CONFIG)
    said = {role: _said(getattr(config, role)) or _said(getattr(older, role)) for role in ROLES}
    named = {role: symbol for role, symbol in said.items() if symbol} | dict(roles or {})
    more = [*(config.additional_special_tokens or ()), *(older.additional_special_tokens or ())]
    for name in known.keys() & {*named.values(), *map(_said, more)}:
        known[name]["special"] = True
    whole = content | {"added_tokens": sorted(known.values(), key=lambda one: one["id"])}
    return Published(config.name_or_path or directory.resolve().name, whole, named, str(directory / FILE))


def lies_in(directory: str | Path) -> bool:
    """Whether a directory has a tokenizer, or files that may be one's."""
    return any(os.path.exists(Path(directory) / name) for name in (FILE, CONFIG, VOCABULARY, MODEL))


def _content(directory: Path, config: Config) -> dict[str, Any]:
    """What tokenizer.json says, or what two files of an older kind come to."""
    path = directory / FILE
    if os.path.exists(path):
        content = read_json(path)
        fit(content, Whole, str(path))
        return dict(content)
    kind = CLASSES.get((config.tokenizer_class or "").removesuffix("Fast"))
    pair = [directory / VOCABULARY, directory / MERGES]
    if kind and all(map(os.path.exists, pair)):
        vocabulary = read_json(pair[0], dict[str, Number])
        made: dict[str, Any] = bpe.content(vocabulary, bpe.pairs(read_text(pair[1]), str(pair[1])), kind)
        return made
    there = f"; {MODEL} alone is read by transformers: save it again by AutoTokenizer.from_pretrained(..)"
    what = there if os.path.exists(directory / MODEL) else "; take it from where the weights are from"
    raise UnmaskError(f"{cut(str(directory))} has no tokenizer ({FILE} is not there){what}")


def _added(directory: Path) -> dict[str, int]:
    path = directory / ADDED
    return read_json(path, dict[Text, Number], SMALL) if os.path.exists(path) else {}


def _add(known: dict[str, dict[str, Any]], text: str, number: int, special: bool, path: Path) -> None:
    """One that is said again, or one more; what either file calls special is."""
    found = known.setdefault(text, added_token(number, text, special))
    if found["id"] != number:
        raise UnmaskError(f"{cut(str(path))}: {shown(text)} is {number}, and {found['id']} elsewhere in this directory")
    found["special"] = found["special"] or special


def _said(symbol: str | Added | None) -> str | None:
    return symbol.content if isinstance(symbol, Added) else symbol
