"""Which versions stay on the disk.

A version stays if it is one of the newest `keep`, or younger than `keep_days`, or tagged, or
the last one that was verified. The two newest that are whole always stay.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

from lkge.errors import SettingsError
from lkge.store.records import Options

MIN_KEEP = 2
"""The version before the newest is always kept."""
MAX_DAYS = 365_000


def versions_to_remove(
    versions: Sequence[int],
    is_whole: Callable[[int], bool],
    kept: Collection[int | None],
    options: Options,
    created: Callable[[int], datetime | None],
    now: datetime,
) -> list[int]:
    """The versions to remove; `versions` are ascending. Only few are looked at: those that go, and
    the newest ones until two are found whole. `created` may say that it is not known."""
    first = versions[-max(options.keep, MIN_KEEP) :][0]
    whole = islice(filter(is_whole, reversed(versions)), MIN_KEEP)
    older = [version for version in versions if version < first and version not in kept]
    if not older or len(sure := list(whole)) < MIN_KEEP:
        return []
    older = [version for version in older if version < sure[-1]]
    if not options.keep_days:
        return older
    oldest = now - timedelta(days=options.keep_days)
    times = ((version, created(version)) for version in older)
    return [v for v, _ in takewhile(lambda each: each[1] is None or each[1] < oldest, times)]


def created_time(text: str) -> datetime | None:
    """The time in a record, ISO 8601; None if it is none."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def changed_options(options: Options, keep: int | None, keep_days: int | None) -> Options:
    """The options with another retention; None leaves a value as it is."""
    keep = options.keep if keep is None else keep
    keep_days = options.keep_days if keep_days is None else keep_days
    require_retention(keep, keep_days)
    return Options(keep, options.known, keep_days)


def require_retention(keep: int, keep_days: int) -> None:
    """SettingsError if a value is out of range."""
    if keep < MIN_KEEP:
        raise SettingsError(f"keep = {keep} is out of range: at least {MIN_KEEP} versions stay")
    if not 0 <= keep_days <= MAX_DAYS:
        raise SettingsError(f"keep_days = {keep_days} is out of range: from 0 to {MAX_DAYS}")
