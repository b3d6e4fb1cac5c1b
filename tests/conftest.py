"""Test processes that run side by side use one thread each, and so do the processes they start."""

from __future__ import annotations

import os

import numba
import torch

if "PYTEST_XDIST_WORKER" in os.environ:
    numba.set_num_threads(1)
    torch.set_num_threads(1)
    os.environ |= {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
