"""The one trunk: a pre-norm transformer with rotary positions; bidirectional for an MDM, causal for an AR model.

    x = x + attention(norm(x)),  x = x + mlp(norm(x)),  logits = head(norm(x))

An MDM reads (B, L) tokens in which V is hidden, and answers for the positions asked for: the last block computes
queries and its MLP for those alone. An AR model reads a start and the tokens, and may keep what it has read (`Memory`).
A logit for the mask does not exist, and what is revealed is carried over by whoever asks: SUBS (theory.md 10).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.networks.memory import Memory
from unmask.networks.shape import Shape

WIDER = 4  # the MLP, by the hidden size
PERIODS = 10_000.0  # the longest rotary period
Turn = tuple[Tensor, Tensor]  # cos, sin, broadcastable over (B, K, heads, D/2)


class Trunk(nn.Module):
    """Logits of V symbols."""

    cos: Tensor  # (length, D/2)
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary + 1, shape.hidden)
        self.time = None if shape.time_free else Clock(shape.hidden)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden, bias=False)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        half = shape.hidden // shape.heads // 2
        angles = torch.arange(shape.length).unsqueeze(1) * PERIODS ** (-torch.arange(half) / half)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        """Every linear map keeps the size of what it is given; what is added to the residual stream starts small."""
        for name, weight in self.named_parameters():
            if weight.dim() < 2:
                continue
            spread = 1.0 if name == "embed.weight" else 1 / math.sqrt(weight.shape[1])
            if name.endswith(("out.weight", "down.weight")):
                spread /= math.sqrt(2 * self.shape.layers)
            if name.startswith("head") or "modulate" in name:
                spread = 0.0  # every symbol is equally likely, every condition the same
            nn.init.normal_(weight, std=spread) if spread else nn.init.zeros_(weight)

    @property
    def device(self) -> torch.device:
        return self.embed.weight.device

    def forward(
        self, tokens: Tensor, asked: Tensor | None = None, time: Tensor | None = None, memory: Memory | None = None
    ) -> Tensor:
        """Logits (B, K, V) after tokens (B, K), or (B, A, V) at columns asked (B, A); time (B) for an MDM that has it.

        With a memory the tokens follow what it holds, and it holds them afterwards; the caller says with
        `memory.move` how many of them count.
        """
        places = torch.arange(tokens.shape[1]) if memory is None else memory.places(tokens.shape[1])
        turn = self._turn(places)
        mask = None
        if memory is not None and not (memory.even and len(places) == 1):
            mask = _seen(places).to(tokens.device)
        condition = None if self.time is None else self.time(time)
        x = self.embed(tokens)
        for layer, block in enumerate(self.blocks):
            last = layer == len(self.blocks) - 1
            x = block(x, turn, mask, condition, asked if last else None, memory and (memory, layer, places))
        return self.head(self.norm(x))

    def _turn(self, places: Tensor) -> Turn:
        """Rotations of positions (K) or (B, K)."""
        if places.dim() == 1:
            part = slice(int(places[0]), int(places[-1]) + 1)
            return self.cos[part].unsqueeze(1), self.sin[part].unsqueeze(1)
        where = places.clamp(max=self.shape.length - 1).to(self.device)
        return self.cos[where].unsqueeze(2), self.sin[where].unsqueeze(2)


class Block(nn.Module):
    """Attention and an MLP, each added to what comes in; a condition scales, shifts and gates both (as in DiT)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.causal = shape.heads, shape.causal
        self.before, self.between = (nn.LayerNorm(shape.hidden, bias=False) for _ in range(2))
        self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden, bias=False)
        self.out = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.up = nn.Linear(shape.hidden, WIDER * shape.hidden)
        self.down = nn.Linear(WIDER * shape.hidden, shape.hidden)
        self.modulate = None if shape.time_free else nn.Linear(shape.hidden, 6 * shape.hidden)

    def forward(
        self,
        x: Tensor,
        turn: Turn,
        mask: Tensor | None,
        condition: Tensor | None,
        asked: Tensor | None,
        memory: tuple[Memory, int, Tensor] | None,
    ) -> Tensor:
        """(B, K, hidden) in and out, or (B, A, hidden) out at columns asked (B, A)."""
        changes = [None] * 2 if self.modulate is None else self.modulate(condition).unsqueeze(1).chunk(2, -1)
        mixed = self._attend(_changed(self.before(x), changes[0]), turn, mask, asked, memory)
        x = _gated(_picked(x, asked), self.out(mixed), changes[0])
        wide = functional.gelu(self.up(_changed(self.between(x), changes[1])), approximate="tanh")
        return _gated(x, self.down(wide), changes[1])

    def _attend(
        self,
        x: Tensor,
        turn: Turn,
        mask: Tensor | None,
        asked: Tensor | None,
        memory: tuple[Memory, int, Tensor] | None,
    ) -> Tensor:
        rows, width, hidden = x.shape
        if asked is None:
            query_key, value = self.qkv(x).view(rows, width, 3 * self.heads, -1).split([2 * self.heads, self.heads], 2)
            query, key = rotated(query_key, turn).chunk(2, 2)
        else:
            ours, theirs = self.qkv.weight.split([hidden, 2 * hidden])
            key, value = functional.linear(x, theirs).view(rows, width, 2 * self.heads, -1).chunk(2, 2)
            query = functional.linear(_picked(x, asked), ours).view(*asked.shape, self.heads, -1)
            at = tuple(part[:, 0][asked].unsqueeze(2) for part in turn)
            query, key = rotated(query, (at[0], at[1])), rotated(key, turn)
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))  # (B, heads, K, D)
        if memory is not None:
            keeper, layer, places = memory
            key, value = keeper.write(layer, key, value, places)
        causal = self.causal and memory is None
        mixed = functional.scaled_dot_product_attention(query, key, value, mask, is_causal=causal)
        return mixed.transpose(1, 2).reshape(rows, -1, hidden)


class Clock(nn.Module):
    """A time in [0, 1] as a vector: sines of geometric frequencies, then a small network."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.widen, self.mix = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)

    def forward(self, time: Tensor) -> Tensor:
        """(B) to (B, hidden)."""
        half = self.widen.in_features // 2
        rates = PERIODS ** (-torch.arange(half, device=time.device) / half)
        angles = 1000 * time.unsqueeze(1).to(rates.dtype) * rates
        return functional.silu(self.mix(functional.silu(self.widen(torch.cat([angles.sin(), angles.cos()], 1)))))


def rotated(x: Tensor, turn: Turn) -> Tensor:
    """Rotary positions: the pairs (a, b) of x (B, K, heads, D) turned by the angles of their position."""
    cos, sin = turn
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def _seen(places: Tensor) -> Tensor:
    """What tokens at places (K) or (B, K) may attend to: positions up to their own, (K, T) or (B, 1, K, T)."""
    seen = torch.arange(int(places.max()) + 1) <= places.unsqueeze(-1)
    return seen if places.dim() == 1 else seen.unsqueeze(1)


def _picked(x: Tensor, asked: Tensor | None) -> Tensor:
    """(B, A, hidden): the columns asked for."""
    return x if asked is None else x.gather(1, asked.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


def _changed(x: Tensor, change: Tensor | None) -> Tensor:
    if change is None:
        return x
    scale, shift, _ = change.chunk(3, -1)
    return x * (1 + scale) + shift


def _gated(x: Tensor, update: Tensor, change: Tensor | None) -> Tensor:
    return x + (update if change is None else update * (1 + change.chunk(3, -1)[2]))
