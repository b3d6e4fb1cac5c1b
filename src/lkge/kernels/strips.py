"""How many of a strip of integers lie below two limits, eight comparisons at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from lkge.kernels.jit import inlined

STRIP = 32
"""Integers that are counted together."""

LANES = 8


@intrinsic
def _counts(typing_context: Any, place: Any, first: Any, second: Any) -> Any:
    """Counts of the integers at address `place` that are less than `first`, and than `second`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        words = ir.VectorType(word, LANES)
        values = builder.inttoptr(arguments[0], words.as_pointer())
        counts = [ir.Constant(words, [0] * LANES)] * 2
        limits = [_spread(builder, limit, words) for limit in arguments[1:]]
        for k in range(STRIP // LANES):
            value = builder.load(builder.gep(values, [ir.Constant(word, k)]), align=4)
            for side, limit in enumerate(limits):
                below = builder.sext(builder.icmp_signed("<", value, limit), words)
                counts[side] = builder.sub(counts[side], below)
        totals = [_total(builder, count) for count in counts]
        return context.make_tuple(builder, signature.return_type, totals)

    pair = types.UniTuple(types.int32, 2)
    return pair(types.uintp, types.int32, types.int32), generate


def _spread(builder: Any, value: Any, words: Any) -> Any:
    """A vector with the value in every lane."""
    zero = ir.Constant(ir.IntType(32), 0)
    one = builder.insert_element(ir.Constant(words, ir.Undefined), value, zero)
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(words, ir.Undefined), mask)


def _total(builder: Any, vector: Any) -> Any:
    """The sum of all lanes."""
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.IntType(32), [vector.type]),
        f"llvm.vector.reduce.add.v{LANES}i32",
    )
    return builder.call(function, [vector])


@inlined
def count_below(
    values: NDArray[np.int32], row: int, column: int, first: int, second: int
) -> tuple[int, int]:
    """How many of the `STRIP` values from `values[row, column]` are below `first`, and `second`."""
    place = np.uintp(values.ctypes.data) + np.uintp(4 * (row * values.shape[1] + column))
    return _counts(place, np.int32(first), np.int32(second))  # type: ignore[no-any-return]
