"""Randomness as a function: the uniform at (seed, stream, row, position, visit) is always the same number.

Philox4x32-10 (Salmon et al. 2011) encrypts the counter (position, row, row, stream | visit) under the seed. A draw has
no state, so blocks of rows, threads and the order of evaluation do not change the random numbers. Philox is used rather
than a chain of splitmix64 because its known answers are published, and because others have tested its independence
across neighbouring keys. A draw takes about 20 ns, far less than a posterior.

A uniform is u = (2k+1) 2^-53 with k of 52 bits: exactly representable, symmetric, never 0 and never 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.compiled import kernel, uint64
from unmask.core.errors import UnmaskError

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
LOW = 0xFFFFFFFF
MAX_SEED = 2**63
MAX_VISIT = 2**24
BLOCK = 256  # symbols per block in the two-level search of large vocabularies
SUMMED = 2**17  # weights that are copied to float64 and summed at once


class Stream(IntEnum):
    """The use of a random number. Each use has its own stream, so that uses are independent under one seed."""

    TOKEN = 0  # which symbol a sampler writes
    ORDER = 1  # in which step a position is revealed
    TIE = 2  # which of several equal scores comes first
    ACCEPT = 3  # whether a drafted token is accepted
    RESIDUAL = 4  # the token that replaces a rejected draft
    LANGUAGE = 5  # x ~ q
    STATE = 6  # the hidden states behind x ~ q
    PARAMETER = 7  # the random parameters of a language
    BOOTSTRAP = 8  # which rows are resampled for an interval
    WINDOW = 9  # where in a text an example begins
    MEMBER = 10  # which token of a drawn class
    PARENT = 11  # which row of its group a row goes on from


def check_seed(seed: int) -> int:
    if type(seed) is int and 0 <= seed < MAX_SEED:  # the fast path of every draw
        return seed
    return arguments.whole("the seed", seed, 0, MAX_SEED - 1)


@kernel
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Philox4x32-10 on four 32-bit words held in uint64; the reference for known answers."""
    for _ in range(10):
        product0 = uint64(0xD2511F53) * c0
        product1 = uint64(0xCD9E8D57) * c2
        c0 = (product1 >> uint64(32)) ^ c1 ^ k0
        c1 = product1 & uint64(0xFFFFFFFF)
        c2 = (product0 >> uint64(32)) ^ c3 ^ k1
        c3 = product0 & uint64(0xFFFFFFFF)
        k0 = (k0 + uint64(0x9E3779B9)) & uint64(0xFFFFFFFF)
        k1 = (k1 + uint64(0xBB67AE85)) & uint64(0xFFFFFFFF)
    return c0, c1, c2, c3


@kernel
def uniform_at(seed, stream, row, position, visit):  # type: ignore[no-untyped-def]
    """One uniform, for kernels."""
    low = uint64(0xFFFFFFFF)
    seed = uint64(seed)
    row = uint64(row)

    word0, word1, _, _ = philox(
        uint64(position) & low,
        row & low,
        row >> uint64(32),
        (uint64(stream) << uint64(24)) | uint64(visit),
        seed & low,
        seed >> uint64(32),
    )
    k = ((word0 << uint64(32)) | word1) >> uint64(12)
    return (2.0 * k + 1.0) * 2.0**-53


@kernel
def _uniform_many(seed, stream, rows, positions, visits, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] = uniform_at(seed, stream, rows[i], positions[i], visits[i])


def _uniform_torch(seed: int, stream: int, rows: Tensor, positions: Tensor, visits: Tensor) -> Tensor:
    """The same numbers in torch operations, for any device: int64 wraps as uint64 does, and masks hide the sign."""
    c = [positions & LOW, rows & LOW, (rows >> 32) & LOW, (stream << 24) | visits]
    k0, k1 = seed & LOW, seed >> 32

    for _ in range(10):
        product0 = MULTIPLIERS[0] * c[0]
        product1 = MULTIPLIERS[1] * c[2]
        c = [
            ((product1 >> 32) & LOW) ^ c[1] ^ k0,
            product1 & LOW,
            ((product0 >> 32) & LOW) ^ c[3] ^ k1,
            product0 & LOW,
        ]
        k0, k1 = (k0 + WEYL[0]) & LOW, (k1 + WEYL[1]) & LOW

    k = (c[0] << 20) | (c[1] >> 12)
    return (2.0 * k.double() + 1.0) * 2.0**-53


def uniform(seed: int, stream: Stream, rows: Tensor, positions: Tensor, visits: Tensor | int = 0) -> Tensor:
    """Uniforms at rows x positions x visits (broadcast together), float64, on the device of `rows`."""
    check_seed(seed)
    earlier = torch.as_tensor(visits, device=rows.device)
    if earlier.numel():
        least, most = map(int, earlier.aminmax())
        if not 0 <= least <= most < MAX_VISIT:
            raise UnmaskError(f"a position was drawn {most} times; expected at most {MAX_VISIT - 1} draws")

    if not rows.shape == positions.shape == earlier.shape:
        rows, positions, earlier = torch.broadcast_tensors(rows, positions, earlier)
    if rows.device.type != "cpu":
        return _uniform_torch(seed, int(stream), rows.long(), positions.long(), earlier.long())

    out = torch.empty(rows.shape, dtype=torch.float64)
    flat = [t.long().reshape(-1).contiguous().numpy() for t in (rows, positions, earlier)]  # compiled for one layout
    _uniform_many(np.uint64(seed), int(stream), *flat, out.view(-1).numpy())
    return out


def categorical(weights: Tensor, u: Tensor) -> Tensor:
    """(..) the first symbol whose cumulative weight exceeds u times the total: inverse CDF in float64.

    weights (.., V) need not be normalized, u (..); a symbol of weight zero is never drawn. For large vocabularies the
    search has two levels, which avoids a float64 copy of (.., V).
    """
    if weights.dim() != 2:
        return categorical(weights.reshape(-1, weights.shape[-1]), u.reshape(-1)).view_as(u)
    symbols = weights.shape[-1]
    if weights.device.type == "cpu" and weights.dtype == torch.float64:
        out = torch.empty(len(weights), dtype=torch.int64)
        _draw_rows(weights.numpy(), u.numpy(), out.numpy())
        return out

    if symbols <= 4 * BLOCK:
        return _first_above(weights.double(), u, relative=True)[0]

    def inside(block: Tensor) -> Tensor:
        columns = block.unsqueeze(1) * BLOCK + torch.arange(BLOCK, device=u.device)
        chosen = weights.gather(1, columns.clamp(max=symbols - 1)).double()
        return torch.where(columns < symbols, chosen, 0.0)

    return search(torch.cat([by_block(part, _sum) for part in weights.split(max(SUMMED // symbols, 1))]), inside, u)


def _sum(weights: Tensor) -> Tensor:
    return weights.sum(-1, dtype=torch.float64)  # float32 would lose rare symbols next to a likely one


def search(masses: Tensor, inside: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
    """(K) symbols by uniforms u (K), given the mass (K, blocks) of each block and inside(block (K)), (K, BLOCK)."""
    block, rest = _first_above(masses, u, relative=True)
    return block * BLOCK + _first_above(inside(block), rest, relative=False)[0]


def by_block(x: Tensor, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """(K, blocks): reduce(.., BLOCK) of each block of symbols of x (K, V); the last block may be shorter."""
    whole = x.shape[1] // BLOCK * BLOCK
    parts = [reduce(x[:, :whole].unflatten(1, (-1, BLOCK)))] if whole else []
    if whole < x.shape[1]:
        parts.append(reduce(x[:, whole:]).unsqueeze(1))
    return torch.cat(parts, 1)


def _first_above(masses: Tensor, u: Tensor, relative: bool) -> tuple[Tensor, Tensor]:
    """(index, rest of the threshold inside it); a threshold that rounds up to the total takes the last mass."""
    cumulative = masses.cumsum(-1)
    threshold = u * cumulative[..., -1] if relative else u
    last = masses.shape[-1] - 1 - (masses.flip(-1) > 0).int().argmax(-1)
    index = torch.minimum((cumulative <= threshold.unsqueeze(-1)).sum(-1), last)
    before = torch.where(index > 0, cumulative.gather(-1, (index - 1).clamp(min=0).unsqueeze(-1)).squeeze(-1), 0.0)
    return index, threshold - before


@kernel
def draw(weights, u):  # type: ignore[no-untyped-def]
    """`categorical` for one short row of weights, in kernels: the same symbol for the same u."""
    total = 0.0
    for i in range(weights.shape[0]):  # `weights.sum()` would take half a second to compile
        total += weights[i]
    threshold, cumulative, last = u * total, 0.0, 0
    for i in range(weights.shape[0]):
        if weights[i] > 0.0:
            cumulative += weights[i]
            last = i
            if cumulative > threshold:
                break
    return last


@kernel
def _draw_rows(weights, u, tokens):  # type: ignore[no-untyped-def]
    for k in range(len(tokens)):
        tokens[k] = draw(weights[k], u[k])


class Drawable(Protocol):
    """Converts uniforms (K) to symbols (K), like `denoisers.Marginals`."""

    def draw(self, u: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Randomness:
    """The random numbers that a sampler uses for some rows, keyed by the global numbers of the rows."""

    seed: int
    row_ids: Tensor  # (B)

    def uniform(self, stream: Stream, rows: Tensor, positions: Tensor, visits: Tensor | int = 0) -> Tensor:
        """Uniforms (K) at rows and positions; rows are indices into row_ids."""
        return uniform(self.seed, stream, self.row_ids[rows], positions, visits)

    def grid(self, stream: Stream, length: int, visits: Tensor | int = 0) -> Tensor:
        """Uniforms (B, L)."""
        rows = torch.arange(len(self.row_ids), device=self.row_ids.device).unsqueeze(1)
        positions = torch.arange(length, device=self.row_ids.device)
        return self.uniform(stream, rows, positions, visits)

    def tokens(self, marginals: Drawable, rows: Tensor, positions: Tensor, visits: Tensor) -> Tensor:
        """Symbols (K) drawn from marginals with new random numbers; increments visits (B, L)."""
        earlier = visits[rows, positions]
        u = self.uniform(Stream.TOKEN, rows, positions, earlier)
        visits[rows, positions] = earlier + 1
        return marginals.draw(u)
