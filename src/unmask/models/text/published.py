"""Tokenizers by name, and those of the package `tokenizers`: of a checkpoint, or learned from a text.

chars      the characters of the training documents; other characters are written as halves of bytes
bpe:N      N byte-level symbols, with merges learned from the training documents
FILE.json  a file of the package `tokenizers`, such as the tokenizer.json of a checkpoint

They are saved next to a network as plain JSON, and read without running code: no template and no code of a checkpoint
is read. Text never produces a special symbol such as the end of a turn: templates insert these by their numbers.

tokenizer.json            everything that encodes and decodes
tokenizer_config.json     the symbols that end, pad and mask
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, cut, needed, shown, unknown
from unmask.core.files import atomic, write_json
from unmask.core.reading import MOST, check_file, fit, read_json
from unmask.models.text.tokenizer import BREAK, FILE, MOST_SYMBOLS, Chars, Ints, Tokenizer

KINDS = ("chars", "bpe:N", "FILE.json")
CONFIG, WORDS = "tokenizer_config.json", "vocab.txt"
FILES = (FILE, CONFIG, WORDS, "vocab.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
ROLES = ("eos_token", "pad_token", "mask_token", "unk_token")
END = "<|endoftext|>"  # the separator of a learned tokenizer
LEAST = 257  # symbols: the bytes and the separator
SMALL = 2**22  # bytes of tokenizer_config.json
ANCHOR = "x"  # decoders change the beginning of a text, so a text within a sequence is decoded after this one
UNKNOWN = "\ufffd"  # in a decoded text: bytes that are no character
PRINTED = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
HIDDEN = sorted(set(range(256)).difference(PRINTED))
# byte-level symbols show a byte as its letter of Latin-1, or one from Ā on (GPT-2)
BYTE_LETTERS = dict(zip(map(chr, [*PRINTED, *range(256, 256 + len(HIDDEN))]), PRINTED + HIDDEN, strict=True))


class Symbol(msgspec.Struct):
    content: str


class Config(msgspec.Struct):
    """The entries of tokenizer_config.json that are used."""

    eos_token: str | Symbol | None = None
    pad_token: str | Symbol | None = None
    mask_token: str | Symbol | None = None
    unk_token: str | Symbol | None = None
    name_or_path: str | None = None
    do_lower_case: bool | None = None


class CharsFile(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="chars"):
    symbols: Annotated[str, msgspec.Meta(max_length=MOST_SYMBOLS)]


class Published(Tokenizer):
    """coder: a tokenizers.Tokenizer; named: the roles of symbols, as {"eos_token": "</s>"}.

    `controls` are the numbers of the special symbols, by name.
    """

    def __init__(self, name: str, coder: Any, named: Mapping[str, str], where: str) -> None:
        self.name, self.coder = name, coder
        self.named = dict(named)
        numbers = coder.get_vocab(with_added_tokens=True)
        self.vocabulary = max(numbers.values(), default=-1) + 1
        if not 0 < self.vocabulary <= MOST_SYMBOLS:
            raise UnmaskError(f"{cut(where)}: its symbols go up to {self.vocabulary - 1}; expected 1 to {MOST_SYMBOLS}")
        for role, symbol in self.named.items():
            if symbol not in numbers:
                raise UnmaskError(f"{cut(where)}: {role} is {shown(symbol)}, which is not one of its symbols")

        coder.add_special_tokens(sorted(set(self.named.values())))
        coder.encode_special_tokens = True  # as text
        coder.no_truncation()
        coder.no_padding()

        added = coder.get_added_tokens_decoder()
        self.controls = {one.content: number for number, one in sorted(added.items()) if one.special}
        self._numbers, self._where = numbers, where
        self.separator = entries.chosen(self.eos, entries.chosen(self.pad, -1))  # -1: it has none

    @property
    def eos(self) -> int | None:
        return self.controls.get(self.named.get("eos_token", ""))

    @property
    def pad(self) -> int | None:
        return self.controls.get(self.named.get("pad_token", ""))

    @property
    def mask(self) -> int | None:
        return self.controls.get(self.named.get("mask_token", ""))

    @cached_property
    def frame(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids that are put before and after a text, as [CLS] and [SEP]."""
        for text in (ANCHOR, *self._numbers):  # the first that has a token
            plain = self.coder.encode(text, add_special_tokens=False).ids
            whole = self.coder.encode(text, add_special_tokens=True).ids
            for at in range(len(whole) - len(plain) + 1) if plain else ():
                if whole[at : at + len(plain)] == plain:
                    return tuple(whole[:at]), tuple(whole[at + len(plain) :])
        return (), ()

    def control(self, symbol: str) -> int:
        """Return the number of a special symbol."""
        arguments.word(f"special symbol of the tokenizer {cut(self.name)}:", symbol, self.controls)
        return self.controls[symbol]

    def check_fits(self, rows: int, mask: int | None = None) -> None:
        """Raise an error if a head with this number of rows has no row for a symbol other than the mask."""
        beyond = sorted((number, text) for text, number in self._numbers.items() if number >= rows and number != mask)
        if beyond:
            number, text = beyond[0]
            raise UnmaskError(
                f"{cut(self._where)} has a symbol {number}, {shown(text)}, but the model's head has only {rows} rows",
                "Use the tokenizer of this model",
            )

    def _encode(self, text: str) -> Ints:
        return self._numbered(self.coder, text)

    def encode_inside(self, text: str) -> Ints:
        """Return the tokens of a text in the middle of a sequence: without the space that some put at its start."""
        return self._numbered(self._inner, text)

    def _numbered(self, coder: Any, text: str) -> Ints:
        numbers = coder.encode(text, add_special_tokens=False).ids
        if special := self._guarded.intersection(numbers):
            symbol = next(name for name, number in self.controls.items() if number in special)
            raise UnmaskError(
                f"the text {shown(text)} contains {shown(symbol)}, which {cut(self.name)} reads as a special symbol",
                "Remove it from the text",
            )
        return np.array(numbers, dtype=np.int32)

    @cached_property
    def _guarded(self) -> frozenset[int]:
        return frozenset(number for name, number in self.controls.items() if name != self.named.get("unk_token"))

    @cached_property
    def _inner(self) -> Any:
        """The same tokenizer, which puts no space at the start of a text."""
        coder = type(self.coder).from_str(json.dumps(json.loads(self.coder.to_str(), object_hook=_without_space)))
        coder.encode_special_tokens = True
        return coder

    @cached_property
    def _anchor(self) -> tuple[list[int], str]:
        """Tokens before a text within a sequence, and their text."""
        tokens = self.coder.encode(ANCHOR, add_special_tokens=False).ids
        return tokens, self.coder.decode(tokens, skip_special_tokens=False)

    def _text(self, tokens: Sequence[int]) -> str:
        return str(self.coder.decode(list(map(int, tokens)), skip_special_tokens=False))

    def written(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens in the middle of a sequence, without special symbols."""
        before, text = self._anchor
        silent = set(self.controls.values())
        return self._text([*before, *(token for token in tokens if token not in silent)])[len(text) :]

    @cached_property
    def pieces(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        tokens = range(self.vocabulary)
        silent = set(self.controls.values())
        before, text = self._anchor
        inside = self.coder.decode_batch([[*before, token] for token in tokens], skip_special_tokens=False)
        inside = [one.removeprefix(text) for one in inside]
        first = self.coder.decode_batch([[token] for token in tokens], skip_special_tokens=False)

        if all(len(inside[token]) == 2 and inside[token][0] == " " for token in tokens if token not in silent):
            inside = [one[1:] for one in inside]  # of letters, as in models of proteins: a space says nothing

        def piece(token: int, decoded: str) -> bytes:
            if token == self.separator:
                return BREAK.encode()
            if token in silent:
                return b""
            return self._bytes(token) if UNKNOWN in decoded else decoded.encode()

        return tuple(map(piece, tokens, inside)), tuple(map(piece, tokens, first))

    def _bytes(self, token: int) -> bytes:
        """The bytes of a token that are not a whole character: <0xE2>, or in the letters of byte-level symbols."""
        symbol = self.coder.id_to_token(token) or ""
        if byte := re.fullmatch("<0x([0-9A-F]{2})>", symbol):
            return bytes([int(byte[1], 16)])
        return bytes(map(BYTE_LETTERS.__getitem__, symbol)) if set(symbol) <= BYTE_LETTERS.keys() else b""

    def to_dict(self) -> dict[str, Any]:
        return {"content": json.loads(self.coder.to_str()), "named": self.named}

    def save(self, directory: str | Path) -> None:
        """Write the files that `read` and transformers read."""
        with atomic(Path(directory) / FILE) as file:
            file.write(self.coder.to_str(pretty=True).encode())
        about = {"tokenizer_class": "PreTrainedTokenizerFast", "name_or_path": self.name}
        write_json(Path(directory) / CONFIG, about | self.named)


def read(directory: str | Path) -> Published:
    """Return the tokenizer of a directory; raise an error if there is none."""
    directory = Path(directory)
    if not os.path.isdir(directory):
        raise UnmaskError(f"there is no directory {cut(str(directory))}; expected one with the files of a tokenizer")

    config = read_json(directory / CONFIG, Config, SMALL) if os.path.exists(directory / CONFIG) else Config()
    named = entries.given(entries.picked(msgspec.to_builtins(config), ROLES))
    for role, symbol in named.items():
        named[role] = symbol["content"] if isinstance(symbol, dict) else symbol

    name = config.name_or_path or directory.resolve().name
    if not os.path.exists(directory / FILE):
        return adopted(_of_transformers(directory, config.do_lower_case), name)

    coder = _from_file(directory / FILE)
    if not named and find_spec("transformers") is not None:
        with suppress(UnmaskError):  # old checkpoints leave the roles to the type of the model
            known = _roles(_of_transformers(directory, config.do_lower_case))
            named = {role: symbol for role, symbol in known.items() if coder.token_to_id(symbol) is not None}

    return Published(name, coder, named, str(directory / FILE))


def adopted(tokenizer: Any, name: str | None = None) -> Published:
    """The tokenizer of transformers, without its templates."""
    name = name or str(tokenizer.name_or_path)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    coder = _of_letters(tokenizer, name) if backend is None else type(backend).from_str(backend.to_str())
    return Published(name, coder, _roles(tokenizer), name)


def _roles(tokenizer: Any) -> dict[str, str]:
    """The symbols of a tokenizer of transformers, by their roles."""
    return {role: str(symbol) for role in ROLES if (symbol := getattr(tokenizer, role, None)) is not None}


def _of_letters(tokenizer: Any, name: str) -> Any:
    """The same tokenizer without its Python code, if the symbols of a text are letters, as in models of proteins."""
    library = _library()
    symbols = tokenizer.get_vocab()
    coder = library.Tokenizer(library.models.WordLevel(symbols, unk_token=str(tokenizer.unk_token)))
    letters = library.pre_tokenizers.Split(library.Regex("."), "isolated")
    coder.pre_tokenizer = library.pre_tokenizers.Sequence([library.pre_tokenizers.WhitespaceSplit(), letters])
    coder.decoder = library.decoders.Fuse()
    coder.add_special_tokens(list(map(str, tokenizer.all_special_tokens)))

    # the frame of a text, as the tokenizer puts it around one
    framed = tokenizer.build_inputs_with_special_tokens([-1])  # -1: the text
    names = {one: str(tokenizer.convert_ids_to_tokens(one)) for one in framed if one >= 0}
    form = list(map((names | {-1: "$A"}).__getitem__, framed))
    special = list(zip(names.values(), names, strict=True))
    coder.post_processor = library.processors.TemplateProcessing(single=form, special_tokens=special)

    text = "".join(symbol for symbol in symbols if len(symbol) == 1)
    if not text or coder.encode(text).ids != tokenizer(text)["input_ids"]:
        raise UnmaskError(
            f"{cut(name)}: its tokenizer, {type(tokenizer).__name__}, is written in Python",
            f"expected one of the package tokenizers, with {FILE}, or one of letters",
        )
    return coder


def _of_transformers(directory: Path, lowers: bool | None) -> Any:
    """The tokenizer of transformers in a directory, as of vocab.txt; lowers: whether it reads in small letters."""
    where = cut(str(directory))
    remedy = "download it from the source of the weights, or save it with AutoTokenizer.from_pretrained(..)"
    with needed("open", f"{where} has no {FILE}; a tokenizer of other files", remedy):
        import transformers

    words = _words(directory)
    options = {"local_files_only": True, "trust_remote_code": False}
    if lowers is None and any(word != word.lower() for word in words if word[:1] not in "[<"):
        options["do_lower_case"] = False  # it could never read these words

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory, **options)
        if len(tokenizer) < len(words):  # a model's type may stand for a tokenizer with other files
            tokenizer = transformers.BertTokenizer.from_pretrained(directory, **options)
    except Exception as error:  # any that a file of a stranger raises
        why = cut(" ".join(str(error).split()) or repr(error))
        raise UnmaskError(f"{where} has no tokenizer that transformers reads: {why}") from error

    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        files = " and ".join(sorted({FILE, *tokenizer.vocab_files_names.values()} - {FILE}))
        raise UnmaskError(
            f"{where} has no words for its tokenizer", f"expected {FILE}, or {files}. {remedy[0].upper()}{remedy[1:]}"
        )
    return tokenizer


def _words(directory: Path) -> set[str]:
    """The lines of vocab.txt, if there is one."""
    path = directory / WORDS
    if not os.path.exists(path):
        return set()
    check_file(path, MOST)
    return set(path.read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n"))


def read_file(path: str | Path) -> Published:
    """Return the tokenizer of a file, without roles: its separator is the special symbol that it adds last."""
    coder = _from_file(Path(path))
    special = [one.content for _, one in sorted(coder.get_added_tokens_decoder().items()) if one.special]
    if not special:
        raise UnmaskError(f"{cut(str(path))} has no special symbol; expected one, which ends a document")
    end = END if END in special else special[-1]
    return Published(str(path), coder, {"eos_token": end}, str(path))


def has_tokenizer(directory: str | Path) -> bool:
    """Return whether a directory has the files of a tokenizer."""
    return any(os.path.exists(Path(directory) / name) for name in FILES)


def trained(name: str, count: int, documents: Sequence[str]) -> Published:
    """Learn byte-level BPE from documents, with up to `count` symbols; a short text has fewer."""
    library = _library()
    coder = library.Tokenizer(library.models.BPE())
    coder.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    coder.decoder = library.decoders.ByteLevel()
    letters = library.pre_tokenizers.ByteLevel.alphabet()
    trainer = library.trainers.BpeTrainer(vocab_size=count - 1, initial_alphabet=letters, show_progress=False)
    coder.train_from_iterator(documents, trainer)
    coder.add_special_tokens([END])
    return Published(name, coder, {"eos_token": END}, name)


def check(name: str) -> None:
    """Raise an error for an unknown name, before a text is read."""
    arguments.of_kind("tokenizer", name, str, "a name")
    kind, _, option = name.partition(":")
    if kind == "bpe":
        size_of(option)
    elif name != Chars.name and not name.endswith(".json"):
        raise unknown("tokenizer", name, KINDS)


def make(name: str, documents: Sequence[str]) -> Tokenizer:
    """Return a tokenizer by its name, learned from training documents unless it is a file."""
    check(name)
    arguments.texts(
        "documents", arguments.of_kind("documents", documents, Sequence, "a list of texts"), "a list of texts"
    )
    if name.endswith(".json"):
        return read_file(name)
    kind, _, option = name.partition(":")
    if kind == "bpe":
        return trained(name, size_of(option), documents)
    return Chars.of(documents)


def load(directory: str | Path) -> Tokenizer | None:
    """Return the tokenizer in the directory of a network, or None."""
    path = Path(directory) / FILE
    if not os.path.exists(path):
        return None
    if not isinstance(content := read_json(path), dict) or "kind" not in content:
        return read(directory)
    file = fit(content, CharsFile, str(path))
    if list(file.symbols) != sorted(set(file.symbols)):
        raise UnmaskError(f"{cut(str(path))}: expected different symbols in the order of their codes")
    return Chars(file.symbols)


def size_of(text: str) -> int:
    """The N of bpe:N."""
    number = int(text) if text.isdecimal() and len(text) < 10 else text
    return arguments.whole("the size of the tokenizer bpe:N", number, LEAST, MOST_SYMBOLS)


def _from_file(path: Path) -> Any:
    check_file(path, MOST)
    coder = _library().Tokenizer
    try:
        return coder.from_file(str(path))
    except BaseException as error:  # a panic in Rust is not an Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        what = cut(str(error).partition("\n")[0])
        raise UnmaskError(f"{cut(str(path))} is not readable by the package tokenizers: {what}") from error


def _library() -> Any:
    """The package `tokenizers` with its submodules."""
    with needed("text", "a tokenizer other than chars", "take --tokenizer chars"):
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.processors
        import tokenizers.trainers
    return tokenizers


def _without_space(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a tokenizer.json, without the space that it puts before a text."""
    changes: dict[str, dict[str, Any]] = {
        "Metaspace": {"prepend_scheme": "never"},
        "ByteLevel": {"add_prefix_space": False},
        "Prepend": {"prepend": ""},
    }
    return part | changes.get(str(part.get("type")), {})
