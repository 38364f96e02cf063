"""All that is wrong with a checkpoint's directory: each part is looked at, whatever is wrong with another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from unmask.core.errors import UnmaskError
from unmask.hub import tokens, weights
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card
from unmask.hub.fetch import locate
from unmask.hub.gguf import Packed
from unmask.hub.loading import card_of, load_model, shape_of, tokenizer_of
from unmask.hub.probe import probe
from unmask.text.published import Published

PARTS = ("config", "card", "weights", "tokenizer", "tokens", "behaviour")


class Checked(NamedTuple):
    card: Card | None
    problems: dict[str, list[str]]  # of each part that was looked at; empty where all is well

    @property
    def sound(self) -> bool:
        return not any(self.problems.values())


def check(source: str | Path, card: str | None = None, device: str = "cpu") -> Checked:
    """Look at a directory's config, which card fits it, its weights by their headers, its tokenizer, what they say of
    the model's symbols, and, where all of that is well, how it behaves when it is loaded."""
    found: dict[str, list[str]] = {}

    @contextmanager
    def part(name: str) -> Iterator[list[str]]:
        problems = found.setdefault(name, [])
        try:
            yield problems
        except UnmaskError as error:
            problems.append(str(error))

    directory, which = locate(source, card)
    config: dict[str, Any] | None = None
    body: Body | None = None
    tokenizer: Published | None = None
    with part("config"):
        config = weights.read_config(directory)
    if config is not None:
        with part("card"):
            which, _ = card_of(directory, which)
    with part("weights") as problems, weights.opened(directory) as files:
        if config is not None and which is not None and not found.get("card"):
            body = shape_of(directory, which, config)
            problems += _misfits(which, body, files)
    with part("tokenizer"):
        if which is not None:
            tokenizer = tokenizer_of(directory, which, 2**31 if body is None else body.vocabulary)
    if config is not None and which is not None:
        with part("tokens") as problems:
            problems += tokens.problems(which, config, tokenizer)
    if not any(found.values()):
        with part("behaviour"):
            probe(load_model(directory, card=card, device=device, checked=False))
    return Checked(which, found)


def _misfits(card: Card, body: Body | None, files: weights.Files | Packed) -> Iterator[str]:
    family = FAMILIES[card.family]
    if body is None or family.sources is None:
        return
    wanted = {name: tensor.shape for name, tensor in body.state_dict().items()}
    yield from weights.problems(family.sources(body, frozenset(files)), wanted, files, family.unused)
