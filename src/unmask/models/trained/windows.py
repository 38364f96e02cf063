"""An n-gram memory: tables of all windows of n = w + 1 neighbouring symbols, looked up in place of computed.

    logits_j(v) = head(..)(v) + sum_s T[window with v at j, in its slot s],    x_j = x_j + W [softmax_v of each slot]

If all neighbours of a hidden position are revealed, the log posterior of an n-gram language is a sum of n logarithms.
Each is an entry of one table, whatever the slot. Attention learns such sums slowly. The mask and the outside of the
sequence are symbols too: entries with masks approximate n-grams that are partly unknown. The blocks read the
distributions of the windows, and compute the rest.

There are two tables: of w neighbours, and of w - 2, whose entries are visited more often and are learned first.

    MDM, uniform noise   the windows that contain j, without the token at j
    AR model             the last w symbols read and the next one; symbols before the start count as starts

Engram (Cheng et al. 2026, arXiv 2601.07372) adds hashed embeddings of the n-grams that end at a token to a large
language model. Canon layers (Allen-Zhu 2025, arXiv 2512.17351) mix neighbours by short convolutions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.trained.shape import Shape


class Windows(nn.Module):
    """Tables and their lookup: an addition to the hidden state of each position, and logits."""

    places: Tensor  # (slots, span) int64: what a symbol at each place adds to the entry
    own: Tensor  # (slots, V) int64: what each symbol at j adds

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        most, base = shape.neighbours, shape.outside + 1
        self.outside = shape.outside
        self.before, self.after = most - shape.causal, 0 if shape.causal else most

        places: list[Tensor] = []
        own: list[Tensor] = []
        entries = 0
        for width in shape.windows:
            for slot in [width] if shape.causal else range(width + 1):  # of position j, or of the next symbol
                first = most - slot  # of the window, where j has place `most`
                others = torch.tensor([digit for digit in range(width + 1) if digit != slot])
                row = torch.zeros(self.before + 1 + self.after, dtype=torch.int64)
                row[first + others] = base**others
                places.append(row)
                own.append(entries + base**slot * torch.arange(shape.vocabulary))
            entries += base ** (width + 1)

        self.register_buffer("places", torch.stack(places), persistent=False)
        self.register_buffer("own", torch.stack(own), persistent=False)

        self.table = nn.Parameter(torch.zeros(entries))
        self.read = nn.Linear(self.own.numel(), shape.hidden, bias=False)
        self.modulate = None if shape.time_free else nn.Linear(shape.hidden, len(places))

    def forward(self, tokens: Tensor, past: Tensor | None = None, condition: Tensor | None = None) -> Tensor:
        """(B, K, width) of tokens (B, K): an addition to the hidden state, and one to the logits.

        past (B, before): the symbols before them, for an AR model; condition (B, hidden): the time, which scales.
        """
        tokens = functional.pad(tokens, (self.before, self.after), value=self.outside)
        if past is not None:
            tokens[:, : self.before] = past
        seen = tokens.unfold(1, self.before + 1 + self.after, 1)  # (B, K, span)
        entries = (seen.unsqueeze(2) * self.places).sum(3, keepdim=True) + self.own  # (B, K, slots, V)
        scores = self.table.gather(0, entries.flatten()).view_as(entries)
        if self.modulate is not None:
            scores = scores * (1 + self.modulate(condition))[:, None, :, None]
        return torch.cat([self.read(scores.softmax(3).flatten(2)), scores.sum(2)], 2)
