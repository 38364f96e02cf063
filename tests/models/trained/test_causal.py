"""A causal network with what it has kept, against the same network that reads every prefix again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.models.trained.small import V, trunk
from unmask.core.chance import Randomness
from unmask.denoisers import Causal
from unmask.models.trained import Network
from unmask.models.trained.running import NetworkCausal
from unmask.samplers import Session, fill
from unmask.samplers.rules.autoregressive import Autoregressive

ROWS, LONG = 30, 9
CLOSE = {"atol": 1e-12, "rtol": 0}


def reader(seed=0, **changes):
    made = trunk("ar", length=LONG, seed=seed, **changes)
    return made, Network(ar=made).causal(ROWS, LONG)


def after(made, tokens, length):
    """p(. | x_<length) (B, V) of tokens (B, L), from nothing."""
    read = torch.cat([torch.full((len(tokens), 1), V), tokens[:, :length]], 1)
    return torch.softmax(made(read), -1)[:, -1].detach()


@pytest.mark.parametrize("seed", range(3))
def test_extend_and_rewind_at_random(seed):
    """Ragged counts, rows that read nothing, rewinds to anywhere, the last token read as well."""
    made, causal = reader(seed)
    chance = np.random.default_rng(seed)
    tokens = torch.from_numpy(chance.integers(0, V, (ROWS, LONG)))
    expected = torch.stack([after(made, tokens, length) for length in range(LONG)], 1)
    read = torch.full((ROWS,), -1)  # the start has not been read
    evaluated, asked, ends = 0, torch.zeros(ROWS, dtype=torch.int64), 0
    for turn in range(14):
        counts = torch.from_numpy(chance.integers(0, 5, ROWS)) if turn else torch.ones(ROWS, dtype=torch.int64)
        counts = torch.minimum(counts, LONG - read)
        ahead = read.unsqueeze(1) + torch.arange(5)
        chunk = torch.where(ahead < 0, V, tokens.gather(1, ahead.clamp(0, LONG - 1)))
        before = made.evaluated
        wanted = torch.from_numpy(chance.random(chunk.shape) < 0.7) if turn % 2 else None
        answer = iter(causal.extend(chunk, counts, wanted).dense())
        evaluated += made.evaluated - before
        asked += counts > 0
        for b in range(ROWS):
            for k in range(5):
                j = int(read[b]) + 1 + k
                if k < counts[b] and j < LONG and (wanted is None or wanted[b, k]):
                    torch.testing.assert_close(next(answer), expected[b, j], **CLOSE)
                ends += j == LONG and k < int(counts[b])
        assert next(answer, None) is None  # row by row, and nothing else
        read = read + counts
        if turn % 3 == 2:
            read = torch.minimum(read, torch.from_numpy(chance.integers(0, LONG + 1, ROWS)))
            causal.rewind(read)
    assert causal.model_calls.tolist() == asked.tolist()
    assert evaluated == int(asked.sum())
    assert causal.spent.forwards == 14
    assert causal.spent.rows == evaluated
    assert ends > 20


def given_prefixes(kind):
    tokens = torch.randint(0, V, (ROWS, LONG), generator=torch.Generator().manual_seed(2))
    if kind == "nothing":
        lengths = torch.zeros(ROWS, dtype=torch.int64)
    elif kind == "even":
        lengths = torch.full((ROWS,), 4)
    else:
        lengths = torch.arange(ROWS) % (LONG + 1)  # none of some rows, all of others
    return torch.where(torch.arange(LONG) < lengths.unsqueeze(1), tokens, V)


@pytest.mark.parametrize("kind", ["nothing", "even", "uneven"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_finishing_in_one_call(monkeypatch, kind, dtype):
    """The same tokens, probabilities and counts as one `extend` a token, and no row is evaluated that has ended."""
    made = trunk("ar", length=LONG, seed=1, dtype=dtype)
    sessions, evaluated = [], []
    for patched in (False, True):
        with monkeypatch.context() as patch:
            if patched:
                patch.setattr(NetworkCausal, "finish", Causal.finish)  # which cannot do it
            rng = Randomness(3, torch.arange(100, 100 + ROWS))
            session = Session(Network(ar=made), given_prefixes(kind), rng, torch.ones(1, dtype=torch.float64))
            before = made.evaluated
            fill(Autoregressive(), session)
            sessions.append(session)
            evaluated.append(made.evaluated - before)
    once, by_token = sessions
    assert torch.equal(once.tokens, by_token.tokens)
    assert torch.equal(once.order, by_token.order)
    torch.testing.assert_close(
        once.probability, by_token.probability, atol=1e-12 if dtype == torch.float64 else 1e-5, rtol=0
    )
    assert torch.equal(once.causal.model_calls, by_token.causal.model_calls)
    assert once.causal.spent == by_token.causal.spent
    assert evaluated[0] == evaluated[1] == int(once.causal.model_calls.sum())
