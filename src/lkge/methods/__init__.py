"""The methods, and the parts that several share. Importing this registers the settings of all; the
methods themselves, which need torch, are imported when a name below is first asked for."""

from importlib import import_module
from typing import TYPE_CHECKING

from lkge.config import MethodConfig
from lkge.methods import profiles

__all__ = ["METHODS", "Method", "MethodConfig", "known_methods", "method_named", "register"]
__all__ += ["profiles"]

if TYPE_CHECKING:
    from lkge.methods.base import METHODS, Method, known_methods, method_named, register
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import_module("lkge.methods.built_in")
        value = getattr(import_module("lkge.methods.base"), name)
        globals()[name] = value
        return value
