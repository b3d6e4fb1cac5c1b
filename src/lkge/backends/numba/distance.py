"""Sums over the coordinates of two rows, and of rows, in vectors of eight to the last whole one.

Their order is written down here and does not depend on what a compiler makes of it, so that a
result has the same bits wherever, whenever and into whatever it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from lkge.backends.numba.jit import inlined

Floats = NDArray[np.float32]
Term = Callable[[Any, Sequence[Any]], Any]

LANES, SUMS = 8, 4
"""Coordinates of a vector, and sums that are kept apart so that none waits for another."""

VECTOR = ir.VectorType(ir.FloatType(), LANES)
WORD = ir.IntType(64)


def _absolute_difference(builder: Any, parts: Sequence[Any]) -> Any:
    """|x - y|."""
    return _call(builder, "fabs", builder.fsub(*parts))


def _squared_difference(builder: Any, parts: Sequence[Any]) -> Any:
    """(x - y)²."""
    apart = builder.fsub(*parts)
    return builder.fmul(apart, apart)


def _product(builder: Any, parts: Sequence[Any]) -> Any:
    """x·y."""
    return builder.fmul(*parts)


def _modulus_of_difference(builder: Any, parts: Sequence[Any]) -> Any:
    """|x - y| of complex coordinates; parts are the real and imaginary ones of x, then of y."""
    across, along = builder.fsub(parts[0], parts[2]), builder.fsub(parts[1], parts[3])
    square = builder.fadd(builder.fmul(across, across), builder.fmul(along, along))
    return _call(builder, "sqrt", square)


def _call(builder: Any, name: str, argument: Any) -> Any:
    kind = ir.FunctionType(VECTOR, [VECTOR])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32")
    return builder.call(function, [argument])


def _summed(builder: Any, addresses: Sequence[Any], vectors: Any, term: Term) -> Any:
    """Σ term over `vectors` groups of eight float32 at some addresses."""
    pointers = [builder.inttoptr(address, VECTOR.as_pointer()) for address in addresses]
    zero = ir.Constant(VECTOR, [0.0] * LANES)
    totals = [cgutils.alloca_once_value(builder, zero) for _ in range(SUMS)]

    def add(place: Any, total: Any) -> None:
        parts = [builder.load(builder.gep(pointer, [place]), align=4) for pointer in pointers]
        builder.store(builder.fadd(builder.load(total), term(builder, parts)), total)

    fours = builder.sdiv(vectors, ir.Constant(WORD, SUMS))
    with cgutils.for_range(builder, fours) as loop:
        first = builder.mul(loop.index, ir.Constant(WORD, SUMS))
        for k, total in enumerate(totals):
            add(builder.add(first, ir.Constant(WORD, k)), total)
    done = builder.mul(fours, ir.Constant(WORD, SUMS))
    with cgutils.for_range(builder, builder.sub(vectors, done)) as loop:
        add(builder.add(done, loop.index), totals[0])
    one, two, three, four = (builder.load(total) for total in totals)
    return _lanes_sum(builder, builder.fadd(builder.fadd(one, two), builder.fadd(three, four)))


def _sum_of_two(term: Term) -> Any:
    @intrinsic
    def sum_of_two(typing_context: Any, x: Any, y: Any, vectors: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _summed(builder, arguments[:2], arguments[2], term)

        return types.float32(types.uintp, types.uintp, types.intp), generate

    return sum_of_two


def _sum_of_four(term: Term) -> Any:
    @intrinsic
    def sum_of_four(typing_context: Any, a: Any, b: Any, c: Any, d: Any, vectors: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _summed(builder, arguments[:4], arguments[4], term)

        word = types.uintp
        return types.float32(word, word, word, word, types.intp), generate

    return sum_of_four


@intrinsic
def _vector_add_scaled(typing_context: Any, target: Any, x: Any, factor: Any, vectors: Any) -> Any:
    """target += factor · x on `vectors` groups of eight float32 at two addresses."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, source = (builder.inttoptr(place, VECTOR.as_pointer()) for place in arguments[:2])
        scale = spread(builder, arguments[2], VECTOR)
        with cgutils.for_range(builder, arguments[3]) as loop:
            place = builder.gep(to, [loop.index])
            more = builder.load(builder.gep(source, [loop.index]), align=4)
            before = builder.load(place, align=4)
            builder.store(builder.fadd(before, builder.fmul(scale, more)), place, align=4)
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.float32, types.intp), generate


def spread(builder: Any, value: Any, vector: Any) -> Any:
    """A vector of that type with the value in every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, undefined, mask)


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


_vector_l1 = _sum_of_two(_absolute_difference)
_vector_squares = _sum_of_two(_squared_difference)
_vector_dot = _sum_of_two(_product)
_vector_moduli = _sum_of_four(_modulus_of_difference)


@inlined
def _address(x: Floats, row: int, column: int) -> np.uintp:
    return np.uintp(x.ctypes.data) + np.uintp(4 * (row * x.shape[1] + column))


@inlined
def l1(x: Floats, a: int, y: Floats, b: int) -> np.float32:
    """‖x[a] - y[b]‖₁ for C-contiguous matrices of one width."""
    width = x.shape[1]
    total = _vector_l1(_address(x, a, 0), _address(y, b, 0), width // LANES)
    for i in range(width // LANES * LANES, width):
        total += abs(x[a, i] - y[b, i])
    return total  # type: ignore[no-any-return]


@inlined
def l2(x: Floats, a: int, y: Floats, b: int) -> np.float32:
    """‖x[a] - y[b]‖₂ for C-contiguous matrices of one width."""
    width = x.shape[1]
    total = _vector_squares(_address(x, a, 0), _address(y, b, 0), width // LANES)
    for i in range(width // LANES * LANES, width):
        apart = x[a, i] - y[b, i]
        total += apart * apart
    return np.sqrt(total)  # type: ignore[no-any-return]


@inlined
def dot(x: Floats, a: int, y: Floats, b: int) -> np.float32:
    """x[a]·y[b] for C-contiguous matrices of one width."""
    width = x.shape[1]
    total = _vector_dot(_address(x, a, 0), _address(y, b, 0), width // LANES)
    for i in range(width // LANES * LANES, width):
        total += x[a, i] * y[b, i]
    return total  # type: ignore[no-any-return]


@inlined
def moduli(x: Floats, a: int, y: Floats, b: int) -> np.float32:
    """Σ |x[a] - y[b]| over complex coordinates: real parts first, then imaginary ones."""
    half = x.shape[1] // 2
    total = _vector_moduli(
        _address(x, a, 0), _address(x, a, half), _address(y, b, 0), _address(y, b, half),
        half // LANES,
    )  # fmt: skip
    for i in range(half // LANES * LANES, half):
        across, along = x[a, i] - y[b, i], x[a, half + i] - y[b, half + i]
        total += np.sqrt(across * across + along * along)
    return total  # type: ignore[no-any-return]


@inlined
def add_scaled(target: Floats, a: int, factor: np.float32, x: Floats, b: int) -> None:
    """target[a] += factor · x[b] for C-contiguous matrices of one width."""
    width = x.shape[1]
    _vector_add_scaled(_address(target, a, 0), _address(x, b, 0), factor, width // LANES)
    for i in range(width // LANES * LANES, width):
        target[a, i] += factor * x[b, i]
