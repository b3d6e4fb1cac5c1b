"""A script of the project as a module, for a while."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from lkge.methods import METHODS

SCRIPTS = Path(__file__).parents[1] / "scripts"


@contextmanager
def script_named(name: str) -> Iterator[ModuleType]:
    """The script; afterwards it is not loaded, nor what it loaded of its neighbours, and what they
    registered is unknown again."""
    methods, modules = dict(METHODS), set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        yield importlib.import_module(name)
    for loaded in set(sys.modules) - modules:
        if (SCRIPTS / f"{loaded}.py").exists():
            del sys.modules[loaded]
    METHODS.clear()
    METHODS.update(methods)
