"""Attention on one thread of a CPU, rotary positions included, where no gradient is asked for.

    out_i = sum_j e^(q_i k_j / sqrt(D) - m_i) v_j / sum_j e^(q_i k_j / sqrt(D) - m_i),   m_i = max_j q_i k_j / sqrt(D)

Keys and values of a head lie with their positions side by side, so that sixteen scores are one vector however narrow
the head is: with heads of 16 that is what torch's own kernel does not reach. Four queries share what is loaded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import float32, int32, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor

LANES = 16
TOGETHER = 4  # queries
COLUMNS = 2 * LANES  # positions that a block of accumulators spans
FLOAT = ir.FloatType()
VECTOR = ir.VectorType(FLOAT, LANES)
FAST = {"reassoc", "contract", "nsz", "arcp"}
LEAST = -126.0  # the power of two below which a weight is nothing


def fits(weight: Tensor) -> bool:
    """Whether it is for this kernel: torch's own has threads, gradients and other types."""
    if torch.compiler.is_compiling() or torch.is_grad_enabled() or torch.get_num_threads() > 1:
        return False
    return weight.device.type == "cpu" and weight.dtype == torch.float32


def attend(qkv: Tensor, heads: int, cos: Tensor, sin: Tensor) -> Tensor:
    """(B, L, hidden) of queries, keys and values (B, L, 3 hidden) not yet turned; cos, sin (L, D) as for `rotated`."""
    rows, length, wide = qkv.shape
    out = torch.empty((rows, length, wide // 3))
    split = qkv.contiguous().view(rows, length, 3, heads, -1)
    _attend(split.numpy(), cos.numpy(), sin.numpy(), out.view(rows, length, heads, -1).numpy())
    return out


def read_on(qkv: Tensor, cos: Tensor, sin: Tensor, kept: Tensor, place: int) -> Tensor:
    """(R, hidden) of one more place (R, 3, heads, D), not yet turned; angles (D) of that place.

    kept (2, B, heads, D, T), positions side by side: the place is written into the first R rows, and attends to all up
    to itself.
    """
    out = torch.empty((len(qkv), qkv.shape[2], qkv.shape[3]))
    _read_on(qkv.numpy(), cos.numpy(), sin.numpy(), kept.numpy(), place, out.numpy())
    return out.flatten(1)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _attend(qkv, cos, sin, out):  # type: ignore[no-untyped-def]
    rows, length, _, heads, size = qkv.shape
    half, wide = size // 2, (size + 3) // 4 * 4
    stride = (length + COLUMNS - 1) // COLUMNS * COLUMNS
    keys, values = np.zeros((wide, stride), np.float32), np.zeros((wide, stride), np.float32)
    queries, mixed = np.zeros((TOGETHER, wide), np.float32), np.empty((TOGETHER, wide), np.float32)
    weights, tops = np.empty((TOGETHER, stride), np.float32), np.empty((TOGETHER, LANES), np.float32)
    powers = np.empty(stride, np.int32)
    totals = np.empty(TOGETHER, np.float32)
    scale = float32(math.log2(math.e) / math.sqrt(size))
    for b in range(rows):
        for h in range(heads):
            for j in range(length):
                key, value = qkv[b, j, 1, h], qkv[b, j, 2, h]
                for d in range(half):
                    keys[d, j] = key[d] * cos[j, d] + key[d + half] * sin[j, d]
                    keys[d + half, j] = key[d + half] * cos[j, d] - key[d] * sin[j, d]
                for d in range(size):
                    values[d, j] = value[d]
            for first in range(0, length, TOGETHER):
                count = min(TOGETHER, length - first)
                for r in range(count):
                    query, i = qkv[b, first + r, 0, h], first + r
                    for d in range(half):
                        queries[r, d] = scale * (query[d] * cos[i, d] + query[d + half] * sin[i, d])
                        queries[r, d + half] = scale * (query[d + half] * cos[i, d] - query[d] * sin[i, d])
                _score(queries.reshape(-1), keys.reshape(-1), weights.reshape(-1), tops.reshape(-1), wide, stride)
                for r in range(count):
                    top = tops[r].max() if stride == length else weights[r, :length].max()  # padded scores are 0
                    totals[r] = _raise(weights[r], length, top, powers, powers.view(np.float32))
                _mix(weights, length, values, mixed)
                for r in range(count):
                    for d in range(size):
                        out[b, first + r, h, d] = mixed[r, d] / totals[r]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _read_on(qkv, cos, sin, kept, place, out):  # type: ignore[no-untyped-def]
    rows, _, heads, size = qkv.shape
    half, count = size // 2, place + 1
    weights, powers, query = np.empty(count, np.float32), np.empty(count, np.int32), np.empty(size, np.float32)
    scale = float32(math.log2(math.e) / math.sqrt(size))
    for b in range(rows):
        for h in range(heads):
            asks, key, keys, values = qkv[b, 0, h], qkv[b, 1, h], kept[0, b, h], kept[1, b, h]
            for d in range(half):
                query[d] = scale * (asks[d] * cos[d] + asks[d + half] * sin[d])
                query[d + half] = scale * (asks[d + half] * cos[d] - asks[d] * sin[d])
                keys[d, place] = key[d] * cos[d] + key[d + half] * sin[d]
                keys[d + half, place] = key[d + half] * cos[d] - key[d] * sin[d]
            for d in range(size):
                values[d, place] = qkv[b, 2, h, d]
            weights[:] = 0
            for d in range(0, size, 2):
                q0, q1, k0, k1 = query[d], query[d + 1], keys[d], keys[d + 1]
                for j in range(count):
                    weights[j] += q0 * k0[j] + q1 * k1[j]
            total = _raise(weights, count, weights.max(), powers, powers.view(np.float32))
            for d in range(0, size, 2):
                v0, v1, sum0, sum1 = values[d], values[d + 1], float32(0.0), float32(0.0)
                for j in range(count):
                    sum0 += weights[j] * v0[j]
                    sum1 += weights[j] * v1[j]
                out[b, h, d], out[b, h, d + 1] = sum0 / total, sum1 / total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _raise(scores, length, top, powers, as_floats):  # type: ignore[no-untyped-def]
    """2^(score - top) in place, and their sum: a polynomial of what is left of the nearest whole power."""
    for j in range(length):
        x = max(scores[j] - top, float32(LEAST))
        whole = int32(x - float32(0.5))
        rest = x - float32(whole)
        y = float32(1.5403530e-4)
        y = y * rest + float32(1.3333558e-3)
        y = y * rest + float32(9.6181291e-3)
        y = y * rest + float32(5.5504109e-2)
        y = y * rest + float32(2.4022651e-1)
        y = y * rest + float32(6.9314718e-1)
        scores[j] = y * rest + float32(1.0)
        powers[j] = int32(int32(whole + int32(127)) * int32(1 << 23))
    total = float32(0.0)
    for j in range(length):
        weight = scores[j] * as_floats[j]
        scores[j] = weight
        total += weight
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _mix(weights, length, values, mixed):  # type: ignore[no-untyped-def]
    """mixed[r, d] = sum_j weights[r, j] values[d, j], sixteen sums at a time."""
    w0, w1, w2, w3 = weights[0], weights[1], weights[2], weights[3]
    for d in range(0, len(values), 4):
        v0, v1, v2, v3 = values[d], values[d + 1], values[d + 2], values[d + 3]
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = float32(0.0)
        c0 = c1 = c2 = c3 = e0 = e1 = e2 = e3 = float32(0.0)
        for j in range(length):
            p, q, s, t = w0[j], w1[j], w2[j], w3[j]
            v = v0[j]
            a0, b0, c0, e0 = a0 + p * v, b0 + q * v, c0 + s * v, e0 + t * v
            v = v1[j]
            a1, b1, c1, e1 = a1 + p * v, b1 + q * v, c1 + s * v, e1 + t * v
            v = v2[j]
            a2, b2, c2, e2 = a2 + p * v, b2 + q * v, c2 + s * v, e2 + t * v
            v = v3[j]
            a3, b3, c3, e3 = a3 + p * v, b3 + q * v, c3 + s * v, e3 + t * v
        mixed[0, d], mixed[0, d + 1], mixed[0, d + 2], mixed[0, d + 3] = a0, a1, a2, a3
        mixed[1, d], mixed[1, d + 1], mixed[1, d + 2], mixed[1, d + 3] = b0, b1, b2, b3
        mixed[2, d], mixed[2, d + 1], mixed[2, d + 2], mixed[2, d + 3] = c0, c1, c2, c3
        mixed[3, d], mixed[3, d + 1], mixed[3, d + 2], mixed[3, d + 3] = e0, e1, e2, e3


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def _score(typing: Any, queries: Any, keys: Any, scores: Any, tops: Any, wide: Any, stride: Any) -> Any:
    """scores[r, j] = sum_d queries[r, d] keys[d, j] for all columns j < stride, and the greatest of each lane in tops.

    Flat arrays. As LLVM vectors: numba cannot know that none of these arrays overlap, and would take one at a time.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = [
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip(signature.args[:4], arguments[:4], strict=True)
        ]
        queries, keys, scores, tops = where
        wide, stride = arguments[4:]
        whole = wide.type

        def vector(base: Any, at: Any) -> Any:
            return builder.bitcast(builder.gep(base, [at]), VECTOR.as_pointer())

        def number(value: int) -> Any:
            return ir.Constant(whole, value)

        greatest = [cgutils.alloca_once(builder, VECTOR) for _ in range(TOGETHER)]
        for top in greatest:
            builder.store(ir.Constant(VECTOR, [-math.inf] * LANES), top)
        sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(COLUMNS // LANES)] for _ in range(TOGETHER)]
        with cgutils.for_range_slice(builder, number(0), stride, number(COLUMNS), inc=True) as (column, _):
            for sum_ in (one for mine in sums for one in mine):
                builder.store(ir.Constant(VECTOR, [0.0] * LANES), sum_)
            with cgutils.for_range_slice(builder, number(0), wide, number(1), inc=True) as (d, _):
                at = builder.add(builder.mul(d, stride), column)
                some = [
                    builder.load(vector(keys, builder.add(at, number(LANES * part))), align=4)
                    for part in range(COLUMNS // LANES)
                ]
                for r, mine in enumerate(sums):
                    place = builder.add(builder.mul(number(r), wide), d)
                    query = _splat(builder, builder.load(builder.gep(queries, [place])))
                    for sum_, key in zip(mine, some, strict=True):
                        product = builder.fmul(query, key, flags=("contract",))
                        builder.store(builder.fadd(builder.load(sum_), product, flags=("contract",)), sum_)
            for r, (mine, top) in enumerate(zip(sums, greatest, strict=True)):
                for part, sum_ in enumerate(mine):
                    found = builder.load(sum_)
                    at = builder.add(builder.mul(number(r), stride), column)
                    builder.store(found, vector(scores, builder.add(at, number(LANES * part))), align=4)
                    more = builder.fcmp_ordered(">", found, builder.load(top))
                    builder.store(builder.select(more, found, builder.load(top)), top)
        for r, top in enumerate(greatest):
            builder.store(builder.load(top), vector(tops, number(LANES * r)), align=4)
        return context.get_dummy_value()

    return types.void(queries, keys, scores, tops, types.int64, types.int64), generate


def _splat(builder: Any, value: Any) -> Any:
    undefined = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
