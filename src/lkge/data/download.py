"""Fetch an archive of datasets and check what it holds."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError

from lkge.data.layouts import Layout, Source, opened, split_files
from lkge.errors import DataError

Progress = Callable[[int, int | None], None]
"""Told the bytes so far and, if the server says it, the bytes in all."""

_TIMEOUT = 30.0
_CHUNK = 1 << 16
_MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class Expected:
    """What a dataset must hold: its number of facts, and `digest_of` its files."""

    facts: int
    digest: str


def download(urls: Sequence[str], target: Path, progress: Progress | None = None) -> None:
    """Save what the first of `urls` that exists has to give as the new file `target`."""
    for place, url in enumerate(urls):
        try:
            return _save(url, target, progress or _silent)
        except HTTPError as error:
            if error.code != 404 or place == len(urls) - 1:
                raise _unreachable(url, f"HTTP {error.code} {error.reason}") from error
        except (URLError, HTTPException, TimeoutError, ConnectionError, ValueError) as error:
            raise _unreachable(url, str(getattr(error, "reason", error))) from error
    raise ValueError("no address to download from")


def _save(url: str, target: Path, progress: Progress) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "lkge"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response, target.open("wb") as file:
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        done = 0
        while chunk := response.read(_CHUNK):
            done += len(chunk)
            if done > _MAX_BYTES:
                raise ConnectionError("far more data than a dataset has")
            file.write(chunk)
            progress(done, total)
        if total is not None and done != total:
            raise ConnectionError(f"the connection ended after {done} of {total} bytes")
        file.flush()
        os.fsync(file.fileno())


def _silent(done: int, total: int | None) -> None:
    """Show nothing."""


def _unreachable(url: str, reason: str) -> DataError:
    return DataError(
        f"could not download {url}: {reason}. "
        "Try again later, or download it by hand and name the file with --data PATH."
    )


def verify(archive: Path, expected: Mapping[str, Expected]) -> None:
    """Raise DataError unless the archive holds exactly the expected facts of each dataset."""
    with opened(archive) as source:
        for name, wanted in expected.items():
            found = digest_of(source, source.layout(name))
            if found.facts != wanted.facts:
                raise DataError(f"{name} has {found.facts} facts instead of {wanted.facts}")
            if found.digest != wanted.digest:
                raise DataError(f"{name} has other facts than the published ones")


def digest_of(source: Source, layout: Layout) -> Expected:
    """Count and SHA-256 of the lines of every file in order, each file under a line `0/train`.

    Line ends count as one newline, so the way in which the facts are packed does not matter.
    """
    digest = hashlib.sha256()
    facts = 0
    for index, split, content in split_files(source, layout):
        lines = content.replace(b"\r\n", b"\n")
        if lines and not lines.endswith(b"\n"):
            lines += b"\n"
        digest.update(f"{index}/{split}\n".encode() + lines)
        facts += lines.count(b"\n")
    return Expected(facts, digest.hexdigest())
