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

__all__ = [
    "METHODS",
    "Method",
    "MethodConfig",
    "cwr",
    "dicgrl",
    "emr",
    "evergreen",
    "ewc",
    "fine_tune",
    "gem",
    "known_methods",
    "lan",
    "lkge",
    "mean",
    "method_named",
    "pnn",
    "register",
    "retrain",
    "si",
    "snapshot_only",
]
