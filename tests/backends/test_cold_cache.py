"""Kernels give the same bits when they are compiled and when they come from the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lkge

SCRIPT = """
import hashlib
import numpy as np
import torch
from lkge.backends.numba.margin import FusedMargin
from lkge.backends.numba.updates import adam
from lkge.data.batches import Batch
from lkge.models.parameters import Gradient, Parameters, RowGradient
from lkge.models.scores import TransE

generator = np.random.default_rng(0)
entity, relation, first, second, slope, turn = (
    generator.normal(size=(rows, 27)).astype(np.float32) for rows in (50, 8, 50, 50, 50, 8)
)
facts, corruptions = (generator.integers(0, 8, (64, columns), np.int32) for columns in (3, 5))
touched, turned, steps = np.zeros(50, np.uint8), np.zeros(8, np.uint8), np.zeros(50, np.int32)
gradient = Gradient(*(
    RowGradient(torch.from_numpy(values), torch.from_numpy(rows))
    for values, rows in ((slope, touched), (turn, turned))
))
tables = Parameters(torch.from_numpy(entity), torch.from_numpy(relation))
batch = Batch(facts, corruptions, corruptions % 2 == 0)
loss = FusedMargin(TransE(), 8.0).add_gradient(tables, batch, gradient)
adam(entity, slope, first, np.abs(second), steps, np.arange(50), 0.1, 0.9, 0.999, 1e-8)
print(loss, [hashlib.sha256(part.tobytes()).hexdigest() for part in (entity, slope, turn)])
"""


def found_by_a_process(cache: Path) -> str:
    one_thread = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    place = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(Path(lkge.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **one_thread, **place},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_first_run_has_the_bits_of_the_next(tmp_path: Path) -> None:
    cold = found_by_a_process(tmp_path)
    assert any(tmp_path.rglob("*.nbi")), "nothing was cached"
    assert found_by_a_process(tmp_path) == cold
