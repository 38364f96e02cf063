"""Check all parts of a checkpoint's directory, and report the problems of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from unmask.core.errors import UnmaskError
from unmask.models.open import weights
from unmask.models.open.body import Body
from unmask.models.open.card import FAMILIES, Card
from unmask.models.open.fetch import locate
from unmask.models.open.loading import card_of, load_model, shape_of, token_problems, tokenizer_of
from unmask.models.open.probing import probe
from unmask.models.text.published import Published

PARTS = ("config", "card", "weights", "tokenizer", "tokens", "behaviour")


class Checked(NamedTuple):
    card: Card | None
    problems: dict[str, list[str]]  # by checked part; an empty list means ok

    @property
    def sound(self) -> bool:
        return not any(self.problems.values())


def check(source: str | Path, card: str | None = None, device: str = "cpu") -> Checked:
    """Check the config, the card, the headers of the weights, the tokenizer and the special tokens of a directory.

    If all of these are ok, load the model and check its behaviour.
    """
    checked: dict[str, list[str]] = {}

    @contextmanager
    def part(name: str) -> Iterator[list[str]]:
        problems = checked.setdefault(name, [])
        try:
            yield problems
        except UnmaskError as error:
            problems.append(str(error))

    directory, named = locate(source, card)
    config: dict[str, Any] | None = None
    body: Body | None = None
    tokenizer: Published | None = None
    with part("config"):
        config = weights.read_config(directory)
    if config is not None:
        with part("card"):
            named, _ = card_of(directory, named)
    with part("weights") as problems, weights.opened(directory) as files:
        if config is not None and named is not None and not checked.get("card"):
            body = shape_of(directory, named, config)
            problems += _misfits(named, body, files)
    with part("tokenizer"):
        if named is not None:
            tokenizer = tokenizer_of(directory, named, 2**31 if body is None else body.vocabulary)
    if config is not None and named is not None:
        with part("tokens") as problems:
            problems += token_problems(named, config, tokenizer)
    if not any(checked.values()):
        with part("behaviour"):
            probe(load_model(directory, card=card, device=device, checked=False))
    return Checked(named, checked)


def _misfits(card: Card, body: Body | None, files: weights.Files) -> Iterator[str]:
    family = FAMILIES[card.family]
    if body is None or family.sources is None:
        return
    shapes = {name: tensor.shape for name, tensor in body.state_dict().items()}
    yield from weights.problems(family.sources(body, frozenset(files)), shapes, files, family.unused)
