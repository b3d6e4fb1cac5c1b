"""The methods of this package; importing this registers them."""

from lkge.methods import (
    architectural,
    baselines,
    dicgrl,
    evergreen,
    inductive,
    lan,
    lkge,
    memory,
    regularization,
)

__all__ = ["architectural", "baselines", "dicgrl", "evergreen", "inductive", "lan", "lkge"]
__all__ += ["memory", "regularization"]
