"""Experts in place of one MLP: a router sends each token to a few of them, and what they say is weighed.

    y = sum_{e in top(s + b)} w_e E_e(x) + S(x),    E_e(x) = W_down,e (silu(W_gate,e x) * W_up,e x)

    softmax   s = softmax(W x), w = s as it is (LLaDA-MoE), or s / sum s (Qwen3, and so SDAR)
    sigmoid   s = sigmoid(W x), w = s / sum s times a factor, and b, of the routing alone (LLaDA2)

Where experts stand in groups, only those of the best groups are chosen from; a group is as good as its best two. All
tokens of an expert are computed at once: they are sorted by expert, and one grouped product goes through the weights.
"""

from __future__ import annotations

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.core.errors import UnmaskError
from unmask.hub.decoder import MLP, Decoder

EVEN = 1e-20  # keeps a sum of nothing from dividing
ALIGNED = 16  # bytes that rows of a grouped product must be multiples of; float64 it does not know


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """What a config.json says of them."""

    count: int
    chosen: int  # a token
    inner: int  # width of each
    sigmoid: bool = False
    normalised: bool = False  # the weights of a token sum to one, before the factor
    groups: int = 1
    best: int = 1  # groups that are chosen from
    factor: float = 1.0  # of the weights
    shared: int = 0  # width of what every token goes through as well

    def __post_init__(self) -> None:
        open_to = self.count // self.groups * self.best
        if self.count % self.groups or self.best > self.groups or self.chosen > open_to:
            what = f"{self.chosen} of {self.count} experts, from {self.best} of {self.groups} groups"
            raise UnmaskError(f"config.json lets a token choose {what}; there are not so many")


class MoE(nn.Module):
    def __init__(self, hidden: int, experts: Experts) -> None:
        super().__init__()
        self.experts = experts
        self.router = nn.Linear(hidden, experts.count, bias=False)
        if experts.sigmoid:
            self.bias = nn.Parameter(torch.zeros(experts.count))
        self.gate_up = nn.Parameter(torch.empty(experts.count, 2 * experts.inner, hidden))
        self.down = nn.Parameter(torch.empty(experts.count, hidden, experts.inner))
        self.shared = MLP(hidden, experts.shared) if experts.shared else None

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2)
        which, weights = self.route(tokens)
        flat = which.flatten()
        order = flat.argsort(stable=True)
        counts = flat.new_zeros(self.experts.count).scatter_add_(0, flat, torch.ones_like(flat))  # waits for no device
        said = self._say(tokens[order // self.experts.chosen], counts)
        back = torch.empty_like(said)
        back[order] = said
        mixed = (back.unflatten(0, which.shape).to(weights.dtype) * weights.unsqueeze(-1)).sum(1)
        out = mixed.to(x.dtype).view_as(x)
        return out if self.shared is None else out + self.shared(x)

    def route(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(experts, weights), (T, chosen) each, of tokens (T, hidden): the best first, in float32 at least."""
        experts = self.experts
        exact = torch.promote_types(tokens.dtype, torch.float32)
        if not experts.sigmoid:
            weights, which = self.router(tokens).to(exact).softmax(-1).topk(experts.chosen)
        else:
            scores = functional.linear(tokens.to(exact), self.router.weight.to(exact)).sigmoid()
            which = self._allowed(scores + self.bias.to(exact)).topk(experts.chosen).indices
            weights = scores.gather(1, which)
        if experts.normalised:
            weights = weights / (weights.sum(-1, keepdim=True) + EVEN)
        return which, weights * experts.factor

    def _allowed(self, scores: Tensor) -> Tensor:
        """Scores (T, experts), minus infinity outside each token's best groups."""
        if self.experts.groups == 1:
            return scores
        grouped = scores.unflatten(1, (self.experts.groups, -1))
        best = grouped.topk(2).values.sum(-1).topk(self.experts.best).indices
        outside = torch.ones_like(grouped[..., 0], dtype=torch.bool).scatter(1, best, False)
        return grouped.masked_fill(outside.unsqueeze(-1), -torch.inf).flatten(1)

    def _say(self, tokens: Tensor, counts: Tensor) -> Tensor:
        """(T, hidden) of tokens (T, hidden), those of expert 0 first, counts (experts) of each."""

        def through(x: Tensor, weight: Tensor) -> Tensor:
            if x.dtype == torch.float64 or any(size * x.element_size() % ALIGNED for size in weight.shape[1:]):
                parts = x.split(counts.tolist())
                return torch.cat([functional.linear(part, own) for part, own in zip(parts, weight, strict=True)])
            ends = counts.cumsum(0).to(torch.int32)
            return functional.grouped_mm(x, weight.mT, offs=ends)

        gate, up = through(tokens, self.gate_up).chunk(2, -1)
        return through(functional.silu(gate) * up, self.down)


class SparseDecoder(Decoder):
    """One of whose MLPs some or all are experts."""

    def parameters_used(self) -> int:
        """Of a layer's experts those that a token goes through."""
        idle = 0.0
        for layer in self.modules():
            if isinstance(layer, MoE):
                share = 1 - layer.experts.chosen / layer.experts.count
                idle += share * (layer.gate_up.numel() + layer.down.numel())
        return super().parameters_used() - round(idle)
