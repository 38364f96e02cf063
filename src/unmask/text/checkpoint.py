"""Read the tokenizer of a checkpoint from files that are data; no template and no code is read.

tokenizer.json                             symbols, merges, the split into words, and added symbols
tokenizer_config.json                      the symbols that begin, end, pad and mask, and more added symbols
special_tokens_map.json, added_tokens.json the same in older checkpoints; tokenizer_config.json has precedence
vocab.json and merges.txt                  replace the first for the classes of GPT-2, Qwen2 and Dream
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
    """The part of a tokenizer.json with a schema; the package `tokenizers` checks the rest."""

    model: dict[str, Any]
    added_tokens: list[Numbered] = []


Symbol = Text | Added | None


class Config(msgspec.Struct):
    """The entries of tokenizer_config.json or special_tokens_map.json that are used."""

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
    """Return the tokenizer of a directory; raise an error if there is none.

    roles: special symbols that are missing from its files: {"mask_token": "<|mdm_mask|>"}.
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
            raise UnmaskError(
                f"{directory / CONFIG}: added_tokens_decoder has {shown(key)}; expected the number of a symbol"
            )
        _add(known, one.content, int(key), one.special, directory / CONFIG)
    symbols = {role: _text(getattr(config, role)) or _text(getattr(older, role)) for role in ROLES}
    named = {role: symbol for role, symbol in symbols.items() if symbol} | dict(roles or {})
    more = [*(config.additional_special_tokens or ()), *(older.additional_special_tokens or ())]
    for name in known.keys() & {*named.values(), *map(_text, more)}:
        known[name]["special"] = True
    whole = content | {"added_tokens": sorted(known.values(), key=lambda one: one["id"])}
    return Published(config.name_or_path or directory.resolve().name, whole, named, str(directory / FILE))


def has_tokenizer(directory: str | Path) -> bool:
    """Return whether a directory has a tokenizer, or files that may belong to one."""
    return any(os.path.exists(Path(directory) / name) for name in (FILE, CONFIG, VOCABULARY, MODEL))


def _content(directory: Path, config: Config) -> dict[str, Any]:
    """Return the content of tokenizer.json, or the same from two files of the older format."""
    path = directory / FILE
    if os.path.exists(path):
        content = read_json(path)
        fit(content, Whole, str(path))
        return dict(content)
    kind = CLASSES.get((config.tokenizer_class or "").removesuffix("Fast"))
    pair = [directory / VOCABULARY, directory / MERGES]
    if kind and all(map(os.path.exists, pair)):
        vocabulary = read_json(pair[0], dict[str, Number])
        merges = bpe.pairs(read_text(pair[1]), str(pair[1]))
        return dict(bpe.content(vocabulary, merges, kind))
    there = f". Only transformers reads {MODEL}: save it again with AutoTokenizer.from_pretrained(..)"
    what = there if os.path.exists(directory / MODEL) else ". Download it from the source of the weights"
    raise UnmaskError(f"{cut(str(directory))} has no tokenizer ({FILE} is missing){what}")


def _added(directory: Path) -> dict[str, int]:
    path = directory / ADDED
    return read_json(path, dict[Text, Number], SMALL) if os.path.exists(path) else {}


def _add(known: dict[str, dict[str, Any]], text: str, number: int, special: bool, path: Path) -> None:
    """Add a symbol, or check a repeated one; it is special if any file marks it as special."""
    entry = known.setdefault(text, added_token(number, text, special))
    if entry["id"] != number:
        raise UnmaskError(
            f"{cut(str(path))}: {shown(text)} is {number} here and {entry['id']} in another file of this directory"
        )
    entry["special"] = entry["special"] or special


def _text(symbol: str | Added | None) -> str | None:
    return symbol.content if isinstance(symbol, Added) else symbol
