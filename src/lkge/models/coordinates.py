"""Arithmetic of complex coordinates in real rows: the first half of a row (…, d) holds the real
parts, the second half the imaginary parts."""

from __future__ import annotations

import torch
from torch import Tensor

EPSILON = 1e-12


def product(x: Tensor, y: Tensor) -> Tensor:
    """x·y, coordinate by coordinate, (…, d)."""
    (a, b), (c, d) = x.chunk(2, dim=-1), y.chunk(2, dim=-1)
    return torch.cat([torch.addcmul(a * c, b, d, value=-1), torch.addcmul(a * d, b, c)], dim=-1)


def turned_back(x: Tensor, y: Tensor) -> Tensor:
    """x̄·y, coordinate by coordinate, (…, d)."""
    (a, b), (c, d) = x.chunk(2, dim=-1), y.chunk(2, dim=-1)
    return torch.cat([torch.addcmul(a * c, b, d), torch.addcmul(a * d, b, c, value=-1)], dim=-1)


def phases(x: Tensor) -> Tensor:
    """x / max(|x|, 1e-12), coordinate by coordinate, (…, d): all of modulus one."""
    sizes = absolutes(x).clamp(min=EPSILON)
    return x / torch.cat([sizes, sizes], dim=-1)


def moduli(x: Tensor, reals: int) -> Tensor:
    """|x| of each coordinate, (…, d / reals), where a coordinate is one real or two."""
    return absolutes(x) if reals == 2 else x.abs()


def absolutes(x: Tensor) -> Tensor:
    """|x| of each complex coordinate, (…, d / 2), many times as fast as a norm over two numbers.
    Below the root of the least number it is that root, and has no gradient."""
    real, imaginary = x.chunk(2, dim=-1)
    squares = real * real + imaginary * imaginary
    return squares.clamp(min=torch.finfo(x.dtype).tiny).sqrt()


def lengths(x: Tensor) -> Tensor:
    """‖x‖₂ of rows (…, d); where it is zero, so is its gradient."""
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return norms


def one(dim: int) -> Tensor:
    """1 in each coordinate, (d,)."""
    return torch.cat([torch.ones(dim // 2), torch.zeros(dim // 2)])
