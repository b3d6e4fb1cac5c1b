"""Methods that another installed package brings, by entry point."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lkge.errors import LkgeError, UnknownName
from lkge.methods.base import METHODS, Method, known_methods, load_plugins, method_named, register

COUNTER = itertools.count()
CALM = """
from lkge.methods.base import Method

class Calm(Method):
    "Does nothing of its own."
    name = "calm"
    summary = "fine-tune, from elsewhere"

class Impostor(Method):
    name = "lkge"

NUMBER = 3
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path of Python, and a registry that is forgotten afterwards."""
    monkeypatch.setattr("lkge.methods.base.METHODS", dict(METHODS))
    monkeypatch.syspath_prepend(str(tmp_path))
    load_plugins.cache_clear()
    before = set(sys.modules)
    yield tmp_path
    load_plugins.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith("calm"):
            del sys.modules[name]


def install(site: Path, target: str, source: str = CALM) -> str:
    """A distribution with one module and one entry point; the name of its module."""
    module = f"calm{next(COUNTER)}"
    (site / f"{module}.py").write_text(source, encoding="utf-8")
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[lkge.methods]\nplacid = {module}:{target}\n")
    return module


def test_an_installed_method_is_found_by_its_own_name(site: Path) -> None:
    install(site, "Calm")
    assert method_named("calm").summary == "fine-tune, from elsewhere"
    assert set(known_methods()) == {*METHODS, "calm"}


def test_plugins_are_loaded_once(site: Path) -> None:
    module = install(site, "Calm")
    first, second = method_named("calm"), method_named("calm")
    assert first is second
    del sys.modules[module]
    method_named("lkge")
    assert module not in sys.modules


def test_a_class_that_registers_itself_as_well_is_no_clash(site: Path) -> None:
    decorated = CALM.replace("import Method", "import Method, register").replace(
        "class Calm", "@register\nclass Calm"
    )
    install(site, "Calm", decorated)
    assert method_named("calm").__name__ == "Calm"


@pytest.mark.parametrize(
    ("target", "source", "reason"),
    [
        ("Calm", "import calm_that_is_not_there", "calm_that_is_not_there"),
        ("Calm", "1 / 0", "division by zero"),
        ("Clam", CALM, "Clam"),
        ("NUMBER", CALM, "not a subclass"),
        ("Impostor", CALM, "two methods are named 'lkge'"),
    ],
)
def test_what_cannot_be_used_names_package_and_entry(
    site: Path, target: str, source: str, reason: str
) -> None:
    module = install(site, target, source)
    for _ in range(2):
        with pytest.raises(LkgeError) as caught:
            method_named("fine-tune")
        assert type(caught.value) is LkgeError
        for fragment in (module, "'placid'", f"{module}:{target}", reason):
            assert fragment in str(caught.value)


def test_an_unknown_name_is_looked_for_among_plugins_too(site: Path) -> None:
    install(site, "Calm")
    with pytest.raises(UnknownName, match="'calm'"):
        method_named("clam")


def test_a_class_that_is_defined_again_takes_the_place_of_the_first(site: Path) -> None:
    made = list[type[Method]]()
    for _ in range(2):
        namespace: dict[str, Any] = {"__name__": "__main__"}
        exec(CALM, namespace)
        made.append(register(namespace["Calm"]))
    assert method_named("calm") is made[1] is not made[0]
