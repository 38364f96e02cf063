"""Vectors of eight numbers, which kernels add, multiply and compare like numbers.

A message times a transition matrix is the only hot operation of the exact kernels, and numba's own loops do not fill
vectors there. LLVM maps <8 x double> to the instructions of the processor, so this runs everywhere, and takes one
multiplication for all lanes if the processor is wide enough. A product that is only added is rounded once, with the
sum.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 8
DOUBLE = ir.DoubleType()
VECTOR = ir.VectorType(DOUBLE, LANES)
ZERO = ir.Constant(VECTOR, [0.0] * LANES)
CONTRACT = ("contract",)


class Lanes(types.Type):  # type: ignore[misc, unused-ignore]
    """The type of a kernel variable with eight numbers, one per row; operations treat each lane separately."""

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
        nothing = ir.Constant(VECTOR, ir.Undefined)
        first = builder.insert_element(nothing, arguments[0], ir.Constant(ir.IntType(32), 0))
        return _shuffle(builder, first, nothing, [0] * LANES)

    return EIGHT(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def load(typing: Any, values: Any, at: Any) -> Any:
    """values[at : at+8] of a flat array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(context, builder, signature.args[0], *arguments)

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
        indices = [builder.add(arguments[1], ir.Constant(arguments[1].type, lane)) for lane in range(LANES)]
        numbers = [builder.load(builder.gep(data, [index])) for index in indices]
        return context.make_tuple(builder, signature.return_type, numbers)

    return types.UniTuple(types.uint64, LANES)(values, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def transposed(typing: Any, values: Any, begins: Any, at: Any) -> Any:
    """A tuple of eight vectors: values[begins[r] + at + k] in lane r of the k-th."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, begins, at = arguments
        places = [builder.add(begin, at) for begin in cgutils.unpack_tuple(builder, begins)]
        rows = [_load(context, builder, signature.args[0], values, index) for index in places]
        return context.make_tuple(builder, signature.return_type, _transpose(builder, rows))

    return types.UniTuple(EIGHT, LANES)(values, begins, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def where_greater(typing: Any, a: Any, b: Any, yes: Any, no: Any) -> Any:
    """yes in the lanes where a > b, no in the others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, b, yes, no = arguments
        return builder.select(builder.fcmp_ordered(">", a, b), yes, no)

    return EIGHT(EIGHT, EIGHT, EIGHT, EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def all_positive(typing: Any, test: Any) -> Any:
    """Whether test > 0 in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(builder.fcmp_ordered(">", arguments[0], ZERO), ir.IntType(LANES))
        return builder.icmp_unsigned("==", bits, ir.Constant(bits.type, 2**LANES - 1))

    return types.boolean(EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def distance(typing: Any, a: Any, b: Any) -> Any:
    """|a - b| in each lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(VECTOR, [VECTOR])
        absolute = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fabs.v{LANES}f64")
        return builder.call(absolute, [builder.fsub(*arguments)])

    return EIGHT(EIGHT, EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def sum_in_pairs(typing: Any, lanes: Any) -> Any:
    """The sum of the lanes: neighbours first, then these sums in pairs, and so on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = [builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), r)) for r in range(LANES)]
        while len(parts) > 1:
            parts = [builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return types.float64(EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def sum_in_any_order(typing: Any, lanes: Any) -> Any:
    """The sum of the lanes, in the order that LLVM chooses."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(DOUBLE, [DOUBLE, VECTOR])
        add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f64")
        return builder.call(add, [ir.Constant(DOUBLE, 0.0), arguments[0]], fastmath=("reassoc",))

    return types.float64(EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def sums_of_eight(typing: Any, eight: Any) -> Any:
    """`sum_in_pairs` of the k-th of eight vectors in lane k: half the additions and a third of the shuffles."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums = cgutils.unpack_tuple(builder, arguments[0])
        for width in (1, 2, 4):
            low, high = _partners(width)
            sums = [
                builder.fadd(_shuffle(builder, a, b, low), _shuffle(builder, a, b, high))
                for a, b in zip(sums[::2], sums[1::2], strict=True)
            ]
        return sums[0]

    return EIGHT(eight), generate


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), VECTOR.as_pointer())


def _load(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return builder.load(_pointer(context, builder, kind, array, index), align=8)


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose eight vectors of eight: partners exchange halves, quarters and eighths."""
    for width in (1, 2, 4):
        low, high = _partners(width)
        for a in (k for k in range(LANES) if not k & width):
            b = a + width
            rows[a], rows[b] = _shuffle(builder, rows[a], rows[b], low), _shuffle(builder, rows[a], rows[b], high)
    return rows


def _partners(width: int) -> tuple[list[int], list[int]]:
    """Indices for a shuffle of two vectors: the lanes without the bit `width`, and their partners with it."""
    starts = [begin + LANES * vector for begin in range(0, LANES, 2 * width) for vector in range(2)]
    low = [start + r for start in starts for r in range(width)]
    return low, [r + width for r in low]


def _shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), LANES), lanes))
