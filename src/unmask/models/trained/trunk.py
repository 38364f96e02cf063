"""A pre-norm transformer, bidirectional for an MDM, causal for an AR model.

    x = x + attention(norm(x)),  x = x + down(silu(gate(norm(x))) * up(norm(x))),  logits = head(norm(x))

An MDM reads tokens (B, L), V where hidden, and returns logits at the requested positions. The last block computes
queries and its MLP for these positions only: `below` is the part shared by all positions, `top` the rest. An AR model
reads a start symbol and the tokens, and can cache keys and values (`Memory`). The mask has no logit, and the caller
copies revealed tokens: SUBS (theory.md 10).

Rotary positions are relative, so hidden positions would all be alike; an AR model can count the tokens that it reads.
An MDM therefore also learns a vector for each position, added after the first block. The input of that block depends
on symbols only, so its queries, keys and values can be looked up by symbol.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.trained.chain import Chain
from unmask.models.trained.memory import Memory, Reach
from unmask.models.trained.shape import Shape
from unmask.models.trained.windows import Windows

SYMBOL = 0.3  # initial standard deviation of embeddings: small, so that learned context soon outweighs it
SPREADS = {"embed.weight": SYMBOL, "chain.table": 1.0}  # equal hidden states of a chain would stay equal
SHARED = 0.5  # squared fraction of a normalised embedding along the direction that all symbols share
SCORE = 8.0  # initial attention score of a head's preferred neighbour; other positions score a few less
NEAR = 4  # its largest distance
PERIODS = 2.0, 16.0  # rotary: the shortest in positions, the longest in lengths. A narrow head then wastes few pairs on
# distances beyond the sequence, and its slowest pairs hardly rotate
LEAST_NOISE = 1e-3  # 1 - a; smaller values count as this one, since q(x_i | y) hardly depends on them
SLOWEST = 10_000.0  # ratio of the fastest to the slowest frequency of the clock
Turn = tuple[Tensor, Tensor]  # cos, sin, broadcastable over (B, K, heads, D)


class Frame(NamedTuple):
    """Inputs that all blocks of a forward pass share."""

    turn: Turn
    condition: Tensor | None = None  # (B, hidden): the time, for networks with a time
    reach: Reach | None = None  # cached keys and values
    level: Tensor | None = None  # (B): the a of uniform noise


def embedding(symbols: int, width: int) -> nn.Embedding:
    """torch's embedding; on the meta device without random values, for which torch would import its compiler."""
    return nn.Embedding(symbols, width, _weight=torch.empty(symbols, width) if torch.empty(0).is_meta else None)


class Trunk(nn.Module):
    """Logits of V symbols."""

    cos: Tensor  # (length + 1, D)
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        shape.check_memory()
        self.shape = shape
        self.embed = embedding(shape.vocabulary + 1, shape.hidden)
        self.place = None if shape.causal else nn.Parameter(torch.empty(shape.length, shape.hidden))
        self.time = None if shape.time_free else Clock(shape.hidden)
        self.windows = Windows(shape) if shape.neighbours and not shape.states else None
        self.chain = Chain(shape) if shape.states else None
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden, bias=False)
        self.head = Head(shape.hidden, shape.vocabulary, bias=False)

        for name in ("cos", "sin"):
            turns = torch.empty(shape.length + 1, shape.hidden // shape.heads // 2 * 2)
            self.register_buffer(name, turns, persistent=False)

        if not self.embed.weight.is_meta:  # on the meta device only shapes are needed
            self._turn()
            self._initialise()

    def _turn(self) -> None:
        angles = torch.arange(len(self.cos)).unsqueeze(1) * self.rates  # float64: far positions are many rotations away
        self.cos.copy_(angles.cos().repeat(1, 2))
        self.sin.copy_(torch.cat([-angles.sin(), angles.sin()], 1))

    def _initialise(self) -> None:
        """Draw weights so that linear maps keep the size of their input; updates of the residual stream start small."""
        for name, weight in self.named_parameters():
            if weight.dim() < 2:
                continue
            spread = SPREADS.get(name, 1 / math.sqrt(weight.shape[1]))
            if name.endswith(("out.weight", "down.weight")):
                spread /= math.sqrt(2 * self.shape.layers)
            # all symbols equally likely, no effect of time
            if name.startswith(("head", "place", "chain.begin")) or "modulate" in name:
                nn.init.zeros_(weight)
            else:
                nn.init.normal_(weight, std=spread)
        self._look_near()

    @torch.no_grad()
    def _look_near(self) -> None:
        """Let each head first attend to one neighbour, 1 to NEAR positions before or after.

        Useful context is near, and uniform attention would hide it. All symbols share a direction s. Queries map it to
        t and keys to R(-d) t, where t is equal in all pairs of a head: (R(j) t) . (R(j + d) R(-d) t) is largest at
        distance d.
        """
        hidden = self.shape.hidden
        width = hidden // self.shape.heads
        shared = torch.randn(hidden)
        self.embed.weight.add_(SYMBOL * shared)
        strength = SCORE * math.sqrt(width) / (width // 2 * hidden * SHARED)
        shared *= math.sqrt(strength) / shared.norm()

        sides = (-1,) if self.shape.causal else (-1, 1)
        distances = [side * far for far in range(1, NEAR + 1) for side in sides]
        even = torch.cat([torch.ones(width // 2), torch.zeros(width // 2)])

        for number in range(self.shape.layers * self.shape.heads):
            layer, head = divmod(number, self.shape.heads)
            angles = -distances[number % len(distances)] * self.rates
            turned = torch.cat([angles.cos(), angles.sin()]).float()
            query, key, _ = self._layers[layer].qkv.weight.unflatten(0, (3, self.shape.heads, width))[:, head]
            query.add_(torch.outer(even, shared))
            key.add_(torch.outer(turned, shared))

    @property
    def rates(self) -> Tensor:
        """(D/2): the angle between neighbouring positions, for each pair."""
        half = self.shape.hidden // self.shape.heads // 2
        short, long = PERIODS[0], PERIODS[1] * self.shape.length
        return 2 * math.pi / short * torch.logspace(0, 1, half, base=short / long, dtype=torch.float64)

    @property
    def _layers(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]

    @property
    def device(self) -> torch.device:
        return self.embed.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embed.weight.dtype

    def forward(self, *given: Any, **options: Any) -> Tensor:
        """Logits (B, K, V) or (B, A, V) of the arguments of `states`."""
        return self.head(self.states(*given, **options))

    def states(
        self,
        tokens: Tensor,
        columns: Tensor | None = None,
        time: Tensor | None = None,
        memory: Memory | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Input of the head, (B, K, width) of tokens (B, K), or (B, A, width) at columns (B, A); time (B) for an MDM
        that has it.

        With a memory the tokens continue its rows (B) (default: all), and their keys and values are cached. The caller
        updates `memory.lengths`.
        """
        frame = self._frame(tokens.shape[1], time, None if memory is None else memory.reach(tokens, rows))
        return self._last(self._below(tokens, frame), columns, frame)

    def below(self, tokens: Tensor, time: Tensor | None = None) -> Tensor:
        """(B, L, width): input of the last block."""
        return self._below(tokens, self._frame(tokens.shape[1], time))

    def top(self, x: Tensor, columns: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        """Input of the head, computed from `below`: (B, A, width) at columns (B, A), or everywhere."""
        return self._last(x, columns, self._frame(x.shape[1], time))

    def step(self, recent: Tensor, place: int, cache: Tensor) -> Tensor:
        """Logits (B, V) after one more symbol, at the same position in all rows: `forward`, but faster.

        recent (B, R): the last symbols, as many as a window reads; cache (layers, 2, B, heads, T, D): keys and values
        of earlier positions; those of `place` are added.
        """
        turn = self.cos[place], self.sin[place]
        layers = self._layers
        early = min(1, len(layers) - 1)

        x = self.embed(recent[:, -1])
        for layer in range(early):
            x = layers[layer].step(x, turn, cache[layer], place)
        x, logits = self._split(self._recalled(x.unsqueeze(1), recent[:, -1:], recent[:, :-1]).squeeze(1))

        for layer in range(early, len(layers)):
            x = layers[layer].step(x, turn, cache[layer], place)
        return self.head(_wide(self.norm(x), logits))

    def _below(self, tokens: Tensor, frame: Frame) -> Tensor:
        x = self.embed(tokens)
        past = None if frame.reach is None else frame.reach.past
        if len(self.blocks) == 1:
            return self._recalled(x, tokens, past, frame)

        first, *rest = self._layers[:-1]
        symbols = self.embed.weight
        qkv = None
        if self.time is None and len(symbols) < tokens.numel() and not torch.is_grad_enabled():
            qkv = functional.embedding(tokens, first.qkv(first.before(symbols)))  # it depends on the symbol only
        x, logits = self._split(self._recalled(first(x, 0, frame, qkv=qkv), tokens, past, frame))

        for layer, block in enumerate(rest, 1):
            x = block(x, layer, frame)
        return _wide(x, logits)

    def _recalled(self, x: Tensor, tokens: Tensor, past: Tensor | None, frame: Frame | None = None) -> Tensor:
        """(B, K, width): x (B, K, hidden) with the vector of its position and the memory."""
        if self.place is not None:
            x = x + self.place[: x.shape[1]]
        if self.chain is not None:
            recalled = self.chain(tokens, None if frame is None else frame.level)
        elif self.windows is not None:
            recalled = self.windows(tokens, past, None if frame is None else frame.condition)
        else:
            return x
        return functional.pad(x, (0, self.shape.vocabulary)) + recalled

    def _split(self, x: Tensor) -> list[Tensor]:
        """Hidden states and logits of the memory, if there is one, of (.., width)."""
        return x.split([self.shape.hidden, x.shape[-1] - self.shape.hidden], -1)

    def _last(self, x: Tensor, columns: Tensor | None, frame: Frame) -> Tensor:
        x, logits = self._split(x)
        return _wide(self.norm(self._layers[-1](x, len(self.blocks) - 1, frame, columns)), _picked(logits, columns))

    def _frame(self, width: int, time: Tensor | None, reach: Reach | None = None) -> Frame:
        level = None
        if time is not None and self.shape.noise == "uniform":
            level = time.clamp(max=1 - LEAST_NOISE)
            time = depth(level)
        condition = None if self.time is None else self.time(time)

        if reach is not None and reach.places is not None:
            return Frame((self.cos[reach.places].unsqueeze(2), self.sin[reach.places].unsqueeze(2)), condition, reach)
        first = 0 if reach is None else reach.first
        part = slice(first, first + width)
        return Frame((self.cos[part].unsqueeze(1), self.sin[part].unsqueeze(1)), condition, reach, level)


class Head(nn.Linear):
    """Logits (.., V) of hidden states, plus those of the memory, which follow them."""

    def forward(self, states: Tensor) -> Tensor:
        if states.shape[-1] == self.in_features:
            return super().forward(states)
        return super().forward(states[..., : self.in_features]) + states[..., self.in_features :]


class Block(nn.Module):
    """Attention and an MLP, each added to its input; a condition scales, shifts and gates both (as in DiT)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.causal = shape.heads, shape.causal
        self.before, self.between = (nn.LayerNorm(shape.hidden, bias=False) for _ in range(2))
        self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden, bias=False)
        self.out = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.up = nn.Linear(shape.hidden, 2 * shape.wide, bias=False)
        self.down = nn.Linear(shape.wide, shape.hidden, bias=False)
        self.modulate = None if shape.time_free else nn.Linear(shape.hidden, 6 * shape.hidden)

    def forward(
        self, x: Tensor, layer: int, frame: Frame, columns: Tensor | None = None, qkv: Tensor | None = None
    ) -> Tensor:
        """(B, K, hidden) in and out, or (B, A, hidden) out at columns (B, A); qkv (B, K, 3 hidden) if known."""
        changes = [None] * 2
        if self.modulate is not None:
            changes = self.modulate(frame.condition).unsqueeze(1).chunk(2, -1)

        if qkv is None:
            mixed = self._attend(_changed(self.before(x), changes[0]), layer, frame, columns)
        else:
            mixed = self._mix_all(qkv, layer, frame)
        return self.reflect(_gated(_picked(x, columns), self.out(mixed), changes[0]), changes[1])

    def reflect(self, x: Tensor, change: Tensor | None = None) -> Tensor:
        """The half after attention."""
        gate, value = self.up(_changed(self.between(x), change)).chunk(2, -1)
        return _gated(x, self.down(functional.silu(gate) * value), change)

    def step(self, x: Tensor, turn: Turn, cache: Tensor, place: int) -> Tensor:
        """(B, hidden) in and out, at one position of the cache (2, B, heads, T, D)."""
        qkv = self.qkv(self.before(x)).view(len(x), 3 * self.heads, -1)
        query, key = rotated(qkv[:, : 2 * self.heads], turn).chunk(2, 1)
        cache[0, :, :, place], cache[1, :, :, place] = key, qkv[:, 2 * self.heads :]
        cache = cache[:, :, :, : place + 1]
        mixed = functional.scaled_dot_product_attention(query.unsqueeze(2), cache[0], cache[1])
        return self.reflect(torch.addmm(x, mixed.reshape(len(x), -1), self.out.weight.t()))

    def _attend(self, x: Tensor, layer: int, frame: Frame, columns: Tensor | None) -> Tensor:
        if columns is None:
            return self._mix_all(self.qkv(x), layer, frame)

        rows, width, hidden = x.shape
        ours, theirs = self.qkv.weight.split([hidden, 2 * hidden])
        key, value = functional.linear(x, theirs).view(rows, width, 2 * self.heads, -1).chunk(2, 2)
        query = functional.linear(_picked(x, columns), ours).view(*columns.shape, self.heads, -1)
        cos, sin = (part[:, 0][columns].unsqueeze(2) for part in frame.turn)
        return self._mix(rotated(query, (cos, sin)), rotated(key, frame.turn), value, layer, frame)

    def _mix_all(self, qkv: Tensor, layer: int, frame: Frame) -> Tensor:
        """(B, K, hidden) from queries, keys and values (B, K, 3 hidden) before rotation."""
        query_key, value = qkv.unflatten(2, (3 * self.heads, -1)).split([2 * self.heads, self.heads], 2)
        query, key = rotated(query_key, frame.turn).chunk(2, 2)
        return self._mix(query, key, value, layer, frame)

    def _mix(self, query: Tensor, key: Tensor, value: Tensor, layer: int, frame: Frame) -> Tensor:
        """(B, A, hidden) from queries (B, A, heads, D), and keys and values (B, K, heads, D)."""
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))
        seen, causal = None, self.causal
        if frame.reach is not None:
            key, value = frame.reach.write(layer, key, value)
            seen, causal = frame.reach.seen, frame.reach.prefix
        mixed = functional.scaled_dot_product_attention(query, key, value, seen, is_causal=causal)
        return mixed.transpose(1, 2).flatten(2)


class Clock(nn.Module):
    """Embedding of a time in [0, 1]: sines of geometric frequencies, then a small network."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.widen, self.mix = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)

    def forward(self, time: Tensor) -> Tensor:
        """(B) to (B, hidden)."""
        half = self.widen.in_features // 2
        rates = SLOWEST ** (-torch.arange(half, device=time.device) / half)
        angles = 1000 * time.float().unsqueeze(1) * rates
        waves = torch.cat([angles.sin(), angles.cos()], 1).to(self.widen.weight.dtype)
        return functional.silu(self.mix(functional.silu(self.widen(waves))))


def depth(level: Tensor) -> Tensor:
    """The clock of uniform noise, (B) in [0, 1] from levels a: log(1 - a) / log(LEAST_NOISE), 0 if all is noise.

    Near a = 1 the noise falls geometrically from step to step, and with it the probability of a wrong token.
    """
    return (1 - level).log() / math.log(LEAST_NOISE)


def rotated(x: Tensor, turn: Turn) -> Tensor:
    """Rotary positions: the pairs (a, b) of x = [a.., b..] (.., D), rotated by the angles of their position."""
    cos, sin = turn
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)


def _wide(x: Tensor, logits: Tensor) -> Tensor:
    return torch.cat([x, logits], -1) if logits.shape[-1] else x


def _picked(x: Tensor, columns: Tensor | None) -> Tensor:
    return x if columns is None else x.gather(1, columns.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


def _changed(x: Tensor, change: Tensor | None) -> Tensor:
    if change is None:
        return x
    scale, shift, _ = change.chunk(3, -1)
    return x * (1 + scale) + shift


def _gated(x: Tensor, update: Tensor, change: Tensor | None) -> Tensor:
    if change is None:
        return x + update
    return x + update * (1 + change.chunk(3, -1)[2])
