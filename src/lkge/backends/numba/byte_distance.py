"""Σ |x - y| over bytes, by one vector instruction where the processor has it and by a loop
elsewhere; and vectorised counting of integers below two limits."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from lkge.backends.numba.distance import spread
from lkge.backends.numba.jit import inlined

LANES = 32
"""Rows of bytes are padded to a multiple of this."""

ROWS = 4
"""Rows that are measured together; matrices are padded to a multiple of this many."""

STRIP = 32
"""Integers that are counted together."""

WORDS = 8
"""Integers of a vector."""

HAS_VECTOR_SUM = bool(
    binding.get_default_triple().startswith("x86_64")
    and binding.get_host_cpu_features().get("avx2")
)

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]


@intrinsic
def _vector_sums(typing_context: Any, x: Any, y: Any, vectors: Any, out: Any) -> Any:
    """out[k] = Σ |x - y_k| for the four rows that follow one another at the address `y`, each as
    long as the row at `x`: so many `vectors` of 32 bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bytes32, words4 = ir.VectorType(ir.IntType(8), LANES), ir.VectorType(ir.IntType(64), 4)
        difference = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(words4, [bytes32, bytes32]), "llvm.x86.avx2.psad.bw"
        )
        left, right = (builder.inttoptr(a, bytes32.as_pointer()) for a in arguments[:2])
        starts = [builder.mul(arguments[2], ir.Constant(ir.IntType(64), k)) for k in range(ROWS)]
        rows = [builder.gep(right, [start]) for start in starts]
        zero = ir.Constant(words4, [0] * 4)
        totals = [cgutils.alloca_once_value(builder, zero) for _ in rows]
        with cgutils.for_range(builder, arguments[2]) as loop:
            mine = builder.load(builder.gep(left, [loop.index]), align=1)
            for row, total in zip(rows, totals, strict=True):
                theirs = builder.load(builder.gep(row, [loop.index]), align=1)
                part = builder.call(difference, [mine, theirs])
                builder.store(builder.add(builder.load(total), part), total)
        sums = _transposed_sums(builder, [builder.load(total) for total in totals])
        narrow = builder.trunc(sums, ir.VectorType(ir.IntType(32), ROWS))
        builder.store(narrow, builder.inttoptr(arguments[3], narrow.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.intp, types.uintp), generate


def _transposed_sums(builder: Any, vectors: Any) -> Any:
    """The sums of four vectors of four words, as one vector."""

    def shuffled(one: Any, other: Any, places: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(ir.IntType(32), 4), places)
        return builder.shuffle_vector(one, other, mask)

    def halves(one: Any, other: Any) -> Any:
        return builder.add(shuffled(one, other, [0, 4, 2, 6]), shuffled(one, other, [1, 5, 3, 7]))

    first, second = halves(vectors[0], vectors[1]), halves(vectors[2], vectors[3])
    return builder.add(shuffled(first, second, [0, 1, 4, 5]), shuffled(first, second, [2, 3, 6, 7]))


@inlined
def vector_distances(x: Bytes, b: int, y: Bytes, c: int, out: Ints, row: int, column: int) -> None:
    """out[row, column + k] = Σ |x[b] - y[c + k]| for k < `ROWS`.

    All are C-contiguous; the width of x and y is a multiple of `LANES`.
    """
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


@intrinsic
def _counts(typing_context: Any, place: Any, first: Any, second: Any) -> Any:
    """Counts of the integers at address `place` that are less than `first`, and than `second`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        words = ir.VectorType(word, WORDS)
        values = builder.inttoptr(arguments[0], words.as_pointer())
        counts = [ir.Constant(words, [0] * WORDS)] * 2
        limits = [spread(builder, limit, words) for limit in arguments[1:]]
        for k in range(STRIP // WORDS):
            value = builder.load(builder.gep(values, [ir.Constant(word, k)]), align=4)
            for side, limit in enumerate(limits):
                below = builder.sext(builder.icmp_signed("<", value, limit), words)
                counts[side] = builder.sub(counts[side], below)
        totals = [_total(builder, count) for count in counts]
        return context.make_tuple(builder, signature.return_type, totals)

    pair = types.UniTuple(types.int32, 2)
    return pair(types.uintp, types.int32, types.int32), generate


def _total(builder: Any, vector: Any) -> Any:
    """The sum of all lanes."""
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.IntType(32), [vector.type]),
        f"llvm.vector.reduce.add.v{WORDS}i32",
    )
    return builder.call(function, [vector])


@inlined
def count_below(
    values: NDArray[np.int32], row: int, column: int, first: int, second: int
) -> tuple[int, int]:
    """How many of the `STRIP` values from `values[row, column]` are below `first`, and `second`."""
    place = np.uintp(values.ctypes.data) + np.uintp(4 * (row * values.shape[1] + column))
    return _counts(place, np.int32(first), np.int32(second))  # type: ignore[no-any-return]
