"""What a causal reader does with given tokens: it can only start from them."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.samplers.session import Session


def read_prompt(session: Session) -> tuple[Tensor, Tensor]:
    """(lengths (B) of the given prefixes, the last token (B) of each, the start where there is none), the rest read."""
    vocabulary = session.denoiser.vocabulary
    shown = (session.given != vocabulary) & session.valid
    lengths = shown.sum(1)
    prefix = torch.arange(shown.shape[1]) < lengths.unsqueeze(1)
    if not bool((shown == prefix).all()):
        row = int((shown != prefix).any(1).int().argmax())
        raise UnmaskError(f"row {row} has given tokens after a hidden one; autoregression can only continue a prefix")
    start = torch.full((len(lengths), 1), vocabulary)
    whole = torch.cat([start, session.given], 1)
    if bool((lengths > 0).any()):
        read = whole[:, : int(lengths.max())]
        session.causal.extend(read, lengths, torch.zeros_like(read, dtype=torch.bool))
    return lengths, whole.gather(1, lengths.unsqueeze(1)).squeeze(1)
