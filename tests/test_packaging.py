"""The built package has all that is needed, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

import lkge

ROOT = Path(__file__).parents[1]
TOP = {"README.md", "CHANGELOG.md", "LICENSE", "THIRD-PARTY-NOTICES.md", "MANIFEST.in"}
BUILD = """
from setuptools import build_meta
build_meta.build_sdist("dist")
build_meta.build_wheel("dist")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both archives, built in a copy of what is in the repository."""
    pytest.importorskip("setuptools", minversion="77")
    copy = tmp_path_factory.mktemp("package")
    for name in (*TOP, "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    (copy / "tests").mkdir()
    shutil.copy(__file__, copy / "tests")
    caches = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", copy / "src", ignore=caches)
    (copy / "dist").mkdir()
    words = [sys.executable, "-c", BUILD]
    done = subprocess.run(words, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return copy / "dist"


def source_files() -> set[str]:
    files = (path.relative_to(ROOT / "src") for path in (ROOT / "src" / "lkge").rglob("*"))
    kept = (path for path in files if "__pycache__" not in path.parts)
    return {path.as_posix() for path in kept if (ROOT / "src" / path).is_file()}


def test_the_wheel_is_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = f"lkge-{lkge.__version__}.dist-info/"
    assert {name for name in names if not name.startswith(info)} == source_files()
    assert {f"{info}licenses/{name}" for name in ("LICENSE", "THIRD-PARTY-NOTICES.md")} <= names
    assert "lkge/data/embedded/BRICK-LICENSE.txt" in names


def test_the_source_archive_is_the_package_and_its_pages(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        members = [member.name.partition("/")[2] for member in opened if member.isfile()]
    made = {"PKG-INFO", "setup.cfg", "pyproject.toml"}
    files = {name for name in members if not name.startswith("src/lkge.egg-info/")}
    assert files == TOP | made | {f"src/{name}" for name in source_files()}


def metadata(built: Path) -> Message:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"lkge-{lkge.__version__}.dist-info/METADATA").decode("utf-8")
    return message_from_string(text)


def test_the_metadata_is_fit_for_an_index(built: Path) -> None:
    found = metadata(built)
    assert found["Description-Content-Type"] == "text/markdown"
    assert found["License-Expression"] == "MIT"
    assert not [line for line in found.get_all("Requires-Dist", []) if "@" in line]
    extras = {"serve", "tune", "tensorboard", "mlflow", "benchmarks", "dev"}
    assert set(found.get_all("Provides-Extra", [])) >= extras
    described = found.get_payload()
    assert isinstance(described, str)
    assert described.strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()


def test_the_changelog_has_this_version_and_what_is_not_released() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert headings[:2] == ["Unreleased", lkge.__version__]
