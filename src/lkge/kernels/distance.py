"""Distances of two rows; L1 in vectors of eight to the last whole one."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from lkge.kernels.jit import inlined

Floats = NDArray[np.float32]

LANES, SUMS = 8, 4
"""Coordinates of a vector, and sums that are kept apart so that none waits for another."""


@intrinsic
def _vector_l1(typing_context: Any, x: Any, y: Any, vectors: Any) -> Any:
    """Σ |x - y| over `vectors` groups of eight float32 at two addresses."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.FloatType(), LANES)
        word = ir.IntType(64)
        absolute = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector]), f"llvm.fabs.v{LANES}f32"
        )
        left, right = (builder.inttoptr(a, vector.as_pointer()) for a in arguments[:2])
        zero = ir.Constant(vector, [0.0] * LANES)
        totals = [cgutils.alloca_once_value(builder, zero) for _ in range(SUMS)]

        def add(place: Any, total: Any) -> None:
            mine, theirs = (builder.load(builder.gep(p, [place]), align=4) for p in (left, right))
            part = builder.call(absolute, [builder.fsub(mine, theirs)])
            builder.store(builder.fadd(builder.load(total), part), total)

        fours = builder.sdiv(arguments[2], ir.Constant(word, SUMS))
        with cgutils.for_range(builder, fours) as loop:
            first = builder.mul(loop.index, ir.Constant(word, SUMS))
            for k, total in enumerate(totals):
                add(builder.add(first, ir.Constant(word, k)), total)
        done = builder.mul(fours, ir.Constant(word, SUMS))
        with cgutils.for_range(builder, builder.sub(arguments[2], done)) as loop:
            add(builder.add(done, loop.index), totals[0])
        one, two, three, four = (builder.load(total) for total in totals)
        whole = builder.fadd(builder.fadd(one, two), builder.fadd(three, four))
        return _lanes_sum(builder, whole)

    return types.float32(types.uintp, types.uintp, types.intp), generate


def _lanes_sum(builder: Any, vector: Any) -> Any:
    """The sum of all lanes, halves upon halves."""
    width = LANES
    while width > 1:
        width //= 2
        places = [k % width + width for k in range(LANES)]
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), places)
        undefined = ir.Constant(vector.type, ir.Undefined)
        vector = builder.fadd(vector, builder.shuffle_vector(vector, undefined, mask))
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


@inlined
def l1(x: Floats, a: int, y: Floats, b: int) -> np.float32:
    """‖x[a] - y[b]‖₁ for C-contiguous matrices of one width. The order of the sum depends on the
    width alone, so that equal rows are equally far wherever this is compiled."""
    width = x.shape[1]
    left = np.uintp(x.ctypes.data) + np.uintp(4 * a * width)
    right = np.uintp(y.ctypes.data) + np.uintp(4 * b * width)
    total = _vector_l1(left, right, width // LANES)
    for i in range(width // LANES * LANES, width):
        total += abs(x[a, i] - y[b, i])
    return total  # type: ignore[no-any-return]


@inlined
def moduli(x: Floats, y: Floats) -> np.float32:
    """Σ |x - y| over complex coordinates; rows (d,) of real parts, then imaginary parts."""
    half = len(x) // 2
    real, imaginary, other_real, other_imaginary = x[:half], x[half:], y[:half], y[half:]
    total = np.float32(0)
    for i in range(half):
        across, along = real[i] - other_real[i], imaginary[i] - other_imaginary[i]
        total += np.sqrt(across * across + along * along)
    return total
