"""assert_same_likelihood: correct trainers pass, planted faults are found, named and placed."""

from __future__ import annotations

import pytest
import torch

from unmask import UnmaskError
from unmask.testing import assert_same_likelihood

B, L, V = 6, 9, 50
LENGTHS = torch.tensor([9, 7, 9, 5, 9, 8])
MASK = torch.arange(L) < LENGTHS.unsqueeze(1)


def scene(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn((B, L, V), generator=generator)
    return logits, torch.randint(V, (B, L), generator=generator)


def of(logits, tokens):
    return logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def padded(logits, tokens):
    """Rows with padding see it."""
    return of(logits + 0.3 * torch.sin(7 * logits) * ~MASK.all(1).view(-1, 1, 1), tokens)


def shifted(logits, tokens):
    return of(logits, tokens).roll(1, 1)


def unmasked(logits, tokens):
    """Other contexts: no known fault."""
    return of(logits + torch.cos(5 * logits), tokens)


FAULTS = {
    "shift by one: the update has the rollout's numbers one position later": (of, shifted),
    "shift by one: the update has the rollout's numbers one position earlier": (shifted, of),
    "padding: all rows without padding agree, and 3 with padding differ": (of, padded),
    "temperature: the rollout is that of the logits at temperature 0.8": (lambda z, x: of(z / 0.8, x), of),
    "temperature: the update is that of the logits at temperature 1.3": (of, lambda z, x: of(z / 1.3, x)),
    "dtype: the rollout is that of logits in bfloat16": (lambda z, x: of(z.bfloat16().float(), x), of),
    "dtype: the update is that of logits in bfloat16": (of, lambda z, x: of(z.bfloat16(), x).float()),
    "no known fault explains it": (of, unmasked),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_named(fault, seed):
    logits, tokens = scene(seed)
    rollout, update = (side(logits, tokens) for side in FAULTS[fault])
    with pytest.raises(AssertionError) as caught:
        assert_same_likelihood(rollout, update, mask=MASK, logits=logits, tokens=tokens)
    assert fault in str(caught.value).replace("\n    ", " ")
    apart = ((rollout - update).abs() > 1e-4) & MASK
    position = int(apart.any(0).int().argmax())
    row = int(apart[:, position].int().argmax())
    assert f"differ first at row {row}, position {position}: {float(rollout[row, position]):.4f}" in str(caught.value)
    assert f"{int(apart.sum())} of {int(MASK.sum())} positions differ" in str(caught.value)


def test_rounded_numbers_are_seen_without_logits():
    logits, tokens = scene(1)
    exact = of(logits, tokens)
    with pytest.raises(AssertionError, match="dtype: the numbers of the rollout are rounded to bfloat16"):
        assert_same_likelihood(exact.bfloat16().float(), exact)


@pytest.mark.parametrize("seed", range(20))
def test_correct_trainers_pass(seed):
    """In float64, in another order of the batch, with other numbers at padding, and where both are impossible."""
    logits, tokens = scene(seed)
    rollout = of(logits, tokens)
    order = torch.randperm(B, generator=torch.Generator().manual_seed(seed))
    again = of(logits[order].double(), tokens[order])[order.argsort()]
    assert_same_likelihood(rollout, again, mask=MASK, logits=logits, tokens=tokens)
    assert_same_likelihood(rollout, torch.where(MASK, again, -99.0), mask=MASK)
    impossible = rollout.masked_fill(tokens == tokens[0, 0], -torch.inf)
    assert_same_likelihood(impossible, impossible.clone())


def test_bad_input():
    logits, tokens = scene(0)
    rollout = of(logits, tokens)
    with pytest.raises(UnmaskError, match=r"update has shape \(6, 8\); expected \(rows, length\)"):
        assert_same_likelihood(rollout, rollout[:, 1:])
    with pytest.raises(UnmaskError, match="logits and tokens come together"):
        assert_same_likelihood(rollout, rollout, logits=logits)
    with pytest.raises(UnmaskError, match=r"rollout is 0\.\d+ at row 0, position 0; expected a log-probability"):
        assert_same_likelihood(rollout.exp(), rollout)
    with pytest.raises(UnmaskError, match="update is nan at row 2, position 3"):
        assert_same_likelihood(rollout, rollout.index_put((torch.tensor(2), torch.tensor(3)), torch.tensor(torch.nan)))
