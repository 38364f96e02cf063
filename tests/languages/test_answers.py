"""Tables of answers by enumeration; draws by chi-square, with a false-alarm rate of 1e-9 a test."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import brute
from unmask.core.errors import UnmaskError
from unmask.languages import Answers, from_dict

ALARM = 1e-9


@st.composite
def tables(draw):
    """A table, and contexts of its alphabet: any tokens, some hidden."""
    vocabulary, length = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    row = st.tuples(*[st.integers(0, vocabulary - 1)] * length)
    rows = draw(st.lists(row, min_size=1, max_size=12, unique=True))
    weights = draw(st.none() | st.lists(st.floats(0.01, 9), min_size=len(rows), max_size=len(rows)))
    contexts = draw(
        st.lists(st.tuples(*[st.integers(0, vocabulary)] * length), min_size=1, max_size=9).map(torch.tensor)
    )
    return Answers(rows, vocabulary, weights), contexts


@given(tables())
@settings(max_examples=60, deadline=None)
def test_evidence_and_posterior_are_sums_over_the_table(case):
    language, contexts = case
    strings, q = language.answers.numpy(), brute.normalised(language.weights.numpy())
    vocabulary = language.vocabulary
    evidence = brute.evidence(q, strings, contexts.numpy(), vocabulary)
    np.testing.assert_allclose(language.log_evidence(contexts).exp().numpy(), evidence, rtol=1e-12, atol=0)
    expected = brute.posterior(q, strings, contexts.numpy(), vocabulary)
    shown = np.eye(vocabulary + 1)[contexts.numpy()][..., :vocabulary]
    expected = np.where(np.isnan(expected), 1 / vocabulary, expected)
    expected = np.where((contexts.numpy() == vocabulary)[..., None], expected, shown)
    np.testing.assert_allclose(language.posterior(contexts).numpy(), expected, rtol=1e-12, atol=1e-15)
    alive = contexts[torch.from_numpy(evidence > 0)]
    for context in alive:
        held = brute.normalised(q * brute.fits(strings, context[None].numpy(), vocabulary)[0])
        entropy = language.entropy(len(context), given=context)
        assert entropy.exact
        assert entropy.value == pytest.approx(brute.entropy(held), abs=1e-12)
    again = from_dict(language.to_dict())
    assert again.to_dict() == language.to_dict()
    assert torch.equal(again.log_evidence(contexts), language.log_evidence(contexts))


def test_draws_have_the_distribution_of_the_table():
    rows = brute.sequences(3, 4)[::5]
    language = Answers(rows.tolist(), 3, np.arange(1.0, len(rows) + 1).tolist())
    q = brute.normalised(language.weights.numpy())
    drawn = language.sample(20000, 4, seed=1)
    assert brute.p_value(drawn.numpy(), rows, q) > ALARM
    given_tokens = torch.tensor([3, 2, 3, 3])
    held = brute.normalised(q * brute.fits(rows, given_tokens[None].numpy(), 3)[0])
    drawn = language.sample(20000, 4, seed=2, given=given_tokens)
    assert brute.p_value(drawn.numpy(), rows[held > 0], held[held > 0]) > ALARM
    assert torch.equal(language.sample(5, 4, seed=2, first_row=100, given=given_tokens), drawn[100:105])


def test_a_large_table_is_read_in_blocks(monkeypatch):
    language = Answers(brute.sequences(2, 10).tolist())
    contexts = torch.from_numpy(np.random.default_rng(0).integers(3, size=(40, 10)))
    whole = language.log_evidence(contexts), language.posterior(contexts), language.sample(40, 10, seed=3)
    monkeypatch.setattr("unmask.languages.answers.MESSAGE_BYTES", 8 * 1024 * 7)
    parts = language.log_evidence(contexts), language.posterior(contexts), language.sample(40, 10, seed=3)
    assert all(torch.equal(one, other) for one, other in zip(whole, parts, strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"answers": []}, "answers are float64; expected integers"),
        ({"answers": [0, 1]}, r"answers have shape \(2,\); expected \(answers, length\)"),
        ({"answers": [[0, 1], [1]]}, "answers are not a table of tokens"),
        ({"answers": [[0.5]]}, "answers are float64; expected integers"),
        ({"answers": [[0, 3]], "vocabulary": 3}, "row 0, position 1: token 3"),
        ({"answers": [[0, -1]]}, "row 0, position 1: token -1 is not in 0..0"),
        ({"answers": [[0], [0]]}, "contain a sequence twice"),
        ({"answers": [[0], [1]], "weights": [1]}, r"expected \(2,\) positive numbers"),
        ({"answers": [[0], [1]], "weights": [1, 0]}, "positive"),
        ({"answers": [[0], [1]], "weights": [1, float("nan")]}, "positive"),
        ({"answers": [[0], [1]], "weights": [1e308, 1e308]}, "the sum of the weights is infinite"),
        ({"answers": [[0], [1]], "weights": ["x", 1]}, "weights are not numbers"),
        ({"answers": [[0], [1]], "end": 2}, "end is 2; expected 0 to 1"),
        ({"answers": [[0], [10**12]]}, "1e\\+12 symbols of 2 answers need 16 TB"),
    ],
)
def test_bad_tables(options, message):
    with pytest.raises(UnmaskError, match=message):
        Answers(**options)
    with pytest.raises(UnmaskError):
        from_dict({"kind": "answers"} | options)


def test_bad_lengths():
    with pytest.raises(UnmaskError, match=r"no sequence of length 2; the nearest lengths: 1$"):
        Answers([[0]]).sample(1, 2)
    with pytest.raises(UnmaskError, match="given row 0 has probability zero"):
        Answers([[0, 1], [1, 0]]).sample(1, 2, given=[0, 0])
