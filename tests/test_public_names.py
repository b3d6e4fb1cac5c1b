from __future__ import annotations

import subprocess
import sys

import pytest

import lkge

PUBLIC = {
    "DamagedFile",
    "DataError",
    "GrowingGraph",
    "LearningFailed",
    "LivingGraph",
    "LkgeError",
    "NewerFormat",
    "Results",
    "Run",
    "RunConfig",
    "RunError",
    "SettingsError",
    "Snapshot",
    "StoreLocked",
    "UnknownName",
    "__version__",
    "init",
    "load",
    "open",
    "opened",
    "preview",
    "resume",
    "run",
}


def test_the_public_face_is_a_decision() -> None:
    assert set(lkge.__all__) == PUBLIC
    assert lkge.__all__ == sorted(lkge.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there_and_listed(name: str) -> None:
    assert hasattr(lkge, name)
    assert name in dir(lkge)


def test_every_error_is_public() -> None:
    def tree(error: type[Exception]) -> set[str]:
        return {error.__name__}.union(*map(tree, error.__subclasses__()))

    assert tree(lkge.LkgeError) <= PUBLIC


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        lkge.lode  # noqa: B018


@pytest.mark.parametrize("module", ["lkge", "lkge.cli"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    script = (
        f"import sys, {module}\n"
        "heavy = {'torch', 'numba', 'matplotlib', 'pyarrow', 'pyoxigraph', 'numpy', 'pydantic'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (loaded.stdout.strip(), loaded.stderr) == ("", "")
