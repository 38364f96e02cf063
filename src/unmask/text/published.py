"""The tokenizer of a published checkpoint: plain data; the package `tokenizers` encodes with it.

Text never produces a special symbol such as the end of a turn: templates insert special symbols by name. A table from
symbols to bytes is built here, so that a character with hidden bytes is distinguished from an invalid one.
"""

from __future__ import annotations

import codecs
import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from unmask.core.errors import UnmaskError, cut, shown, unknown
from unmask.core.files import write_json
from unmask.text.packages import tokenizers
from unmask.text.tokenizer import FILE, MOST_SYMBOLS, Ints, Tokenizer

CONFIG = "tokenizer_config.json"
ROLES = ("bos_token", "eos_token", "pad_token", "mask_token", "unk_token")
BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # a byte in the symbols of SentencePiece
SPACE = "\u2581"  # its sign for a space


def _letters() -> dict[str, int]:
    """Return the letter of each byte: itself if printable, else one beyond Latin-1 (Radford et al. 2019)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(hidden)}


LETTERS = _letters()
NO_TEXT = "\ufffd".encode()  # shown for a number without a symbol


class Published(Tokenizer):
    """content: that of tokenizer.json; named: the roles of symbols, {"eos_token": "</s>"}, from the files next to it.

    `controls` are the special symbols, by name.
    """

    def __init__(self, name: str, content: Mapping[str, Any], named: Mapping[str, str], where: str) -> None:
        self.name, self.content, self.named, self.where = name, dict(content), dict(named), where
        added = {one["content"]: one for one in self.content.get("added_tokens", ())}
        self._plain = _made(self.content, where)
        plain = self._plain.get_vocab(with_added_tokens=False)
        self.numbers: dict[str, int] = plain | {text: one["id"] for text, one in added.items()}
        self._texts = added.keys()  # symbols whose text is their name
        self.vocabulary = max(self.numbers.values(), default=-1) + 1
        if not 0 < self.vocabulary <= MOST_SYMBOLS:
            raise UnmaskError(f"{cut(where)}: its symbols go up to {self.vocabulary - 1}; expected 1 to {MOST_SYMBOLS}")
        if len(set(self.numbers.values())) < len(self.numbers):
            raise UnmaskError(f"{cut(where)}: two symbols have the same number")
        for role, symbol in self.named.items():
            if symbol not in self.numbers:
                raise UnmaskError(f"{cut(where)}: {role} is {shown(symbol)}, which is not one of its symbols")
        special = {text for text, one in added.items() if one.get("special", False)}
        self.controls = {text: self.numbers[text] for text in sorted(special | set(self.named.values()))}
        self._renumber = {
            number: self.numbers[text]
            for text, number in self._plain.get_vocab().items()
            if self.numbers[text] != number
        }
        end = self.eos if self.eos is not None else self.pad
        self.separator = -1 if end is None else end  # -1: it has none

    def _role(self, role: str) -> int | None:
        return self.numbers[self.named[role]] if role in self.named else None

    @property
    def bos(self) -> int | None:
        return self._role("bos_token")

    @property
    def eos(self) -> int | None:
        return self._role("eos_token")

    @property
    def pad(self) -> int | None:
        return self._role("pad_token")

    @property
    def mask(self) -> int | None:
        return self._role("mask_token")

    def control(self, symbol: str) -> int:
        """Return the number of a special symbol."""
        if symbol not in self.controls:
            raise unknown(f"special symbol of the tokenizer {cut(self.name)}:", symbol, self.controls)
        return self.controls[symbol]

    def check_fits(self, rows: int, mask: int | None = None) -> None:
        """Raise an error if a head with this number of rows has no row for a symbol other than the mask."""
        beyond = sorted((number, text) for text, number in self.numbers.items() if number >= rows and number != mask)
        if beyond:
            number, text = beyond[0]
            what = (
                f"has {self.vocabulary} symbols, but the model's head has {rows} rows, none for {number}, {shown(text)}"
            )
            raise UnmaskError(f"{cut(self.where)} {what}. Use the tokenizer of this model")

    def _encode(self, text: str) -> Ints:
        return self._numbered(self._plain, text)

    def encode_inside(self, text: str) -> Ints:
        """Return the tokens of a text in the middle of a sequence: without the space that some put at its start."""
        return self._numbered(self._inner, text) if self._spaced and text else self.encode(text)

    def _numbered(self, encoder: Any, text: str) -> Ints:
        if self._lacking and (lost := next((c for c in text if self._lacking.intersection(c.encode())), None)):
            raise UnmaskError(
                f"the tokenizer {cut(self.name)} has no symbols for {shown(lost)}. Remove it from the text"
            )
        numbers = encoder.encode(text, add_special_tokens=False).ids
        if self._renumber:
            numbers = [self._renumber.get(number, number) for number in numbers]
        if special := self._guarded.intersection(numbers):
            symbol = next(name for name, number in self.controls.items() if number in special)
            what = f"which {cut(self.name)} reads as a special symbol. Remove it from the text"
            raise UnmaskError(f"the text {shown(text)} contains {shown(symbol)}, {what}")
        return np.array(numbers, dtype=np.int32)

    @cached_property
    def _guarded(self) -> frozenset[int]:
        unk = self.named.get("unk_token")
        return frozenset(number for name, number in self.controls.items() if name != unk)

    @cached_property
    def _lacking(self) -> frozenset[int]:
        """Return the bytes without a symbol, which the tokenizer would drop."""
        if _kind(self.content) != "bytes":
            return frozenset()
        return frozenset(byte for letter, byte in LETTERS.items() if letter not in self.numbers)

    @cached_property
    def _silent(self) -> frozenset[int]:
        return frozenset(self.controls.values())

    @cached_property
    def _inner(self) -> Any:
        return _made(_without_space(self.content), self.where)

    @cached_property
    def _spaced(self) -> bool:
        """Return whether the tokenizer puts a space at the start of a sequence."""
        numbers = self._plain.encode("x", add_special_tokens=False).ids
        return bool(numbers) and self._pieces[self._renumber.get(numbers[0], numbers[0])].startswith(b" ")

    @cached_property
    def _pieces(self) -> dict[int, bytes]:
        """Return the bytes of each symbol."""
        kind = _kind(self.content)
        pieces: dict[int, bytes] = {}
        for name, number in self.numbers.items():
            if name in self._texts:
                pieces[number] = name.encode()
            elif kind == "bytes" and LETTERS.keys() >= set(name):
                pieces[number] = bytes(map(LETTERS.__getitem__, name))
            elif kind == "spaces":
                byte = BYTE.fullmatch(name)
                pieces[number] = bytes([int(byte[1], 16)]) if byte else name.replace(SPACE, " ").encode()
            elif kind == "words":
                pieces[number] = name[2:].encode() if name.startswith("##") else f" {name}".encode()
            else:
                pieces[number] = name.encode()
        return pieces

    def _bytes(self, tokens: Sequence[int]) -> bytes:
        raw = b"".join(self._pieces.get(token, NO_TEXT) for token in tokens)
        return raw[1:] if self._spaced and raw.startswith(b" ") else raw

    def written(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens in the middle of a sequence, without special symbols."""
        return self._raw(tokens).decode(errors="replace")

    def begun(self, tokens: Iterable[int]) -> str:
        """Return the text that later tokens cannot change: without a last character whose bytes are incomplete."""
        return codecs.getincrementaldecoder("utf-8")("replace").decode(self._raw(tokens))

    def _raw(self, tokens: Iterable[int]) -> bytes:
        return b"".join(self._pieces.get(token, NO_TEXT) for token in tokens if token not in self._silent)

    def pieces(self, tokens: Iterable[int | None]) -> Iterator[str | None]:
        """Yield the text that each token adds, None where it is hidden.

        A character comes with the last of its bytes; bytes of a character that begins in a hidden token are dropped.
        """
        reader = codecs.getincrementaldecoder("utf-8")("replace")
        open_ = False  # whether the tokens before may be hidden
        for token in tokens:
            if token is None:
                reader.reset()
                open_ = True
                yield None
                continue
            raw = self._pieces.get(token, NO_TEXT)
            while open_ and raw and 0x80 <= raw[0] < 0xC0:  # of a character that began in a hidden token
                raw = raw[1:]
            open_ = open_ and not raw
            yield reader.decode(raw)

    def to_dict(self) -> dict[str, Any]:
        return {"content": self.content, "named": self.named}

    def save(self, directory: str | Path) -> None:
        """Write the files that `checkpoint.read` and transformers read."""
        about = {"tokenizer_class": "PreTrainedTokenizerFast", "name_or_path": self.name}
        write_json(Path(directory) / FILE, self.content)
        write_json(Path(directory) / CONFIG, about | self.named)


def added_token(number: int, text: str, special: bool = True) -> dict[str, Any]:
    """Return an entry of `added_tokens`, by default of a special symbol."""
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": text, "special": special} | plain


def _made(content: Mapping[str, Any], where: str) -> Any:
    """Return an encoder that never produces or adds special symbols."""
    import json

    _check_merges(content["model"], where)
    added = [one for one in content.get("added_tokens", ()) if not one.get("special", False)]
    plain = {**content, "added_tokens": added, "post_processor": None, "truncation": None, "padding": None}
    try:
        return tokenizers().Tokenizer.from_str(json.dumps(plain))
    except UnmaskError:
        raise
    except BaseException as error:  # a panic in Rust is not an Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        what = cut(str(error).partition("\n")[0])
        raise UnmaskError(f"{cut(where)} is not readable by the package tokenizers: {what}") from error


def _check_merges(model: Mapping[str, Any], where: str) -> None:
    """Raise an error for a merge without the prefix: the package would cut it within a character and panic."""
    prefix, merges = model.get("continuing_subword_prefix"), model.get("merges")
    for pair in merges if prefix and isinstance(merges, list) else ():
        right = (
            str(pair).rpartition(" ")[2]
            if isinstance(pair, str)
            else str(pair[-1])
            if isinstance(pair, list) and pair
            else ""
        )
        if not right.startswith(str(prefix)):
            what = f"{shown(right)} is the right part of a merge, but does not begin with continuing_subword_prefix"
            raise UnmaskError(f"{cut(where)}: {what}, {shown(prefix)}")


def _kind(content: Mapping[str, Any]) -> str:
    """Return the spelling of symbols: letters of bytes, a sign for spaces, words, or plain."""
    places = ("decoder", "pre_tokenizer", "normalizer")
    parts = {str(part.get("type")) for name in places for part in _parts(content, name)}
    if "ByteLevel" in parts:
        return "bytes"
    if content["model"].get("byte_fallback") or parts & {"Metaspace", "ByteFallback"}:
        return "spaces"
    return "words" if content["model"].get("type") == "WordPiece" else "plain"


def _parts(content: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield a part, and the parts of a sequence of parts."""
    part = content.get(name)
    if isinstance(part, dict):
        yield part
        for within in ("normalizers", "pretokenizers", "decoders"):
            inner = part.get(within)
            yield from (one for one in inner if isinstance(one, dict)) if isinstance(inner, list) else ()


def _without_space(content: Mapping[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(dict(content))
    for name in ("pre_tokenizer", "normalizer"):
        for part in _parts(changed, name):
            if part.get("type") == "Metaspace":
                part |= {"prepend_scheme": "never"}
                part.pop("add_prefix_space", None)
            elif part.get("type") == "ByteLevel":
                part["add_prefix_space"] = False
            elif part.get("type") == "Prepend":
                part["prepend"] = ""
    return changed
