"""Σ |x - y| over bytes, by one vector instruction where the processor has it and by a loop
elsewhere; and counting of integers below two limits."""

from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from lkge.backends.numba.jit import inlined
from lkge.data.array_types import Bytes, Ints

LANES = 32
"""Rows of bytes are padded to a multiple of this."""
ROWS = 4
"""Rows that are measured together; matrices are padded to a multiple of this many."""
STRIP = 32
"""Integers that are counted together."""

HAS_VECTOR_SUM = bool(
    binding.get_default_triple().startswith("x86_64")
    and binding.get_host_cpu_features().get("avx2")
)


@intrinsic
def _vector_sums(typing_context: Any, x: Any, y: Any, vectors: Any, out: Any) -> Any:
    """out[k] = Σ |x - y_k| for the four rows that follow one another at the address `y`, each as
    long as the row at `x`: so many `vectors` of 32 bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        bytes32, words4 = ir.VectorType(ir.IntType(8), LANES), ir.VectorType(word, 4)
        difference = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(words4, [bytes32, bytes32]), "llvm.x86.avx2.psad.bw"
        )
        lanes_sum = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(word, [words4]), "llvm.vector.reduce.add.v4i64"
        )
        left, right = (builder.inttoptr(a, bytes32.as_pointer()) for a in arguments[:2])
        starts = [builder.mul(arguments[2], ir.Constant(word, k)) for k in range(ROWS)]
        rows = [builder.gep(right, [start]) for start in starts]
        totals = [cgutils.alloca_once_value(builder, ir.Constant(words4, [0] * 4)) for _ in rows]
        with cgutils.for_range(builder, arguments[2]) as loop:
            mine = builder.load(builder.gep(left, [loop.index]), align=1)
            for row, total in zip(rows, totals, strict=True):
                theirs = builder.load(builder.gep(row, [loop.index]), align=1)
                part = builder.call(difference, [mine, theirs])
                builder.store(builder.add(builder.load(total), part), total)
        place = builder.inttoptr(arguments[3], ir.IntType(32).as_pointer())
        for k, total in enumerate(totals):
            distance = builder.trunc(builder.call(lanes_sum, [builder.load(total)]), ir.IntType(32))
            builder.store(distance, builder.gep(place, [ir.Constant(word, k)]), align=4)
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.intp, types.uintp), generate


@inlined
def vector_distances(x: Bytes, b: int, y: Bytes, c: int, out: Ints, row: int, column: int) -> None:
    """out[row, column + k] = Σ |x[b] - y[c + k]| for k < `ROWS`. All are C-contiguous; the width of
    x and y is a multiple of `LANES`."""
    width = x.shape[1]
    left = np.uintp(x.ctypes.data) + np.uintp(b * width)
    right = np.uintp(y.ctypes.data) + np.uintp(c * width)
    place = np.uintp(out.ctypes.data) + np.uintp(4 * (row * out.shape[1] + column))
    _vector_sums(left, right, width // LANES, place)


@inlined
def loop_distances(x: Bytes, b: int, y: Bytes, c: int, out: Ints, row: int, column: int) -> None:
    """The twin of `vector_distances` for any processor."""
    for k in range(ROWS):
        total = np.int32(0)
        for i in range(x.shape[1]):
            total += abs(np.int32(x[b, i]) - np.int32(y[c + k, i]))
        out[row, column + k] = total


byte_distances = vector_distances if HAS_VECTOR_SUM else loop_distances


@inlined
def count_below(values: Ints, row: int, column: int, first: int, second: int) -> tuple[int, int]:
    """How many of the `STRIP` values from `values[row, column]` are below `first`, and `second`."""
    one, two = np.int32(first), np.int32(second)
    below_one, below_two = np.int32(0), np.int32(0)
    for k in range(STRIP):
        value = values[row, column + np.uint64(k)]
        below_one += np.int32(value < one)
        below_two += np.int32(value < two)
    return int(below_one), int(below_two)
