"""Σ |x - y| over bytes: one vector instruction where the processor has it, a loop elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from lkge.kernels.jit import inlined

LANES = 32
"""Rows of bytes are padded to a multiple of this."""

HAS_VECTOR_SUM = bool(
    binding.get_default_triple().startswith("x86_64")
    and binding.get_host_cpu_features().get("avx2")
)


@intrinsic
def _vector_sum(typing_context: Any, x: Any, y: Any, vectors: Any) -> Any:
    """Σ |x - y| over `vectors` groups of 32 bytes at two addresses."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, word = ir.IntType(8), ir.IntType(64)
        bytes32, words4 = ir.VectorType(byte, LANES), ir.VectorType(word, 4)
        instruction = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(words4, [bytes32, bytes32]),
            "llvm.x86.avx2.psad.bw",
        )
        left, right = (builder.inttoptr(a, bytes32.as_pointer()) for a in arguments[:2])
        total = cgutils.alloca_once_value(builder, ir.Constant(words4, [0] * 4))
        with cgutils.for_range(builder, arguments[2]) as loop:
            pair = [builder.load(builder.gep(p, [loop.index]), align=1) for p in (left, right)]
            part = builder.call(instruction, pair)
            builder.store(builder.add(builder.load(total), part), total)
        sums = builder.load(total)
        lanes = [builder.extract_element(sums, ir.Constant(ir.IntType(32), i)) for i in range(4)]
        return builder.add(builder.add(lanes[0], lanes[1]), builder.add(lanes[2], lanes[3]))

    return types.int64(types.uintp, types.uintp, types.intp), generate


@inlined
def vector_distance(x: NDArray[np.uint8], b: int, y: NDArray[np.uint8], c: int) -> int:
    """Σ |x[b] - y[c]| for C-contiguous byte matrices whose width is a multiple of `LANES`."""
    width = x.shape[1]
    left = np.uintp(x.ctypes.data) + np.uintp(b * width)
    right = np.uintp(y.ctypes.data) + np.uintp(c * width)
    return _vector_sum(left, right, width // LANES)  # type: ignore[no-any-return]


@inlined
def loop_distance(x: NDArray[np.uint8], b: int, y: NDArray[np.uint8], c: int) -> int:
    """The twin of `vector_distance` for any processor."""
    total = np.int32(0)
    for i in range(x.shape[1]):
        total += abs(np.int32(x[b, i]) - np.int32(y[c, i]))
    return int(total)


byte_distance = vector_distance if HAS_VECTOR_SUM else loop_distance
