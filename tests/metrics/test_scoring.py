"""score() on samples that can be checked by hand, and what it refuses."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from tests.brute import distribution, sequences, tiny_languages
from tests.metrics.small import sizes
from unmask import generate
from unmask.core.errors import UnmaskError
from unmask.denoisers import Perturbed
from unmask.languages import Brackets, Interval, NGram
from unmask.metrics import bigrams, score

NO_PAIRS = NGram(2, [0.5, 0.5], [[0.75, 0.25], [1.0, 0.0]])  # a 1 is followed by a 0
VALID = {(0, 0, 1): 3 / 32, (0, 1, 0): 1 / 8, (1, 0, 0): 3 / 8, (0, 0, 0): 9 / 32, (1, 0, 1): 1 / 8}
INVALID = [(0, 1, 1), (1, 1, 0), (1, 1, 1)]


def test_valid_samples():
    ours = score(torch.tensor(list(VALID)), NO_PAIRS)
    nll = -sum(math.log2(q) for q in VALID.values()) / 3 / 5
    assert (ours.rows, ours.length, ours.impossible_rows) == (5, 3, 0)
    assert (ours.ser.value, ours.ser.method) == (0, "clopper-pearson")
    assert ours.nll_bits_per_token == pytest.approx(nll)
    assert ours.nll_bits_per_token_pooled == pytest.approx(nll)
    assert ours.generative_perplexity.value == pytest.approx(2**nll)
    assert ours.generative_perplexity.n == 5
    assert ours.bigrams == bigrams(torch.tensor(list(VALID)), NO_PAIRS)
    assert ours.ser_rao_blackwell is None


def test_invalid_samples_have_no_perplexity():
    ours = score(torch.tensor(INVALID), NO_PAIRS)
    assert (ours.ser.value, ours.impossible_rows) == (1, 3)
    assert ours.generative_perplexity is ours.nll_bits_per_token is ours.nll_bits_per_token_pooled is None


@pytest.mark.parametrize("copies", [1, 4])
def test_a_mixture_is_scored_by_its_valid_rows(copies):
    ours = score(torch.tensor((list(VALID) + INVALID) * copies), NO_PAIRS)
    valid_alone = score(torch.tensor(list(VALID) * copies), NO_PAIRS)
    assert (ours.rows, ours.impossible_rows, ours.ser.value) == (8 * copies, 3 * copies, 3 / 8)
    assert ours.ser.method == "clopper-pearson"
    assert ours.generative_perplexity == valid_alone.generative_perplexity
    assert ours.nll_bits_per_token_pooled == pytest.approx(valid_alone.nll_bits_per_token_pooled)


def test_one_valid_row_knows_no_interval():
    ours = score(torch.tensor([(0, 1, 0), (1, 1, 1)]), NO_PAIRS).generative_perplexity
    assert (ours.value, ours.low, ours.high) == (pytest.approx(2), 1, math.inf)


@pytest.mark.parametrize("name", ["brackets, 1 kind, stop", "brackets, 2 kinds, stop"])
def test_sequences_of_varying_length_count_by_their_own(name):
    """The mean over rows of bits / |x|, and the bits of all rows over the tokens of all rows: not the same."""
    language, length = tiny_languages()[name]
    q, size = distribution(language, length), sizes(language, length)
    possible = np.flatnonzero(q)
    rows = np.concatenate([possible, possible[:2]])
    ours = score(torch.from_numpy(sequences(language.vocabulary, length)[[*rows, 0]]), language)
    bits = -np.log2(q[rows])
    assert ours.impossible_rows == 1
    assert ours.nll_bits_per_token == pytest.approx(np.mean(bits / size[rows]))
    assert ours.nll_bits_per_token_pooled == pytest.approx(bits.sum() / size[rows].sum())
    assert ours.generative_perplexity.value == pytest.approx(2 ** np.mean(bits / size[rows]))
    assert abs(ours.nll_bits_per_token - ours.nll_bits_per_token_pooled) > 5e-3


def test_a_generation_brings_what_it_knows():
    """The order, which plain tokens lack; errors of the last step count too, which no model call sees."""
    language = Interval(3)
    made = generate(language, steps=2, length=9, rows=500)
    ours, plain = score(made, language), score(made.tokens, language)
    assert made.summary()["impossible_rows"] == ours.impossible_rows > int((made.impossible > 0).sum()) > 0
    assert ours.ser_rao_blackwell.method == "rao-blackwell"
    assert plain.ser_rao_blackwell is None
    assert plain.impossible_rows == ours.impossible_rows
    assert (ours.ser, ours.generative_perplexity, ours.bigrams) == (
        plain.ser,
        plain.generative_perplexity,
        plain.bigrams,
    )


@pytest.mark.parametrize(
    ("source", "sampler"),
    [
        (Interval(3), "low-confidence"),
        (Interval(3), "autoregressive"),
        (Perturbed(Interval(3), "leak", 0.5), "left-to-right"),
        (NGram(2, [0.25] * 4, np.full((4, 4), 0.25)), "ancestral"),
        (Interval(2), "ancestral"),
    ],
    ids=["adaptive", "one by one", "another denoiser", "another language", "another width"],
)
def test_pairs_say_nothing_where_the_tokens_chose_or_the_denoiser_erred(source, sampler):
    """2^-pairs is the chance of a valid row only for the ideal denoiser of this language in a planned order."""
    made = generate(source, sampler=sampler, steps=6, length=6, rows=100)
    assert score(made, Interval(3)).ser_rao_blackwell is None
    joint = generate(Interval(3), draw="coupled", steps=1, length=6, rows=20)
    assert score(joint, Interval(3)).ser_rao_blackwell is None


def test_given_positions_do_not_count_as_pairs():
    """With a whole interval given and one position a step for the rest, every row is valid."""
    language = Interval(3)
    pattern = torch.cat([language.sample(1, 3)[0], torch.full((3,), 4)])
    ours = score(generate(language, sampler="left-to-right", steps=3, length=6, rows=50, given=pattern), language)
    assert (ours.ser.value, ours.ser_rao_blackwell.value) == (0, 0)


def test_it_can_be_written_down():
    content = score(generate(Interval(3), steps=2, length=6, rows=50), Interval(3)).to_dict()
    assert json.loads(json.dumps(content)) == content
    assert content["bigrams"]["total_variation"]["n"] == content["ser"]["n"] == 50


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_any_integer_type_will_do(dtype):
    tokens = torch.tensor(list(VALID))
    assert score(tokens.to(dtype), NO_PAIRS) == score(tokens, NO_PAIRS)


@pytest.mark.parametrize(
    ("tokens", "language", "message"),
    [
        (torch.tensor([[0, 1, 0], [0, 3, 0]]), NO_PAIRS, r"row 1, position 1: token 3 is not in 0\.\.1"),
        (torch.tensor([[0, -1, 0]]), NO_PAIRS, r"row 0, position 1: token -1 is not in 0\.\.1"),
        (torch.tensor([[0, 1, 2]]), NO_PAIRS, r"token 2 \(that is the mask: the position was never revealed\)"),
        (torch.tensor([[0.0, 1.0]]), NO_PAIRS, "tokens are float32; expected integers"),
        (torch.tensor([[False, True]]), NO_PAIRS, "tokens are bool; expected integers"),
        (torch.tensor([0, 1, 0]), NO_PAIRS, r"tokens have shape \(3,\); expected \(rows, length\)"),
        (torch.zeros((2, 3, 4), dtype=torch.int64), NO_PAIRS, r"tokens have shape \(2, 3, 4\)"),
        (torch.zeros((2, 0), dtype=torch.int64), NO_PAIRS, r"tokens have shape \(2, 0\)"),
        (torch.zeros((0, 2), dtype=torch.int64), NO_PAIRS, r"tokens have shape \(0, 2\)"),
        (torch.zeros((0, 2), dtype=torch.int64), Interval(3), r"tokens have shape \(0, 2\)"),
        (torch.tensor([[0, 2, 3]]), Brackets(), "brackets has no sequence of length 3; the nearest lengths: 2 and 4"),
    ],
)
def test_refusals(tokens, language, message):
    with pytest.raises(UnmaskError, match=message):
        score(tokens, language)
