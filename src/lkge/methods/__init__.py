"""The systems, one file each, and the parts that several share. Importing this registers them."""

from lkge.config import MethodConfig
from lkge.methods import (
    cwr,
    dicgrl,
    emr,
    evergreen,
    ewc,
    fine_tune,
    gem,
    lan,
    lkge,
    mean,
    pnn,
    retrain,
    si,
    snapshot_only,
)
from lkge.methods.base import METHODS, Method, known_methods, method_named, register

__all__ = ["METHODS", "Method", "MethodConfig", "known_methods", "method_named", "register"]
__all__ += ["cwr", "dicgrl", "emr", "evergreen", "ewc", "fine_tune", "gem", "lan", "lkge", "mean"]
__all__ += ["pnn", "retrain", "si", "snapshot_only"]
