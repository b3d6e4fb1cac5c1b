"""The settings of DiCGRL."""

from typing import ClassVar

from lkge.config import setting
from lkge.methods.memory_settings import MemoryConfig


class DicgrlConfig(MemoryConfig):
    """The components of a row."""

    also_uses: ClassVar[frozenset[str]] = frozenset({"negatives", "margin"})
    components: int = setting(8, "Parts that an entity's vector is divided into.", ge=1)
    active_components: int = setting(4, "How many of them a relation uses.", ge=1, grid=(2, 4, 8))
