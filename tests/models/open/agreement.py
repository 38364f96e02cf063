"""What must hold of an open model of any family: batches and memory change nothing that it says."""

from __future__ import annotations

import torch

from unmask.models.open import OpenModel

LENGTHS = (11, 6, 3, 9)


def agree(model: OpenModel, tolerance: float = 1e-9) -> None:
    """Rows of these lengths together say what each says alone, from scratch, while blocks are settled one by one."""
    hidden = model.vocabulary
    rng = torch.Generator().manual_seed(4)
    longest = max(LENGTHS)
    tokens = torch.randint(0, hidden - 1, (len(LENGTHS), longest), generator=rng)
    valid = torch.arange(longest) < torch.tensor(LENGTHS).unsqueeze(1)
    truth = tokens.clone()
    tokens[:, 1:] = hidden  # only the first token of each is known
    tokens[~valid] = 3  # which nobody reads
    engine = model.engine(tokens, tokens.clone(), valid)
    while bool((left := (tokens == hidden) & valid).any()):
        rows, places = left.nonzero(as_tuple=True)
        said = engine.at(rows, places, None).dense()
        for number, (row, place) in enumerate(zip(rows.tolist(), places.tolist(), strict=True)):
            alone = tokens[row : row + 1, : LENGTHS[row]]
            assert torch.allclose(said[number], from_scratch(model, alone, place), rtol=0, atol=tolerance)
        # of each row the first two that are hidden become known
        early = left & (left.cumsum(1) <= 2)
        rows, places = early.nonzero(as_tuple=True)
        tokens[rows, places] = truth[rows, places]
        engine.renew(rows, places)


@torch.no_grad()
def from_scratch(model: OpenModel, row: torch.Tensor, place: int) -> torch.Tensor:
    """(V) of one place of one row (1, L), with nothing remembered."""
    length, block = row.shape[1], model.card.block or row.shape[1]
    seen = torch.tensor([[key // block <= query // block for key in range(length)] for query in range(length)])
    read = torch.where(row == model.vocabulary, model.mask, row)
    states = model.body.states(read, None, seen[None, None] if model.card.block else None, None)
    return model.logits(states[0, max(place - model.shift, 0)]).softmax(-1)
