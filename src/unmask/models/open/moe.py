"""Mixture of experts: a router sends each token to a few experts, whose outputs are weighted and added.

    y = sum_{e in top(s + b)} w_e E_e(x) + S(x),    E_e(x) = W_down,e (silu(W_gate,e x) * W_up,e x)

    softmax   s = softmax(W x), w = s / sum s (SDAR), or s if norm_topk_prob is false
    sigmoid   s = sigmoid(W x), w = s / sum s times a factor; b affects only the choice (LLaDA2)

With groups, only experts of the best groups can be chosen; the score of a group is the sum of its two best. Tokens are
sorted by expert, so that one grouped product computes all experts.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.core.errors import UnmaskError
from unmask.models.open.decoder import MLP, Decoder, Shape

EVEN = 1e-20  # prevents a division by zero
ALIGNED = 16  # rows of a grouped product must be multiples of this number of bytes; it does not support float64


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of experts, from config.json."""

    count: int
    chosen: int  # per token
    inner: int  # width of an expert
    sigmoid: bool = False
    normalised: bool = False  # the weights of a token sum to one, before the factor
    groups: int = 1
    best: int = 1  # number of groups to choose from
    factor: float = 1.0  # of the weights
    shared: int = 0  # width of the shared expert, which processes every token

    def __post_init__(self) -> None:
        open_to = self.count // self.groups * self.best
        if self.count % self.groups or self.best > self.groups or self.chosen > open_to:
            problem = f"config.json chooses {self.chosen} of {self.count} experts"
            raise UnmaskError(f"{problem}; expected at most {open_to}, from {self.best} of {self.groups} groups")


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
        chosen, weights = self.route(tokens)
        flat = chosen.flatten()
        order = flat.argsort(stable=True)
        counts = flat.new_zeros(self.experts.count).scatter_add_(
            0, flat, torch.ones_like(flat)
        )  # without waiting for the device
        outputs = self._compute(tokens[order // self.experts.chosen], counts)
        back = torch.empty_like(outputs)
        back[order] = outputs
        mixed = (back.unflatten(0, chosen.shape).to(weights.dtype) * weights.unsqueeze(-1)).sum(1)
        out = mixed.to(x.dtype).view_as(x)
        return out if self.shared is None else out + self.shared(x)

    def route(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(experts, weights), (T, chosen) each, for tokens (T, hidden): the best first, at least in float32."""
        experts = self.experts
        exact = torch.promote_types(tokens.dtype, torch.float32)
        if not experts.sigmoid:
            weights, chosen = self.router(tokens).to(exact).softmax(-1).topk(experts.chosen)
        else:
            scores = functional.linear(tokens.to(exact), self.router.weight.to(exact)).sigmoid()
            chosen = self._allowed(scores + self.bias.to(exact)).topk(experts.chosen).indices
            weights = scores.gather(1, chosen)
        if experts.normalised:
            weights = weights / (weights.sum(-1, keepdim=True) + EVEN)
        return chosen, weights * experts.factor

    def _allowed(self, scores: Tensor) -> Tensor:
        """Scores (T, experts), with minus infinity outside the best groups of each token."""
        if self.experts.groups == 1:
            return scores
        grouped = scores.unflatten(1, (self.experts.groups, -1))
        best = grouped.topk(2).values.sum(-1).topk(self.experts.best).indices
        outside = torch.ones_like(grouped[..., 0], dtype=torch.bool).scatter(1, best, False)
        return grouped.masked_fill(outside.unsqueeze(-1), -torch.inf).flatten(1)

    def _compute(self, tokens: Tensor, counts: Tensor) -> Tensor:
        """Outputs (T, hidden) of tokens (T, hidden) sorted by expert, with counts (experts)."""

        def through(x: Tensor, weight: Tensor) -> Tensor:
            if x.dtype == torch.float64 or any(size * x.element_size() % ALIGNED for size in weight.shape[1:]):
                parts = x.split(counts.tolist())
                return torch.cat([functional.linear(part, own) for part, own in zip(parts, weight, strict=True)])
            ends = counts.cumsum(0).to(torch.int32)
            return functional.grouped_mm(x, weight.mT, offs=ends)

        gate, up = through(tokens, self.gate_up).chunk(2, -1)
        return through(functional.silu(gate) * up, self.down)


class SparseDecoder(Decoder):
    """A decoder with experts instead of the MLPs of some layers; by default, of all layers."""

    def __init__(self, shape: Shape, experts: Experts, sparse: Callable[[int], bool] = lambda layer: True) -> None:
        def mlp(layer: int) -> nn.Module:
            return MoE(shape.hidden, experts) if sparse(layer) else MLP(shape.hidden, shape.inner)

        super().__init__(shape, mlp)

    def parameters_used(self) -> int:
        """Number of weights per token: of the experts only the chosen ones."""
        idle = 0.0
        for layer in self.modules():
            if isinstance(layer, MoE):
                unused = 1 - layer.experts.chosen / layer.experts.count
                idle += unused * (layer.gate_up.numel() + layer.down.numel())
        return super().parameters_used() - round(idle)
