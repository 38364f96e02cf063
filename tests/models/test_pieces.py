"""A pattern on the tokens of real tokenizers means the text that they decode to: every string of tokens is tried."""

from __future__ import annotations

import re
from itertools import product

import pytest
import torch

from tests.needs import needs
from unmask import UnmaskError
from unmask.languages.patterns import regex
from unmask.models.text.published import UNKNOWN, Published

pytestmark = needs("open")


def coder(symbols, decoder):
    import tokenizers

    model = tokenizers.models.WordLevel({symbol: n for n, symbol in enumerate(symbols)}, unk_token=symbols[0])
    made = tokenizers.Tokenizer(model)
    made.decoder = decoder(tokenizers.decoders)
    return made


def sentence_piece(decoders):
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    return decoders.Sequence(parts)


KINDS = {
    "word piece": (["x", "a", "##b", "-", "##a", "b"], lambda d: d.WordPiece()),
    "byte-level": (["x", "a", "Ġa", "Ã", "©", "Ġ", "é"], lambda d: d.ByteLevel()),
    "sentence piece": (["x", "▁a", "a", "▁", "<0xC3>", "<0xA9>", "é", "▁x"], sentence_piece),
    "letters": (["x", "a", "b", "c"], lambda d: d.WordPiece()),
}
PATTERNS = ["[ab -]*", "a(b| a)*x?", "( ?a)*", ".*é", "a[^ ]+", "(?i)É?a?", " *x.", "[à-ü]+"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_strings_are_those_whose_decoded_text_matches(kind, pattern):
    symbols, decoder = KINDS[kind]
    tokenizer = Published(kind, coder(symbols, decoder), {}, kind)
    rows, right = [], []
    for length in range(1, 5):
        for row in product(range(len(symbols)), repeat=length):
            text = tokenizer.coder.decode(list(row))
            text = text.replace(" ", "") if kind == "letters" else text
            if UNKNOWN not in text:
                rows.append(row)
                right.append(bool(re.fullmatch(pattern, text, re.DOTALL | re.ASCII)))
    try:
        automaton = regex(pattern, len(symbols), *tokenizer.pieces)
    except UnmaskError:
        assert not any(right)
        return
    found = [bool(automaton.accepts(torch.tensor([row]))[0]) for row in rows]
    assert found == right


def test_control_symbols_are_never_allowed():
    tokenizer = Published("t", coder(["x", "[MASK]", "<end>"], lambda d: d.WordPiece()), {"mask_token": "[MASK]"}, "t")
    automaton = regex(".*", 3, *tokenizer.pieces)
    assert automaton.accepts(torch.tensor([[0, 0], [0, 1], [1, 0]])).tolist() == [True, False, False]


def test_an_impossible_pattern_says_where():
    tokenizer = Published("t", coder(["x", "{", "##n"], lambda d: d.WordPiece()), {}, "t")
    message = """after '{n' none goes on with 'ame'. Expected a text of these tokens"""
    with pytest.raises(UnmaskError, match=message):
        regex("{name", 3, *tokenizer.pieces)
