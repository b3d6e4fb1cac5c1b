"""Compression, told by the suffix of a file's name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any

from lkge.errors import DataError

MAX_UNPACKED = 4 << 30
"""Compressed data that unpacks to more bytes than this is refused."""


def unpacked(data: bytes, compression: str, name: str) -> bytes:
    """Plain bytes; `compression` is a suffix such as `.gz`, or empty."""
    if not compression:
        return data
    try:
        with UNPACKERS[compression](io.BytesIO(data)) as stream:
            plain: bytes = stream.read(MAX_UNPACKED + 1)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise DataError(
            f"damaged {compression} data ({error}); fetch or make the file again", file=name
        ) from error
    if len(plain) > MAX_UNPACKED:
        raise DataError("unpacks to an unreasonable size; unpack it by hand first", file=name)
    return plain


def _open_zstd(packed: io.BytesIO) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(packed, "zstd")


UNPACKERS: dict[str, Callable[[io.BytesIO], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
}

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
