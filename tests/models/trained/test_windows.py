"""The n-gram memory, against sums over the entries of its table that are written out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.models.trained.small import L, V, every_context, trunk
from unmask.models.trained import Shape, preset
from unmask.models.trained.memory import Memory
from unmask.models.trained.windows import Windows

KINDS = [("mdm", "mask"), ("mdm", "uniform"), ("ar", "mask")]


def filled(kind: str, noise: str, neighbours: int) -> tuple[Windows, Shape]:
    shape = Shape(kind, V, L, hidden=4, heads=1, noise=noise, neighbours=neighbours)
    made = Windows(shape).double()
    torch.nn.init.normal_(made.table, generator=torch.Generator().manual_seed(neighbours))
    return made, shape


def entry(table: Tensor, base: int, window: list[int]) -> float:
    """T of a window: its symbols are the digits, the first one the lowest."""
    return float(table.detach()[sum(symbol * base**digit for digit, symbol in enumerate(window))])


@pytest.mark.parametrize("neighbours", [1, 2, 3])
@pytest.mark.parametrize(("kind", "noise"), KINDS)
def test_the_logits_are_sums_of_entries(kind, noise, neighbours):
    """Windows of w + 1 symbols that contain j, with each symbol v at j in turn; outside there is one symbol more."""
    made, shape = filled(kind, noise, neighbours)
    base = V + 2 if (kind, noise) == ("mdm", "mask") else V + 1
    tables = made.table.split([base ** (width + 1) for width in (neighbours, neighbours - 2) if width > 0])
    tokens = every_context(V if noise == "mask" else V - 1)[::7]
    said = made(tokens)[..., shape.hidden :].detach()
    for row, answer in zip(tokens.tolist(), said, strict=True):
        around = [base - 1] * neighbours + row + [base - 1] * neighbours
        for j in range(L):
            here = neighbours + j + (kind == "ar")  # an AR model has read `row` up to j; the next symbol follows
            for v in range(V):
                told, expected = [*around[:here], v, *around[here + 1 :]], 0.0
                for table, width in zip(tables, (neighbours, neighbours - 2), strict=False):
                    firsts = [here - width] if kind == "ar" else range(here - width, here + 1)
                    expected += sum(entry(table, base, told[first : first + width + 1]) for first in firsts)
                assert float(answer[j, v]) == pytest.approx(expected, abs=1e-12)


def test_a_table_of_one_language_by_hand():
    """V = 2, pairs: T[a, b] = log q(b | a). If both neighbours are shown it is q(b | a) q(c | b)."""
    shape = Shape("mdm", 2, 3, hidden=4, heads=1, neighbours=1)
    made, q = Windows(shape).double(), torch.tensor([[0.9, 0.1], [0.4, 0.6]], dtype=torch.float64)
    with torch.no_grad():
        for a in range(2):
            for b in range(2):
                made.table[a + 4 * b] = q[a, b].log()
        said = made(torch.tensor([[0, 2, 1]]))[0, 1, shape.hidden :].softmax(0)
    torch.testing.assert_close(
        said, torch.tensor([0.9 * 0.1, 0.1 * 0.6], dtype=torch.float64) / 0.15, atol=1e-6, rtol=0
    )


def test_the_blocks_read_what_each_window_says():
    """One distribution a slot, whatever is added to all symbols of a slot."""
    made, shape = filled("mdm", "mask", 2)
    said = made(every_context())[..., : shape.hidden]
    with torch.no_grad():
        made.table.add_(3.0)
    torch.testing.assert_close(made(every_context())[..., : shape.hidden], said, atol=1e-12, rtol=0)
    assert made.read.weight.shape == (shape.hidden, 3 * V)


def sees_the_future(made) -> bool:
    """Whether a symbol changes an answer before it."""
    tokens = torch.randint(0, V, (5, L), generator=torch.Generator().manual_seed(1))
    said = made(tokens)
    for i in range(1, L):
        other = tokens.clone()
        other[:, i] = (other[:, i] + 1) % V
        if bool((made(other) - said)[:, :i].abs().max() > 1e-9):
            return True
    return False


def test_an_ar_model_does_not_read_its_answer(monkeypatch):
    """The mutant reads windows that end one symbol later: the answer's own position."""
    assert not sees_the_future(trunk("ar", neighbours=2))
    honest = Windows.forward
    monkeypatch.setattr(Windows, "forward", lambda self, tokens, *rest: honest(self, tokens.roll(-1, 1), *rest))
    assert sees_the_future(trunk("ar", neighbours=2))


@torch.no_grad()
@pytest.mark.parametrize("neighbours", [1, 2, 3])
def test_rows_that_go_back(neighbours):
    """The past that a window needs is kept by row."""
    made = trunk("ar", neighbours=neighbours)
    tokens = torch.randint(0, V, (6, L), generator=torch.Generator().manual_seed(2))
    read = torch.cat([torch.full((6, 1), V), tokens], 1)
    kept = Memory(made.shape, 6, L, made.device, made.dtype)
    whole = made(read, memory=kept)
    kept.lengths = torch.tensor([1, 3, 2, 4, 1, 3])
    rows = torch.tensor([1, 2, 5])
    answer = made(read[rows, kept.lengths[rows]].unsqueeze(1), memory=kept, rows=rows)
    torch.testing.assert_close(answer[:, 0], whole[rows, kept.lengths[rows]], atol=1e-12, rtol=0)


def test_a_memory_is_named_where_there_is_one():
    """Shapes without a memory keep their digests."""
    shape = Shape("mdm", V, L, hidden=4, heads=1)
    assert "neighbours" not in shape.to_dict()
    assert Shape.from_dict(filled("mdm", "mask", 2)[1].to_dict()).neighbours == 2


def test_presets_have_as_many_neighbours_as_fit():
    for vocabulary, neighbours in ((8, 5), (13, 4), (16, 4), (50, 2), (1024, 1), (5000, 0)):
        assert preset("thorough", "mdm", vocabulary).neighbours == neighbours
    assert preset("paper", "mdm", 8).neighbours == preset("quick", "ar", 8).neighbours == 0
    assert preset("quick", "ar", 8, neighbours=3).neighbours == 3
    assert preset("quick", "mdm", 8, neighbours=0).neighbours == 0
