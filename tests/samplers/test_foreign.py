"""A joint draw for other people's loops: the law of one step, also where its probabilities underflow."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import chi2

from tests.brute import sequences
from unmask import UnmaskError, joint
from unmask.languages.patterns import regex

MASK = 9


def law(p, tokens, allowed, step):
    """{x_S: probability} of one row: p cut to the allowed strings that agree with it."""
    fits = allowed & ((tokens == MASK) | (sequences(3, len(tokens)) == tokens)).all(1)
    strings = sequences(3, len(tokens))[fits]
    weights = np.where(tokens == MASK, p[np.arange(len(tokens)), strings], 1.0).prod(1)
    found = {}
    for row, weight in zip(strings[:, step].tolist(), weights / weights.sum(), strict=True):
        found[tuple(row)] = found.get(tuple(row), 0.0) + weight
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("step", [[0], [1, 3], [0, 1, 3]])
@pytest.mark.parametrize("pattern", ["(01|12|20)*0?", "[01]*2[01]*", "0*1*2*"])
def test_one_step(pattern, step, dtype):
    """Chi-square tests with a false-alarm rate of 1e-6 each."""
    rows, start = 4000, torch.tensor([MASK, MASK, 1, MASK])
    p = torch.from_numpy(np.random.default_rng(3).dirichlet(np.ones(3), size=4)).to(dtype)
    automaton = regex(pattern, 3)
    reveal = torch.zeros(4, dtype=torch.bool)
    reveal[step] = True
    out = joint(
        p.expand(rows, -1, -1),
        start.expand(rows, -1),
        automaton,
        mask=MASK,
        reveal=reveal.expand(rows, -1),
        generator=torch.Generator().manual_seed(len(step)),
    )
    assert bool((out[:, ~reveal] == start[~reveal]).all())
    allowed = automaton.accepts(torch.from_numpy(sequences(3, 4))).numpy()
    wanted = law(p.double().numpy(), start.numpy(), allowed, step)
    keys, counts = np.unique(out[:, step].numpy(), axis=0, return_counts=True)
    seen = dict(zip(map(tuple, keys.tolist()), counts.tolist(), strict=True))
    assert seen.keys() <= {key for key, mass in wanted.items() if mass > 0}
    statistic = sum((seen.get(key, 0) - rows * mass) ** 2 / (rows * mass) for key, mass in wanted.items() if mass > 0)
    assert chi2.sf(statistic, max(len(wanted) - 1, 1)) > 1e-6


def test_improbable_fixed_texts_do_not_underflow():
    """Two texts of 150 fixed tokens, each of a probability near e^-1500: their odds are exact."""
    rows, length = 2000, 300
    texts = "0" + "12" * 75 + "2*", "1" + "02" * 75 + "2*"
    p = np.full((length, 3), 1.0)
    p[:, :2] = np.exp(-np.random.default_rng(1).uniform(15, 25, (length, 1)))
    p[0, 0] = 3 * p[0, 1]
    p /= p.sum(1, keepdims=True)
    log = [sum(np.log(p[i, int(text[i])]) for i in range(151)) for text in texts]
    out = joint(
        torch.from_numpy(p).expand(rows, -1, -1),
        torch.full((rows, length), MASK),
        regex("|".join(texts), 3),
        mask=MASK,
        generator=torch.Generator().manual_seed(1),
    )
    odds = np.exp(log[0] - logsumexp(log))
    assert max(log) < -1000
    assert odds == pytest.approx(0.75)
    assert abs((out[:, 0] == 0).double().mean() - odds) < 5 * (odds * (1 - odds) / rows) ** 0.5


P = torch.full((2, 4, 3), 1 / 3)
HIDDEN = torch.full((2, 4), MASK)
SUM = "probabilities of the marginals at position 0 of row 0 sum to"


def changed(first):
    """Marginals whose first entry is this one."""
    marginals = P.clone()
    marginals[0, 0] = torch.tensor(first)
    return marginals


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"marginals": P[0]}, r"marginals are Tensor of shape \(4, 3\).*; expected tensors, probabilities \(B, L, V\)"),
        ({"marginals": P.tolist()}, "marginals are .*; expected tensors, probabilities"),
        ({"marginals": changed([0.0, 0.0, 0.0])}, f"{SUM} 0 and the least is 0; expected a sum of 1, none below 0"),
        ({"marginals": changed([0.5, 0.5, torch.nan])}, f"{SUM} nan"),
        (
            {"marginals": changed([0.75, 0.75, -0.5])},
            f"{SUM} 1 and the least is -0.5; expected a sum of 1, none below 0",
        ),
        ({"marginals": changed([0.5, 1.5, 0.5])}, f"{SUM} 2.5 and the least is 0.5"),
        ({"tokens": HIDDEN[:, :3]}, r"expected tensors, probabilities \(B, L, V\) and \(B, L\)"),
        ({"tokens": HIDDEN.float()}, "^tokens are float32; expected integers$"),
        ({"tokens": HIDDEN - 6}, "^a token is 3; expected 0 to 2, or 9 where it is hidden$"),
        ({"tokens": HIDDEN - 10}, "^a token is -1; expected 0 to 2, or 9 where it is hidden$"),
        ({"tokens": torch.tensor([[2, 9, 9, 9]] * 2)}, "the constraint allows no completion of row 0"),
        ({"constraint": regex("0*", 4)}, "the constraint has 4 tokens, and the marginals 3; expected the same"),
        ({"constraint": "0*"}, "constraint is '0\\*'; expected an automaton"),
        ({"mask": 0, "tokens": HIDDEN * 0}, "^mask is 0, a token that the constraint writes; expected another. Give"),
        ({"mask": 9.0}, "^mask is 9.0; expected a whole number"),
        ({"reveal": HIDDEN[0] == MASK}, r"^reveal is torch.bool \(4,\); expected torch.bool \(2, 4\), as tokens$"),
        ({"reveal": HIDDEN.float()}, r"^reveal is torch.float32 \(2, 4\); expected torch.bool \(2, 4\), as tokens$"),
        ({"reveal": [[True] * 4] * 2}, r"^reveal is \[\[True.*; expected torch.bool \(2, 4\), as tokens$"),
        ({"generator": 3}, "^generator is 3; expected a torch.Generator$"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(UnmaskError, match=message):
        joint(**{"marginals": P, "tokens": HIDDEN, "constraint": regex("0*", 3), "mask": MASK} | given)


def test_what_is_not_read_may_be_anything():
    """Marginals of known positions; a mask that is a token, but none that the constraint writes; gradients."""
    marginals = changed([torch.nan, -1.0, 5.0]).requires_grad_()
    tokens = torch.tensor([[0, 2, 2, 2], [2, 0, 2, 0]], dtype=torch.int32)
    out = joint(marginals, tokens, regex("0*", 3), mask=2)
    assert torch.equal(out, torch.zeros_like(tokens))


def test_marginals_may_have_been_coarse():
    """A softmax in bfloat16 that is float32 now."""
    coarse = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).bfloat16().softmax(-1).float()
    assert float((coarse.sum(-1) - 1).abs().max()) > 1e-3
    assert joint(coarse, HIDDEN, regex("0*", 3), mask=MASK).eq(0).all()


def test_nothing_hidden_is_nothing_drawn():
    tokens = torch.tensor([[0, 0]])
    assert torch.equal(joint(P[:1, :2], tokens, regex("0*", 3), mask=MASK), tokens)
