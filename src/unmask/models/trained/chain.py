"""A memory: a learned Markov chain, whose posteriors given the shown tokens are exact, by messages.

    p(x) ~ begin(w_k) prod_(t > k) T(w_(t-1), w_t),    w_t: the last k tokens, and one of R hidden states
    logits_j(v) = head(..)(v) + log p(x_j = v | shown),    x_j = x_j + W p(x_j | shown)

If n-1 neighbours are shown on both sides, the log posterior of an n-gram is a sum of n logarithms. With masks between,
every path through the hidden tokens counts. Attention learns both slowly; messages compute them, so only T is learned.
k = n - 1 tokens have every n-gram, and so have fewer tokens with enough states. One token with R states has every
hidden Markov chain of R states. The blocks read the posteriors, and compute the rest.

    masks            evidence 1 for a shown token and 0 for others; 1 for all where none is shown
    uniform noise    evidence a [x = y] + (1 - a) / V for a token y of level a

Structured attention (Kim et al. 2017, arXiv 1702.00887) has the marginals of a chain within a network, too.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.trained.shape import Shape

LEAST = 1e-9  # of a posterior, so that its logarithm is finite
TINY = 1e-30  # of a sum of messages


class Chain(nn.Module):
    """A chain over windows of k tokens (one first, the middle, one last) with one of R states."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.vocabulary, self.tokens, self.states = shape.vocabulary, shape.neighbours, shape.states
        self.middle = self.vocabulary ** (self.tokens - 1)  # windows without their first token, or without their last
        ends = self.vocabulary * self.states
        self.table = nn.Parameter(torch.empty(self.middle, ends, ends))  # log T by the middle, the first, the last
        self.begin = nn.Parameter(torch.empty(self.vocabulary**self.tokens, self.states))  # its logarithm
        self.read = nn.Linear(self.vocabulary, shape.hidden, bias=False)

    def forward(self, tokens: Tensor, level: Tensor | None = None) -> Tensor:
        """(B, L, hidden + V) of tokens (B, L): an addition to the hidden states, and logits; level (B): a of noise."""
        precision = torch.promote_types(self.table.dtype, torch.float32)  # errors of messages add up
        symbols = torch.eye(self.vocabulary + 1, self.vocabulary, dtype=precision, device=tokens.device)
        symbols[self.vocabulary] = 1.0
        evidence = functional.embedding(tokens, symbols)
        if level is not None:
            a = level.to(evidence.dtype).view(-1, 1, 1)
            evidence = a * evidence + (1 - a) / self.vocabulary

        with torch.autocast(tokens.device.type, enabled=False):
            posterior = self.posterior(evidence)
        logits = posterior.clamp(min=LEAST).log()
        return torch.cat([self.read(posterior.to(self.table.dtype)), logits.to(self.table.dtype)], 2)

    def posterior(self, evidence: Tensor) -> Tensor:
        """(B, L, V): p(x_j | evidence) for evidence (B, L, V)."""
        rows, length, vocabulary = evidence.shape
        evidence = functional.pad(evidence, (0, 0, 0, max(self.tokens - length, 0)), value=1.0)
        later = evidence[:, self.tokens :].unbind(1)
        moves = (self.table - self.table.detach().max()).to(evidence.dtype).exp()

        # the first window, of the first k tokens
        state = self.begin.to(evidence.dtype).flatten().softmax(0).expand(rows, -1)
        for j in range(self.tokens):
            state = (state.view(rows, vocabulary**j, vocabulary, -1) * evidence[:, j, None, :, None]).flatten(1)

        # forward: p(window at t, evidence until t), but for a factor of each row
        forward = [state]
        for now in later:
            firsts = state.view(rows, vocabulary, self.middle, self.states).permute(2, 0, 1, 3).flatten(2)
            lasts = torch.bmm(firsts, moves).view(self.middle, rows, vocabulary, self.states)
            state = scaled((lasts * now.unsqueeze(2)).transpose(0, 1).flatten(1))
            forward.append(state)

        # backward: p(evidence after t | window at t), the same
        state = torch.ones_like(state)
        backward = [state]
        for now in reversed(later):
            lasts = state.view(rows, self.middle, vocabulary, self.states) * now[:, None, :, None]
            firsts = torch.bmm(lasts.transpose(0, 1).flatten(2), moves.transpose(1, 2))
            firsts = firsts.view(self.middle, rows, vocabulary, self.states).permute(1, 2, 0, 3)
            state = scaled(firsts.flatten(1))
            backward.append(state)
        backward.reverse()

        # of the last token of each window, and of the others of the first window
        both = torch.stack(forward, 1) * torch.stack(backward, 1)  # (B, L-k+1, V^k R)
        parts = [both[:, :1].view(rows, 1, vocabulary**j, vocabulary, -1).sum((2, 4)) for j in range(self.tokens - 1)]
        parts.append(both.view(rows, -1, self.middle, vocabulary, self.states).sum((2, 4)))
        posterior = torch.cat(parts, 1)[:, :length]
        return posterior / posterior.sum(2, keepdim=True).clamp(min=TINY)


def scaled(state: Tensor) -> Tensor:
    """Messages (B, ..) that sum to 1. A factor of a row changes no posterior, so the gradient may ignore it."""
    return state / state.detach().sum(1, keepdim=True).clamp(min=TINY)
