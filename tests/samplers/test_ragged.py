"""Rows of other prompts and lengths share every call, and each is what it is alone, to the bit."""

from __future__ import annotations

import pytest
import torch

from tests.samplers.counting import LANGUAGE, SAMPLED, Asked
from unmask import UnmaskError, generate
from unmask.denoisers import Ideal
from unmask.samplers import starting

V = LANGUAGE.vocabulary
LENGTHS = [9, 1, 6, 9, 4]
PROMPTS = [0, 0, 2, 5, 4]  # the last one is complete


def row_alike(made, row, alone):
    """Whether a row of a generation is the only one of another, at its own length."""
    size = alone.tokens.shape[1]
    for name in ("tokens", "order"):
        assert torch.equal(getattr(made, name)[row, :size], getattr(alone, name)[0]), (name, row)
    torch.testing.assert_close(made.probability[row, :size], alone.probability[0], rtol=1e-12, atol=0)
    for name in ("lengths", "model_calls", "impossible"):
        assert torch.equal(getattr(made, name)[row], getattr(alone, name)[0]), (name, row)
    assert bool((made.order[row, size:] == 0).all())


def test_blocks_of_ragged_prompts_cost_one_forward_a_round():
    """Prompts of 0 to 14 of 16, blocks of 4 and 8 steps: a row's k-th block is its own, and 8 forwards serve all."""
    given = LANGUAGE.sample(6, 16, seed=3)
    given[torch.arange(16) >= torch.tensor([0, 3, 5, 8, 11, 14]).unsqueeze(1)] = V
    options = {"sampler": "blocks(block_length=4, inner=low-confidence)", "steps": 8, "seed": 6}
    denoiser = Asked()
    made = generate(denoiser, given=given, **options)
    assert made.spent.forwards == denoiser.counted.forwards == 8
    assert made.model_calls.tolist() == [8, 7, 8, 8, 5, 2]  # a last block of one position is one round
    for row in range(6):
        row_alike(made, row, generate(Asked(), given=given[row : row + 1], first_row=row, **options))


def lines():
    drawn = LANGUAGE.sample(len(LENGTHS), max(LENGTHS), seed=5)
    return [
        [*row[:begun], *[V] * (size - begun)] for row, begun, size in zip(drawn.tolist(), PROMPTS, LENGTHS, strict=True)
    ]


@pytest.mark.rotates(4)
@pytest.mark.parametrize("kind", [lambda: Ideal(LANGUAGE), Asked], ids=["exact", "from scratch"])
@pytest.mark.parametrize("name", [f"{name[:-1]}, batch=1)" if "batch" in name else name for name in SAMPLED])
def test_rows_of_several_lengths_are_what_they_are_alone(name, kind, monkeypatch):
    """In one call, in small blocks, and whatever stands in the padding."""
    if name == "as-published-mdlm":
        name += "(batch=1)"
    options = {"sampler": name, "steps": 4, "seed": 6}
    made = generate(kind(), given=lines(), **options)
    assert made.lengths.tolist() == LENGTHS
    assert made.reasons == ("filled",) * len(LENGTHS)
    for row, line in enumerate(lines()):
        row_alike(made, row, generate(kind(), given=[line], first_row=row, **options))
    for junk in (1, V, V + 7, -3):
        monkeypatch.setattr(starting, "PADDING", junk)
        other = generate(kind(), given=lines(), **options)
        for row, size in enumerate(LENGTHS):
            assert torch.equal(other.tokens[row, :size], made.tokens[row, :size]), junk
        assert torch.equal(other.order, made.order)
        assert torch.equal(other.model_calls, made.model_calls)


def test_infilled_rows_of_several_lengths():
    drawn = LANGUAGE.sample(3, 9, seed=5).tolist()
    given = [[V, *drawn[0][1:3], V, V], [*drawn[1][:1], V, V, *drawn[1][3:8], V], [V, V]]
    for name in ("ancestral", "margin", "blocks(block_length=2)", "gibbs", "remdm"):
        made = generate(LANGUAGE, sampler=name, given=given, steps=4, seed=6)
        for row, line in enumerate(given):
            row_alike(made, row, generate(LANGUAGE, sampler=name, given=[line], first_row=row, steps=4, seed=6))


def test_what_lines_cannot_be():
    with pytest.raises(UnmaskError, match="Leave rows and length out"):
        generate(LANGUAGE, given=[[V] * 3, [V] * 4], length=5)
    with pytest.raises(UnmaskError, match=r"row 1: .*row 0, position 2: token 9"):
        generate(LANGUAGE, given=[[V] * 3, [V, V, 9, V]])
    with pytest.raises(UnmaskError, match="length is 0"):
        generate(LANGUAGE, given=[[V] * 3, []])
