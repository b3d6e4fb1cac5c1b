"""The settings of LAN."""

from lkge.config import setting
from lkge.methods.inductive_settings import InductiveConfig


class LanConfig(InductiveConfig):
    """The attention of LAN."""

    attention_dim: int = setting(50, "Coordinates of the learned attention, at most.", ge=1)
    min_discount: float = setting(
        0.01, "Lower bound of the logic part's discount of a neighbour.", gt=0, le=1
    )
