"""Training by partitions: in one process with tables beyond its memory, or by several workers that
torchrun has started."""

import os


def is_launched() -> bool:
    """Whether this process is one of several that torchrun has started."""
    return int(os.environ.get("WORLD_SIZE") or 1) > 1


def is_first() -> bool:
    """Whether this is the process that prints and writes what there is once."""
    return not is_launched() or int(os.environ.get("RANK") or 0) == 0


def is_restarted() -> bool:
    """Whether torchrun has started the workers again, because one was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0) > 0
