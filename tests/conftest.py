"""Test processes that run side by side use one thread each, and so do the processes they start.

The variables are set before numba is imported: it reads them again whenever it compiles, and
refuses another number than the first.
"""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ |= {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import torch

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
