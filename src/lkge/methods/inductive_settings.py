"""The settings of MEAN and other inductive methods."""

from typing import ClassVar

from lkge.config import MethodConfig, setting


class InductiveConfig(MethodConfig):
    """Of methods that look at neighbours."""

    also_uses: ClassVar[frozenset[str]] = frozenset({"negatives", "margin"})
    max_neighbours: int = setting(64, "Facts of an entity that it looks at, at most.", ge=1)
