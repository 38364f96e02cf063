"""What is said of texts, by hand: the entropy of a row's tokens, nats by each judge, words that are none."""

from __future__ import annotations

import math

import pytest
import torch

from unmask.models.text import Corpus, NGramJudge, Text, make
from unmask.models.trained import Shape, Trunk
from unmask.planning.judge import Judges, token_entropy

DOCUMENTS = tuple(f"the cat {number} sat on the mat, and the rat ran." for number in range(60))
CORPUS = Corpus("made", DOCUMENTS)
TEXT = Text(CORPUS, make("chars", CORPUS.training))


def trunk(kind="ar", length=24):
    made = Trunk(Shape(kind, TEXT.vocabulary, length, hidden=16, layers=1, heads=2)).double().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(0, 0.3, generator=generator)
    return made


def test_the_entropy_of_the_tokens_of_a_row():
    rows = torch.tensor([[5, 5, 5, 5], [1, 2, 1, 2], [0, 1, 2, 3], [7, 7, 7, 2]])
    quarter = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    torch.testing.assert_close(
        token_entropy(rows), torch.tensor([0.0, math.log(2), math.log(4), quarter], dtype=torch.float64)
    )


def test_the_judges_of_rows():
    judges = Judges(TEXT, trunk())
    rows = torch.cat(
        [TEXT.tiles(4, 24), torch.randint(TEXT.vocabulary, (4, 24), generator=torch.Generator().manual_seed(1))]
    )
    found = judges(rows)
    read = torch.cat([torch.full((8, 1), TEXT.vocabulary), rows[:, :-1]], 1)
    with torch.no_grad():
        paid = -trunk()(read).log_softmax(-1).gather(2, rows.unsqueeze(2)).mean((1, 2))
    torch.testing.assert_close(found.twin, paid)
    ngram = NGramJudge(CORPUS.held_out)
    for row, said in zip(rows.tolist(), found.ngram.tolist(), strict=True):
        nats, size = ngram.nats(TEXT.tokenizer.documents(row))
        assert said == pytest.approx(nats / size)
    assert found.ngram[:4].max() < found.ngram[4:].min()
    assert not found.unknown[:4].nan_to_num().any()  # the text has its words
    assert not found.wrong[:4].any()


def test_a_row_without_words_says_nothing_of_them():
    judges = Judges(TEXT, trunk())
    space = int(TEXT.tokenizer.encode(" ")[0])
    found = judges(torch.full((1, 24), space))
    assert found.unknown.isnan().all()
    assert not found.wrong.any()
    only = judges(torch.full((1, 24), TEXT.tokenizer.separator))
    assert only.ngram.isfinite().all()
