"""Files that contradict each other, although each has its checksum: an error of this library."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from lkge.data.files import with_remedies
from lkge.errors import DamagedFile
from lkge.store.versions import Store

CAUSES = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError),
    *(TypeError, ValueError),
)
"""What code raises that is given ids, offsets or shapes out of range."""

P = ParamSpec("P")
R = TypeVar("R")


class OfStore(Protocol):
    """What has a store."""

    store: Store


@contextmanager
def naming_damage(store: Store) -> Iterator[None]:
    """An error of the block that is none of this library is a DamagedFile if a check of the store
    finds a file of a version that makes no sense; else it stays what it is. One of the file system
    is a RunError."""
    try:
        with with_remedies(store.folder):
            yield
    except CAUSES as error:
        from lkge.store.checking import check  # checking reads stores; this is for those who do

        damage = next((found for found in check(store) if found.version is not None), None)
        if damage is None:
            raise
        reason = damage.reason.removeprefix("damaged, ")
        raise DamagedFile(
            f"{damage.path}: damaged, {reason}; `lkge verify --repair` mends what can be mended"
        ) from error


S = TypeVar("S", bound=OfStore)


def names_damage(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], R]:
    """A method whose errors are those of `naming_damage`."""

    @wraps(method)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with naming_damage(self.store):
            return method(self, *args, **kwargs)

    return guarded
