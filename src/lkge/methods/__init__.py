"""The systems, one file each, and the parts that several share. Importing this registers them."""

from lkge.config import MethodConfig
from lkge.methods import cwr, dicgrl, emr, evergreen, ewc, gem, lan, lkge, mean, pnn, retrain, si
from lkge.methods.base import METHODS, Method, known_methods, method_named, register

__all__ = ["METHODS", "Method", "MethodConfig", "known_methods", "method_named", "register"]
__all__ += ["cwr", "dicgrl", "emr", "evergreen", "ewc", "gem", "lan", "lkge", "mean", "pnn"]
__all__ += ["retrain", "si"]
