"""One trunk, read in both directions or from left to right, with and without what it has kept."""

from __future__ import annotations

import pytest
import torch

from tests.models.trained.small import L, V, every_context, trunk
from unmask.models.trained import Shape, Trunk
from unmask.models.trained.memory import Memory
from unmask.models.trained.trunk import rotated

ROWS, LONG = 7, 12
CLOSE = {"atol": 1e-12, "rtol": 0}


@pytest.fixture(scope="module", params=[0, 3])
def reader(request):
    return trunk("ar", length=LONG, seed=3, neighbours=request.param)


@pytest.fixture(scope="module")
def read():
    """(B, L) as a causal trunk reads them: the start, then tokens."""
    tokens = torch.randint(0, V, (ROWS, LONG), generator=torch.Generator().manual_seed(1))
    return torch.cat([torch.full((ROWS, 1), V), tokens], 1)


def memory(reader, rows=ROWS):
    return Memory(reader.shape, rows, LONG, reader.device, reader.dtype)


@pytest.mark.parametrize(("neighbours", "states"), [(0, 0), (2, 0), (2, 2)])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_what_is_asked_is_what_is_there(layers, neighbours, states):
    """Columns in any order, some of them twice; with gradients the first block computes what it else looks up."""
    made = trunk(layers=layers, neighbours=neighbours, states=states)
    tokens = every_context()
    whole = made(tokens)
    assert whole.shape == (len(tokens), L, V)  # the mask is no answer
    asked = torch.randint(0, L, (len(tokens), 3), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(made(tokens), whole, **CLOSE)
        answer = made(tokens, asked)
    torch.testing.assert_close(answer, whole.gather(1, asked.unsqueeze(-1).expand(-1, -1, V)), **CLOSE)
    torch.testing.assert_close(made.head(made.top(made.below(tokens), asked)), answer, **CLOSE)


def test_an_mdm_sees_everything_and_knows_where():
    made = trunk()
    tokens = every_context()
    said = made(tokens)
    for i in range(L):
        other = tokens.clone()
        other[:, i] = (other[:, i] + 1) % (V + 1)
        assert bool(((made(other) - said).abs().amax(-1) > 1e-6).all())
    assert bool(((made(tokens.flip(1)).flip(1) - said).abs() > 1e-3).any())


def test_an_ar_model_sees_no_future(reader, read):
    said = reader(read[:, :LONG])
    for i in range(1, LONG):
        other = read[:, :LONG].clone()
        other[:, i] = (other[:, i] + 1) % V
        changed = (reader(other) - said).abs().amax(-1) > 1e-9
        assert not bool(changed[:, :i].any())
        assert bool(changed[:, i:].all())


def test_rotary_positions_are_relative(reader):
    """q_i k_j depends on i - j alone, and on nothing less."""
    query, key = torch.randn(2, 1, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    turned = [rotated(x, (reader.cos, reader.sin)) for x in (query, key)]
    products = turned[0] @ turned[1].T
    for gap in range(-3, 4):
        along = products.diagonal(gap)
        torch.testing.assert_close(along, along[:1].expand(len(along)), atol=1e-6, rtol=0)  # of float32 angles
    assert len(products[:, 0].round(decimals=6).unique()) == LONG + 1


@torch.no_grad()
@pytest.mark.parametrize("widths", [(1,) * LONG, (3, 1, 1, 4, 3), (LONG,), (2, 10)])
def test_reading_in_pieces(reader, read, widths):
    kept, answers = memory(reader), []
    for width in widths:
        start = int(kept.lengths[0])
        answers.append(reader(read[:, start : start + width], memory=kept))
        kept.lengths += width
    torch.testing.assert_close(torch.cat(answers, 1), reader(read[:, :LONG]), **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("some", [None, [1, 4, 6], [2]])
def test_rows_that_have_read_unequally_much(reader, read, some):
    """Six symbols each behind 1 to 7, to the end and beyond it, of all rows or of some."""
    whole, kept = reader(read[:, :LONG]), memory(reader)
    reader(read[:, :7], memory=kept)
    kept.lengths = torch.tensor([1, 5, 2, 7, 3, 3, 4])
    rows = list(range(ROWS)) if some is None else some
    chunk = torch.stack([torch.cat([read[b], read[b]])[kept.lengths[b] :][:6] for b in rows])
    answer = reader(chunk, memory=kept, rows=None if some is None else torch.tensor(some))
    for index, b in enumerate(rows):
        start = int(kept.lengths[b])
        torch.testing.assert_close(answer[index, : LONG - start], whole[b, start : start + 6], **CLOSE)


@torch.no_grad()
def test_one_place_at_a_time(reader, read):
    kept, answers = memory(reader), []
    for place in range(LONG):
        answers.append(reader.step(kept.recent(read[:, place], torch.arange(ROWS)), place, kept.cache))
        kept.lengths += 1
    torch.testing.assert_close(torch.stack(answers, 1), reader(read[:, :LONG]), **CLOSE)


def test_an_mdm_tells_places_apart_where_everything_is_hidden():
    """Rotary positions alone do not; a network of one block must, too."""
    for layers in (1, 2):
        torch.manual_seed(0)
        trunk = Trunk(Shape("mdm", 3, 6, hidden=8, layers=layers, heads=1)).eval()
        torch.nn.init.normal_(trunk.head.weight)
        blank = torch.full((1, 6), 3)
        assert trunk(blank)[0].std(0).max() < 1e-5
        torch.nn.init.normal_(trunk.place)
        assert trunk(blank)[0].std(0).min() > 1e-2
    assert Trunk(Shape("ar", 3, 6, hidden=8, layers=1, heads=1)).place is None
