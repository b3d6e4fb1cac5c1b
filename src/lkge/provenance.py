"""Provenance: the code, the libraries and the machine that made a result."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

UNRECORDED = "unrecorded"
"""The code of a result that was made before provenance was recorded."""

CHECKOUT = Path(__file__).parents[2]
"""The root of the git checkout, if the package runs from one."""

GIT_SECONDS = 10


def provenance() -> dict[str, Any]:
    """Version and git commit of the code, versions of the libraries, threads, CPU, platform.

    `commit` and `dirty` are None if the package does not run from a git checkout. `dirty`: tracked
    files of `src` or `pyproject.toml` differ from the commit.
    """
    import torch

    commit, dirty = _checkout(CHECKOUT)
    return {
        "lkge": str(sys.modules["lkge"].__version__),
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numba": metadata.version("numba"),
        "threads": torch.get_num_threads(),
        "cpu": _cpu(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def continued(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of a run that was resumed: `before`, and each other code that resumed it."""
    codes = [code_of(before), *before.get("resumed_by", ())]
    if code_of(now) in codes:
        return dict(before)
    return {**before, "resumed_by": [*codes[1:], code_of(now)]}


def code_of(record: Mapping[str, Any]) -> str:
    """Version and commit in short: `0.2.0 (1a2b3c4, modified)`; `unrecorded` if unknown."""
    if "lkge" not in record:
        return UNRECORDED
    commit = (record.get("commit") or "")[:7]
    parts = [part for part in (commit, "modified" if record.get("dirty") else "") if part]
    return f"{record['lkge']} ({', '.join(parts)})" if parts else str(record["lkge"])


def codes_of(record: Mapping[str, Any]) -> list[str]:
    """Each code that made a result: more than one if another code resumed the run."""
    return [code_of(record), *record.get("resumed_by", ())]


def machine_of(record: Mapping[str, Any]) -> str:
    """Libraries and machine in short; empty if unknown."""
    if "lkge" not in record:
        return ""
    libraries = [f"{name} {record[name]}" for name in ("python", "torch", "numba")]
    threads = f"{record['threads']} thread{'' if record['threads'] == 1 else 's'}"
    return ", ".join([*libraries, threads, record["cpu"], record["platform"]])


@cache
def _checkout(root: Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout, and whether its code is modified; None without a checkout."""
    if not (root / ".git").exists():
        return None, None
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(
        root, "status", "--porcelain", "--untracked-files=no", "--", "src", "pyproject.toml"
    )
    return commit, None if changes is None else bool(changes)


def _git(root: Path, *arguments: str) -> str | None:
    """Output of a git command; None if git is missing or fails."""
    command = ["git", "-C", str(root), *arguments]
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        return subprocess.check_output(
            command, stderr=subprocess.DEVNULL, text=True, timeout=GIT_SECONDS, env=quiet
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return None


@cache
def _cpu() -> str:
    """The name of the CPU model; on Linux from /proc/cpuinfo."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"^model name.*?:(.*)$", text, re.MULTILINE):
            return found[1].strip()
    return platform.processor() or "unknown CPU"
