"""The settings of EWC, SI and other methods that pull rows towards old values."""

from lkge.config import MethodConfig, setting


class RegularizedConfig(MethodConfig):
    """Of methods that pull rows towards their old values."""

    regularization_weight: float = setting(
        0.01, "α: weight of the pull towards the old embeddings.",
        ge=0, grid=(0.01, 0.1, 1.0),
    )  # fmt: skip


class SiConfig(RegularizedConfig):
    """Of SI."""

    damping: float = setting(
        1e-3, "ξ: bounds the importance of a coordinate that hardly moved.", gt=0
    )
