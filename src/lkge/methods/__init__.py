"""The systems, one file each, and the parts that several share. Importing this registers them."""

from lkge.methods import fine_tune, lkge, retrain, snapshot_only
from lkge.methods.base import METHODS, Method, method_named, register

__all__ = [
    "METHODS",
    "Method",
    "fine_tune",
    "lkge",
    "method_named",
    "register",
    "retrain",
    "snapshot_only",
]
