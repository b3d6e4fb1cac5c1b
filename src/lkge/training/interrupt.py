"""Ctrl-C during training stops between two steps.

A KeyboardInterrupt that is raised inside a compiled kernel can end the process with another error.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_pending = threading.Event()


@contextmanager
def stops_between_steps() -> Iterator[None]:
    """In this block the first Ctrl-C is raised by `check`, at the latest at the end of the block.
    A second one is raised at once. Other threads and other handlers are left as they are."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _defer)
    try:
        yield
        check()
    finally:
        _pending.clear()
        signal.signal(signal.SIGINT, signal.default_int_handler)


def check() -> None:
    """Raise a KeyboardInterrupt that was deferred."""
    if _pending.is_set():
        raise KeyboardInterrupt


def _defer(number: int, frame: FrameType | None) -> None:
    if _pending.is_set():
        signal.default_int_handler(number, frame)
    _pending.set()
