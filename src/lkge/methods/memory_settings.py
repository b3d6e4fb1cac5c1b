"""The settings of EMR, GEM and other methods with a memory of old facts."""

from lkge.config import MethodConfig, setting


class MemoryConfig(MethodConfig):
    """Of methods that keep facts."""

    memory_size: int = setting(5000, "Old facts that are kept.", ge=0)
