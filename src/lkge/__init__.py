"""Lifelong embeddings for knowledge graphs that grow.

    graph = lkge.load("brick")
    run = lkge.run(graph, method="lkge", seed=1)
    run.results.mrr
    run.predictor.top_k("Hot_Water_Pump", "hasAssociatedTag", k=10)

    kg = lkge.init("KG")
    kg.add([("Ada", "knows", "Charles"), ("Charles", "builds", "Engine")])
    kg.predict(subject="Ada", relation="knows")

The names below are the public face. Each is imported at first use, but the errors.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from lkge.errors import (
    DamagedFile,
    DataError,
    LearningFailed,
    LkgeError,
    NewerFormat,
    RunError,
    SettingsError,
    StoreLocked,
    UnknownName,
    packages_named,
)

__version__ = "0.1.0"

__all__ = [
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
]

if TYPE_CHECKING:
    from lkge.api import Run, opened, resume, run
    from lkge.config import RunConfig
    from lkge.data.catalog import load
    from lkge.data.snapshots import GrowingGraph, Snapshot
    from lkge.evaluation.results import Results
    from lkge.living import init, open, preview
    from lkge.store.graph import LivingGraph
else:
    _HOMES = {
        "GrowingGraph": "lkge.data.snapshots",
        "LivingGraph": "lkge.store.graph",
        "Results": "lkge.evaluation.results",
        "Run": "lkge.api",
        "RunConfig": "lkge.config",
        "Snapshot": "lkge.data.snapshots",
        "init": "lkge.living",
        "load": "lkge.data.catalog",
        "open": "lkge.living",
        "opened": "lkge.api",
        "resume": "lkge.api",
        "preview": "lkge.living",
        "run": "lkge.api",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with packages_named():
            value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
