"""Compare the special tokens in the files of a checkpoint with its card: an incorrect mask would cause no error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unmask.core.errors import UnmaskError, shown
from unmask.hub.card import Card
from unmask.hub.chat import Message, template
from unmask.text.published import Published

CONFIG, TOKENIZER = "config.json", "the tokenizer"


def problems(card: Card, config: Mapping[str, Any], tokenizer: Published | None) -> Iterator[str]:
    """Each difference between the files and the card; missing entries are skipped."""
    tokens = card.tokens
    known = {tokens.eos, tokens.end_of_turn, tokens.pad}
    yield from _differ(f"{CONFIG}: mask_token_id", config.get("mask_token_id"), {tokens.mask}, card)
    yield from _differ(f"{CONFIG}: eos_token_id", config.get("eos_token_id"), {tokens.eos}, card)
    if tokenizer is None:
        return
    if not card.causal:
        yield from _differ(f"{TOKENIZER}: mask_token", tokenizer.mask, {tokens.mask}, card)
    yield from _differ(f"{TOKENIZER}: eos_token", tokenizer.eos, known, card)
    if card.template is None:
        return
    try:
        chat = template(card.template)
        chat.tokens(tokenizer, [Message("user", "x")])
        end = chat.ends(tokenizer)
    except UnmaskError as error:
        yield f"its chat template is {card.template!r}: {error}"
        return
    if isinstance(end, int):
        yield from _differ(f"{TOKENIZER}: {chat.end}", end, {tokens.end_of_turn}, card)


def _differ(name: str, value: Any, expected: set[int | None], card: Card) -> Iterator[str]:
    values = set(value) if isinstance(value, list) else {value}
    numbers = sorted(number for number in expected if number is not None)
    if value is not None and numbers and values.isdisjoint(numbers):
        yield f"{name} is {shown(value)}; expected {' or '.join(map(str, numbers))}, as in the card {card.name}"
