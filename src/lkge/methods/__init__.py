"""The methods, and the parts that several share. Importing this registers them."""

from lkge.config import MethodConfig
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
from lkge.methods.base import METHODS, Method, known_methods, method_named, register

__all__ = ["METHODS", "Method", "MethodConfig", "known_methods", "method_named", "register"]
__all__ += ["architectural", "baselines", "dicgrl", "evergreen", "inductive", "lan", "lkge"]
__all__ += ["memory", "regularization"]
