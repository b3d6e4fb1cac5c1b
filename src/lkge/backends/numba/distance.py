"""Sums over the coordinates of two rows, in vectors of eight to the last whole one; and the
distances of queries to all candidates.

The order of a sum is written down here and does not depend on what a compiler makes of it, so that
a result has the same bits wherever, whenever and into whatever it is compiled.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from lkge.backends.numba.jit import inlined, parallel, serial
from lkge.models.parameters import Floats

Term = Callable[[Any, Sequence[Any]], Any]

LANES, SUMS = 8, 4
"""Coordinates of a vector, and sums that are kept apart so that none waits for another."""

VECTOR = ir.VectorType(ir.FloatType(), LANES)
WIDE = ir.VectorType(ir.DoubleType(), LANES)
WORD = ir.IntType(64)

L1, L2, MODULI = range(3)
"""‖q - c‖₁, ‖q - c‖₂, and Σ |q - c| over complex coordinates."""


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


def _summed(
    builder: Any, addresses: Sequence[Any], vectors: Any, term: Term, is_wide: bool = False
) -> Any:
    """Σ term over `vectors` groups of eight float32 at some addresses; wide: in float64."""
    pointers = [builder.inttoptr(address, VECTOR.as_pointer()) for address in addresses]
    zero = ir.Constant(WIDE if is_wide else VECTOR, [0.0] * LANES)
    totals = [cgutils.alloca_once_value(builder, zero) for _ in range(SUMS)]

    def add(place: Any, total: Any) -> None:
        parts = [builder.load(builder.gep(pointer, [place]), align=4) for pointer in pointers]
        if is_wide:
            parts = [builder.fpext(part, WIDE) for part in parts]
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


def _sum_of(term: Term, parts: int, is_wide: bool = False) -> Any:
    """The intrinsic for `_summed` with as many addresses as the term has parts, two or four."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _summed(builder, arguments[:-1], arguments[-1], term, is_wide)

    result = types.float64 if is_wide else types.float32
    signature = result(*[types.uintp] * parts, types.intp)

    def of_two(typing_context: Any, x: Any, y: Any, vectors: Any) -> Any:
        return signature, generate

    def of_four(typing_context: Any, a: Any, b: Any, c: Any, d: Any, vectors: Any) -> Any:
        return signature, generate

    return intrinsic(of_two if parts == 2 else of_four)


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


_vector_l1 = _sum_of(_absolute_difference, 2)
_vector_squares = _sum_of(_squared_difference, 2)
_vector_dot = _sum_of(_product, 2)
_vector_wide_dot = _sum_of(_product, 2, is_wide=True)
_vector_moduli = _sum_of(_modulus_of_difference, 4)


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
def wide_dot(x: Floats, a: int, y: Floats, b: int) -> float:
    """x[a]·y[b] in float64, in which each product is exact, for C-contiguous matrices."""
    width = x.shape[1]
    total = _vector_wide_dot(_address(x, a, 0), _address(y, b, 0), width // LANES)
    for i in range(width // LANES * LANES, width):
        total += np.float64(x[a, i]) * np.float64(y[b, i])
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
    """target[a] += factor · x[b]."""
    for i in range(x.shape[1]):
        target[a, i] += factor * x[b, i]


@serial
def distances(kind: int, query: Floats, candidates: Floats) -> Floats:
    """The distance of a query (1, d) to each candidate (n, d), (n,); on one thread and without a
    lock, so that several queries can be answered at once."""
    found = np.empty(len(candidates), dtype=np.float32)
    for c in range(len(candidates)):
        if kind == L1:
            found[c] = l1(query, 0, candidates, c)
        elif kind == L2:
            found[c] = l2(query, 0, candidates, c)
        else:
            found[c] = moduli(query, 0, candidates, c)
    return found


@parallel
def all_distances(kind: int, queries: Floats, candidates: Floats) -> Floats:
    """`distances` of many queries (q, d), on all threads, (q, n)."""
    found = np.empty((len(queries), len(candidates)), dtype=np.float32)
    for q in prange(len(queries)):
        found[q] = distances(kind, queries[q : q + 1], candidates)
    return found
