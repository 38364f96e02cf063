"""Eight numbers at a time: the vector operations that numba's own loops do not reach, as LLVM vectors.

A message times a transition matrix is the one hot operation of the exact kernels. LLVM maps <8 x double> to whatever
the processor has, so that this runs everywhere and costs one multiplication a lane where it is wide enough.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
TILE = 4  # vectors of accumulators: 32 columns at a time hide the latency of a multiplication
DOUBLE = ir.DoubleType()
VECTOR = ir.VectorType(DOUBLE, LANES)
ZERO = ir.Constant(VECTOR, [0.0] * LANES)
CONTRACT = ("contract",)


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def add_scaled(typing: Any, out: Any, at: Any, scale: Any, weights: Any, begin: Any) -> Any:
    """out[at : at+8] += scale * weights[begin : begin+8], offsets in flat arrays."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, at, scale, weights, begin = arguments
        place = _pointer(context, builder, signature.args[0], out, at)
        weight = builder.load(_pointer(context, builder, signature.args[3], weights, begin), align=8)
        sum_ = _multiply_add(builder, _splat(builder, scale), weight, builder.load(place, align=8))
        builder.store(sum_, place, align=8)
        return context.get_dummy_value()

    return types.void(out, types.uint64, types.float64, weights, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def add_gathered(typing: Any, out: Any, at: Any, scales: Any, which: Any, weights: Any, begin: Any, end: Any) -> Any:
    """out[at : at+8] += sum_i scales[which[i]] * weights[8 i : 8 i + 8], begin <= i < end, summed up in a register."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, at, scales, which, weights, begin, end = arguments
        place = _pointer(context, builder, signature.args[0], out, at)
        total = cgutils.alloca_once(builder, VECTOR)
        builder.store(builder.load(place, align=8), total)
        scale_of = context.make_array(signature.args[2])(context, builder, scales).data
        which_of = context.make_array(signature.args[3])(context, builder, which).data
        with cgutils.for_range_slice(builder, begin, end, ir.Constant(begin.type, 1), inc=True) as (i, _):
            scale = _splat(builder, builder.load(builder.gep(scale_of, [builder.load(builder.gep(which_of, [i]))])))
            at_weight = builder.mul(i, ir.Constant(i.type, LANES))
            weight = builder.load(_pointer(context, builder, signature.args[4], weights, at_weight), align=8)
            builder.store(_multiply_add(builder, scale, weight, builder.load(total)), total)
        builder.store(builder.load(total), place, align=8)
        return context.get_dummy_value()

    index = types.uint64
    return types.void(out, index, scales, which, weights, index, index), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def inner(typing: Any, values: Any, at: Any, weights: Any, begin: Any) -> Any:
    """sum of values[at : at+8] * weights[begin : begin+8]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, at, weights, begin = arguments
        value = builder.load(_pointer(context, builder, signature.args[0], values, at), align=8)
        weight = builder.load(_pointer(context, builder, signature.args[2], weights, begin), align=8)
        kind = ir.FunctionType(DOUBLE, [DOUBLE, VECTOR])
        add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f64")
        return builder.call(add, [ir.Constant(DOUBLE, 0.0), builder.fmul(value, weight)], fastmath=("reassoc",))

    return types.float64(values, types.uint64, weights, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def eight_inner(typing: Any, out: Any, at: Any, values: Any, targets: Any, weights: Any, first: Any) -> Any:
    """out[at + k] = `inner` of run first + k, that is of values[targets[i] : +8] and weights[8 i : +8], for k < 8.

    Eight products are added up together: half as many additions, and a third of the shuffles, of eight sums alone.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, at, values, targets, weights, first = arguments
        target_of = context.make_array(signature.args[3])(context, builder, targets).data
        sums = []
        for k in range(LANES):
            i = builder.add(first, ir.Constant(first.type, k))
            target = builder.load(builder.gep(target_of, [i]))
            value = builder.load(_pointer(context, builder, signature.args[2], values, target), align=8)
            at_weight = builder.mul(i, ir.Constant(i.type, LANES))
            weight = builder.load(_pointer(context, builder, signature.args[4], weights, at_weight), align=8)
            sums.append(builder.fmul(value, weight))
        for width in (1, 2, 4):  # neighbours are paired: lane k of the last sum is that of run k
            low = [index for start in range(0, LANES, 2 * width) for index in _both(start, width)]
            high = [index + width for index in low]
            sums = [
                builder.fadd(_shuffle(builder, a, b, low), _shuffle(builder, a, b, high))
                for a, b in zip(sums[::2], sums[1::2], strict=True)
            ]
        builder.store(sums[0], _pointer(context, builder, signature.args[0], out, at), align=8)
        return context.get_dummy_value()

    index = types.uint64
    return types.void(out, index, values, targets, weights, index), generate


def _both(start: int, width: int) -> list[int]:
    """The lanes start : start + width of one vector, and the same of a second one."""
    return [*range(start, start + width), *range(LANES + start, LANES + start + width)]


def _shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), LANES), lanes))


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def multiply_tile(typing: Any, scales: Any, count: Any, matrix: Any, begin: Any, out: Any, column: Any) -> Any:
    """out[column : +32] = sum_s scales[s] * matrix[begin + s * count + column : +32], summed up in registers.

    scales holds count numbers and matrix count columns; offsets are in flat arrays.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scales, count, matrix, begin, out, column = arguments
        sums = [cgutils.alloca_once_value(builder, ZERO) for _ in range(TILE)]
        for register in sums:
            builder.store(ZERO, register)
        scale_of = context.make_array(signature.args[0])(context, builder, scales)
        start = builder.add(begin, column)
        with cgutils.for_range(builder, count) as loop:
            scale = _splat(builder, builder.load(builder.gep(scale_of.data, [loop.index])))
            row = builder.add(builder.mul(loop.index, count), start)
            for k, register in enumerate(sums):
                weight = builder.load(
                    _pointer(context, builder, signature.args[2], matrix, _shift(builder, row, k)), align=8
                )
                builder.store(_multiply_add(builder, scale, weight, builder.load(register)), register)
        for k, register in enumerate(sums):
            target = _pointer(context, builder, signature.args[4], out, _shift(builder, column, k))
            builder.store(builder.load(register), target, align=8)
        return context.get_dummy_value()

    index = types.uint64
    return types.void(scales, index, matrix, index, out, index), generate


def _shift(builder: Any, index: Any, vectors: int) -> Any:
    return builder.add(index, ir.Constant(index.type, LANES * vectors))


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), VECTOR.as_pointer())


def _splat(builder: Any, scalar: Any) -> Any:
    nothing = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.fadd(builder.fmul(a, b, flags=CONTRACT), c, flags=CONTRACT)
