"""What the files of a checkpoint say of its symbols, held against its card: a mask that is another one is silent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unmask.core.errors import UnmaskError, shown
from unmask.hub.card import Card
from unmask.hub.chat import Message, template
from unmask.text.published import Published

CONFIG, BESIDE = "config.json", "the tokenizer"


def problems(card: Card, config: Mapping[str, Any], tokenizer: Published | None) -> Iterator[str]:
    """Each thing in which they differ; nothing where one of them says nothing."""
    tokens = card.tokens
    known = {tokens.eos, tokens.end_of_turn, tokens.pad}
    yield from _differ(f"{CONFIG}: mask_token_id", config.get("mask_token_id"), {tokens.mask}, card)
    yield from _differ(f"{CONFIG}: eos_token_id", config.get("eos_token_id"), {tokens.eos}, card)
    if tokenizer is None:
        return
    if not card.causal:
        yield from _differ(f"{BESIDE}: mask_token", tokenizer.mask, {tokens.mask}, card)
    yield from _differ(f"{BESIDE}: eos_token", tokenizer.eos, known, card)
    if card.template is None:
        return
    try:
        chat = template(card.template)
        chat.tokens(tokenizer, [Message("user", "x")])
        end = chat.ends(tokenizer)
    except UnmaskError as error:
        yield f"its conversations are those of {card.template!r}, and {error}"
        return
    if isinstance(end, int):
        yield from _differ(f"{BESIDE}: {chat.end}", end, {tokens.end_of_turn}, card)


def _differ(what: str, found: Any, expected: set[int | None], card: Card) -> Iterator[str]:
    among = set(found) if isinstance(found, list) else {found}
    said = expected - {None}
    if found is not None and said and not among & said:
        numbers = " or ".join(map(str, sorted(number for number in said if number is not None)))
        yield f"{what} is {shown(found)}, and the card {card.name} says {numbers}"
