"""Eight numbers at a time: the vector operations that numba's own loops do not reach, as LLVM vectors.

A message times a transition matrix is the one hot operation of the exact kernels. LLVM maps <8 x double> to whatever
the processor has, so that this runs everywhere and costs one multiplication a lane where it is wide enough.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 8
TILE = 4  # vectors of accumulators: 32 columns at a time hide the latency of a multiplication
DOUBLE = ir.DoubleType()
VECTOR = ir.VectorType(DOUBLE, LANES)
ZERO = ir.Constant(VECTOR, [0.0] * LANES)
ONES = ir.Constant(VECTOR, [1.0] * LANES)
INDEX = partial(ir.Constant, ir.IntType(64))
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


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def weigh_lanes(typing: Any, out: Any, values: Any, columns: Any, offsets: Any, states: Any, totals: Any) -> Any:
    """out[8 s + k] = values[8 s + k] * columns[offsets[k] + s] for s < states; totals[k] = their sum over s."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, values, columns, offsets, states, totals = arguments
        begins = _offsets(context, builder, signature.args[3], offsets)
        total = cgutils.alloca_once(builder, VECTOR)
        builder.store(ZERO, total)
        with _eights(builder, states) as first:
            weights = _load_rows(context, builder, signature.args[2], columns, begins, first)
            for k, weight in enumerate(weights):
                at = _lane_vector(builder, first, k)
                value = builder.load(_pointer(context, builder, signature.args[1], values, at), align=8)
                mass = builder.fmul(value, weight)
                builder.store(mass, _pointer(context, builder, signature.args[0], out, at), align=8)
                builder.store(builder.fadd(builder.load(total), mass), total)
        builder.store(builder.load(total), _pointer(context, builder, signature.args[5], totals, INDEX(0)), align=8)
        return context.get_dummy_value()

    return types.void(out, values, columns, offsets, types.uint64, totals), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def gather_lanes(
    typing: Any, out: Any, start: Any, which: Any, weights: Any, values: Any, states: Any, totals: Any
) -> Any:
    """out[8 t + k] = sum_e weights[e] values[8 which[e] + k], start[t] <= e < start[t+1]; totals[k] = their sum over t.

    The totals are summed up in the order of `sum_of_eighths`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, start, which, weights, values, states, totals = arguments
        start_of, which_of, weight_of = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip(signature.args[1:4], (start, which, weights), strict=True)
        )
        mass = cgutils.alloca_once(builder, VECTOR)
        eighths = [cgutils.alloca_once(builder, VECTOR) for _ in range(LANES)]
        for eighth in eighths:
            builder.store(ZERO, eighth)
        with _eights(builder, states) as first:
            for k, eighth in enumerate(eighths):
                t = builder.add(first, INDEX(k))
                builder.store(ZERO, mass)
                begin = builder.load(builder.gep(start_of, [t]))
                end = builder.load(builder.gep(start_of, [builder.add(t, INDEX(1))]))
                with cgutils.for_range_slice(builder, begin, end, INDEX(1), inc=True) as (e, _):
                    at = builder.mul(builder.load(builder.gep(which_of, [e])), INDEX(LANES))
                    value = builder.load(_pointer(context, builder, signature.args[4], values, at), align=8)
                    weight = _splat(builder, builder.load(builder.gep(weight_of, [e])))
                    builder.store(_multiply_add(builder, weight, value, builder.load(mass)), mass)
                at = _lane_vector(builder, first, k)
                builder.store(builder.load(mass), _pointer(context, builder, signature.args[0], out, at), align=8)
                builder.store(builder.fadd(builder.load(eighth), builder.load(mass)), eighth)
        total = _in_pairs(builder, [builder.load(eighth) for eighth in eighths])
        builder.store(total, _pointer(context, builder, signature.args[6], totals, INDEX(0)), align=8)
        return context.get_dummy_value()

    return types.void(out, start, which, weights, values, types.uint64, totals), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def settle_lanes(
    typing: Any,
    values: Any,
    scales: Any,
    messages: Any,
    offsets: Any,
    states: Any,
    floor: Any,
    tolerance: Any,
    moved: Any,
) -> Any:
    """values[8 s + k] *= scales[k], lifted to the floor where positive, and kept as messages[offsets[k] + s].

    moved[k]: how many were further from what stood there than tolerance allows.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, scales, messages, offsets, states, floor, tolerance, moved = arguments
        begins = _offsets(context, builder, signature.args[3], offsets)
        scale = builder.load(_pointer(context, builder, signature.args[1], scales, INDEX(0)), align=8)
        least, allowed = _splat(builder, floor), _splat(builder, tolerance)
        absolute = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(VECTOR, [VECTOR]), f"llvm.fabs.v{LANES}f64"
        )
        count = cgutils.alloca_once(builder, VECTOR)
        builder.store(ZERO, count)
        with _eights(builder, states) as first:
            news = []
            olds = _load_rows(context, builder, signature.args[2], messages, begins, first)
            for k, old in enumerate(olds):
                at = _pointer(context, builder, signature.args[0], values, _lane_vector(builder, first, k))
                value = builder.load(at, align=8)
                new = builder.fmul(value, scale)
                new = builder.select(builder.fcmp_ordered(">", new, least), new, least)
                new = builder.select(builder.fcmp_ordered(">", value, ZERO), new, ZERO)
                builder.store(new, at, align=8)
                change = builder.call(absolute, [builder.fsub(new, old)])
                far = builder.fcmp_ordered(">", change, builder.fmul(old, allowed))
                builder.store(builder.fadd(builder.load(count), builder.select(far, ONES, ZERO)), count)
                news.append(new)
            for begin, new in zip(begins, _transpose(builder, news), strict=True):
                place = _pointer(context, builder, signature.args[2], messages, builder.add(begin, first))
                builder.store(new, place, align=8)
        builder.store(builder.load(count), _pointer(context, builder, signature.args[7], moved, INDEX(0)), align=8)
        return context.get_dummy_value()

    index, number = types.uint64, types.float64
    return types.void(values, scales, messages, offsets, index, number, number, moved), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def sum_of_eighths(typing: Any, values: Any, count: Any) -> Any:
    """The sum of values[: count], a multiple of eight: of every eighth, and these in pairs."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, count = arguments
        eighths = cgutils.alloca_once(builder, VECTOR)
        builder.store(ZERO, eighths)
        with _eights(builder, count) as first:
            value = builder.load(_pointer(context, builder, signature.args[0], values, first), align=8)
            builder.store(builder.fadd(builder.load(eighths), value), eighths)
        whole = builder.load(eighths)
        return _in_pairs(
            builder, [builder.extract_element(whole, ir.Constant(ir.IntType(32), k)) for k in range(LANES)]
        )

    return types.float64(values, types.uint64), generate


def _in_pairs(builder: Any, parts: list[Any]) -> Any:
    while len(parts) > 1:
        parts = [builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


@contextmanager
def _eights(builder: Any, count: Any) -> Iterator[Any]:
    """A loop over 0, 8, 16 .. below count, which is a multiple of eight."""
    with cgutils.for_range(builder, builder.udiv(count, INDEX(LANES))) as loop:
        yield builder.mul(loop.index, INDEX(LANES))


def _offsets(context: Any, builder: Any, kind: Any, offsets: Any) -> list[Any]:
    data = context.make_array(kind)(context, builder, offsets).data
    return [builder.load(builder.gep(data, [INDEX(k)])) for k in range(LANES)]


def _lane_vector(builder: Any, first: Any, k: int) -> Any:
    """Where the eight lanes of state first + k begin."""
    return builder.mul(builder.add(first, INDEX(k)), INDEX(LANES))


def _load_rows(context: Any, builder: Any, kind: Any, array: Any, begins: list[Any], first: Any) -> list[Any]:
    """For k < 8 the vector of array[begins[lane] + first + k] over the lanes."""
    rows = [_pointer(context, builder, kind, array, builder.add(begin, first)) for begin in begins]
    return _transpose(builder, [builder.load(row, align=8) for row in rows])


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Eight vectors of eight, turned: halves, quarters and eighths are exchanged between partners."""
    for width in (1, 2, 4):
        low = [index for start in range(0, LANES, 2 * width) for index in _both(start, width)]
        high = [index + width for index in low]
        partners = [(k, k + width) for k in range(LANES) if not k & width]
        for a, b in partners:
            rows[a], rows[b] = _shuffle(builder, rows[a], rows[b], low), _shuffle(builder, rows[a], rows[b], high)
    return rows


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


class Lanes(types.Type):  # type: ignore[misc, unused-ignore]
    """The type of a variable of a kernel that holds eight numbers, one a row: each lane is computed for itself."""

    def __init__(self) -> None:
        super().__init__("Lanes")


EIGHT = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc, unused-ignore]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _define(operation: Any, instruction: str) -> None:
    @infer_global(operation)
    class _(ConcreteTemplate):  # type: ignore[misc, unused-ignore]
        cases = (signature(EIGHT, EIGHT, EIGHT),)

    @lower_builtin(operation, Lanes, Lanes)  # type: ignore[untyped-decorator, unused-ignore]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments, flags=CONTRACT)


for _operation, _instruction in (
    (operator.add, "fadd"),
    (operator.iadd, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define(_operation, _instruction)


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def splat(typing: Any, scalar: Any) -> Any:
    """The same number in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _splat(builder, arguments[0])

    return EIGHT(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def load(typing: Any, values: Any, at: Any) -> Any:
    """values[at : at+8] of a flat array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, signature.args[0], *arguments), align=8)

    return EIGHT(values, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def store(typing: Any, values: Any, at: Any, lanes: Any) -> Any:
    """values[at : at+8] = lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, at, lanes = arguments
        builder.store(lanes, _pointer(context, builder, signature.args[0], values, at), align=8)
        return context.get_dummy_value()

    return types.void(values, types.uint64, EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def load_offsets(typing: Any, values: Any, at: Any) -> Any:
    """values[at : at+8] of unsigned integers, as a tuple that stays in registers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        places = [builder.add(arguments[1], ir.Constant(arguments[1].type, lane)) for lane in range(LANES)]
        numbers = [builder.load(builder.gep(data, [place])) for place in places]
        return context.make_tuple(builder, signature.return_type, numbers)

    return types.UniTuple(types.uint64, LANES)(values, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def gather(typing: Any, values: Any, begins: Any, at: Any) -> Any:
    """values[begins[r] + at] in lane r. Eight loads: a processor's own gather is no faster."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, begins, at = arguments
        data = context.make_array(signature.args[0])(context, builder, values).data
        lanes = ir.Constant(VECTOR, ir.Undefined)
        for r, begin in enumerate(cgutils.unpack_tuple(builder, begins)):
            number = builder.load(builder.gep(builder.gep(data, [begin]), [at]))
            lanes = builder.insert_element(lanes, number, ir.Constant(ir.IntType(32), r))
        return lanes

    return EIGHT(values, begins, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def where_positive(typing: Any, test: Any, yes: Any, no: Any) -> Any:
    """yes in the lanes where test > 0, no in the others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        test, yes, no = arguments
        return builder.select(builder.fcmp_ordered(">", test, ZERO), yes, no)

    return EIGHT(EIGHT, EIGHT, EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def all_positive(typing: Any, test: Any) -> Any:
    """Whether test > 0 in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(builder.fcmp_ordered(">", arguments[0], ZERO), ir.IntType(LANES))
        return builder.icmp_unsigned("==", bits, ir.Constant(bits.type, 2**LANES - 1))

    return types.boolean(EIGHT), generate
