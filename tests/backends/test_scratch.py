"""Buffers are reused, have the shape that was asked for, and do not overlap across names."""

from __future__ import annotations

import numpy as np

from lkge.backends.numba.jit import Scratch


def test_a_buffer_has_the_shape_asked_for() -> None:
    taken = Scratch().take("rows", 3, 2, 5)
    assert taken.shape == (3, 2, 5)
    assert taken.dtype == np.float32
    assert taken.flags.c_contiguous
    assert Scratch().take("none", 0, 5).shape == (0, 5)


def test_a_name_keeps_its_memory_until_it_needs_more() -> None:
    scratch = Scratch()
    large = scratch.take("rows", 4, 6)
    assert np.shares_memory(large, scratch.take("rows", 5, 2))
    assert np.shares_memory(large, scratch.take("rows", 24))
    assert not np.shares_memory(large, scratch.take("rows", 5, 6))


def test_names_do_not_share_memory() -> None:
    scratch = Scratch()
    assert not np.shares_memory(scratch.take("a", 10), scratch.take("b", 10))
