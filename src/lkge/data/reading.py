"""Reading files that may be anything: a pipe, a device, a file that unpacks to far more.

A reader takes a regular file, in pieces, and no more than it has memory for.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from errno import EFBIG, EINVAL, EISDIR
from io import BufferedReader
from pathlib import Path
from typing import Protocol

from lkge.errors import DataError, SettingsError

MEMORY = "LKGE_MAX_MEMORY"
"""Environment variable: bytes that reading one file may take, such as `8GB`. Default: half of the
memory of the machine."""
PIECE = 1 << 20
BYTES_PER_FACT = 400
"""Memory of a parsed fact beside the letters of its names, approximately."""
BYTES_PER_LETTER = 3
"""Memory of a byte of text: as read, as decoded and in names."""

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
GIVEN_PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Paths that name a pipe on purpose, as a shell does for `<(command)`."""


class Stream(Protocol):
    """What bytes are read from, some at a time."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; none at the end."""


_most: ContextVar[int | None] = ContextVar("most", default=None)


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Reading a file in the block takes at most so many bytes."""
    token = _most.set(size)
    try:
        yield
    finally:
        _most.reset(token)


def max_memory() -> int:
    """Bytes that reading one file may take: of `LKGE_MAX_MEMORY`, or half of what there is; in a
    block of `at_most` no more than there."""
    most, allowed = _most.get(), _allowed()
    return allowed if most is None else min(most, allowed)


def _allowed() -> int:
    text = os.environ.get(MEMORY, "").strip()
    if not text:
        return memory_of_machine() // 2
    number = text.lower().removesuffix("b").rstrip()
    unit = number[-1:] if number[-1:] in UNITS else ""
    digits = number.removesuffix(unit).strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 16):
        raise SettingsError(f"{MEMORY} = {text!r} is no size; write bytes, or such as 500MB or 8GB")
    return int(digits) * UNITS[unit]


def memory_of_machine() -> int:
    """Bytes of memory, or of what a container has, or of what this process may take."""
    import resource

    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY:
        limits.append(allowed)
    with suppress(OSError, ValueError):  # no container, or one without a limit
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(limits)


class Budget:
    """The memory that the facts of one file take, counted while they are read.

    `name` is that of the file, for the error.
    """

    def __init__(self, name: str) -> None:
        self.name, self.limit, self.needed = name, max_memory(), 0

    def add(self, letters: int, facts: int = 0, fields: int = 0) -> None:
        """Count text and facts; DataError if they take more than is allowed."""
        self.needed += BYTES_PER_LETTER * letters + BYTES_PER_FACT * facts + 8 * fields
        if self.needed > self.limit:
            raise self.error()

    def error(self) -> DataError:
        """What is wrong if the limit is passed."""
        return DataError(
            f"needs more memory to read than the limit of {self.limit / 1e9:.3g} GB; split the "
            f"file, or raise the limit with {MEMORY}, such as {MEMORY}={self._more()}GB",
            file=self.name,
        )

    def _more(self) -> int:
        return max(1, round(2 * self.limit / 1e9))


def read_text_of_facts(stream: Stream, name: str) -> bytes:
    """All bytes of a stream, read in pieces. They are counted as text of which each line is a fact;
    DataError as soon as that takes more memory than is allowed."""
    budget, pieces = Budget(name), list[bytes]()
    while piece := stream.read(PIECE):
        lines = piece.count(b"\n") + piece.count(b"\r") - piece.count(b"\r\n")
        budget.add(len(piece), lines, piece.count(b","))
        pieces.append(piece)
    return b"".join(pieces)


def open_regular(path: Path | str, *, follow: bool = True) -> BufferedReader:
    """A regular file, open for reading; an OSError for anything else. A pipe is read if its path
    says that it is meant. With `follow` = False a symbolic link is an OSError, too."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
        piped = stat.S_ISFIFO(mode) and str(path).startswith(GIVEN_PIPES)
        if not (stat.S_ISREG(mode) or piped):
            raise OSError(EINVAL, "not a regular file, but a pipe or a device", str(path))
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path | str, limit: int | None = None, *, follow: bool = True) -> bytes:
    """The content of a regular file; an OSError if it has more than `limit` bytes, by default an
    eighth of the memory that may be taken."""
    most = max_memory() // 8 if limit is None else limit
    with open_regular(path, follow=follow) as file:
        large = os.fstat(file.fileno()).st_size > most  # of a pipe it is 0
        content = b"" if large else b"".join(_pieces(file, most + 1))
    if large or len(content) > most:
        raise OSError(EFBIG, f"larger than the limit of {most:,} bytes", str(path))
    return content


def _pieces(stream: Stream, most: int) -> Iterator[bytes]:
    """The first `most` bytes of a stream, in pieces."""
    while most > 0 and (piece := stream.read(min(PIECE, most))):
        most -= len(piece)
        yield piece
