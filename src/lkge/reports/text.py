"""Formats of numbers, times, sizes and names."""

import math
from collections import Counter
from collections.abc import Iterable

ABSENT = "–"  # noqa: RUF001
MINUS = "−"  # noqa: RUF001
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def number(value: float, decimals: int = 3) -> str:
    """Three decimals, a true minus sign, and an en dash for nan."""
    if math.isnan(value):
        return ABSENT
    text = f"{abs(value):.{decimals}f}"
    return MINUS + text if value < 0 and float(text) else text


def signed(value: float, decimals: int = 3) -> str:
    """A number with its sign."""
    return f"+{number(value, decimals)}" if value > 0 else number(value, decimals)


def probability(p: float) -> str:
    """Three decimals, or `< 0.001`."""
    return "< 0.001" if p < 0.001 else number(p)


def count(value: float) -> str:
    """A whole number with its thousands apart."""
    return ABSENT if math.isnan(value) else f"{round(value):,}"


def percent(value: float) -> str:
    """A share between 0 and 1 as whole percents."""
    return ABSENT if math.isnan(value) else f"{100 * value:.0f} %"


def duration(seconds: float) -> str:
    """`4.2 s`, `3m 05s` or `2h 10m`."""
    if math.isnan(seconds):
        return ABSENT
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    if seconds < 3599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}h {minutes:02d}m"


def size(count_of_bytes: float) -> str:
    """Bytes in decimal units: `512 B`, `12.3 kB`, `4.5 MB`."""
    if math.isnan(count_of_bytes):
        return ABSENT
    if round(count_of_bytes) < 1000:
        return f"{round(count_of_bytes)} B"
    value = count_of_bytes
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def printable(name: str) -> str:
    """A name safe to show anywhere: control and direction characters become `�`."""
    return "".join(letter if letter.isprintable() else "�" for letter in name)


def labelled(name: str, label: str = "") -> str:
    """A name as people read it: its label, and the name behind it."""
    return printable(f"{label} ({name})" if label and label != name else name)


def shortened(name: str, most: int) -> str:
    """At most `most` characters, the end cut and marked."""
    return name if len(name) <= most else name[: most - 1] + "…"


def distinct_labels(names: Iterable[str], most: int) -> dict[str, str]:
    """Each name in at most `most` characters. Of a name such as "lkge, dim 100, no transfer", the
    settings that most names share are left out first; one setting stays."""
    names = set(names)
    common = Counter(part for name in names for part in name.split(", "))
    labels = {}
    for name in names:
        first, *changes = name.split(", ")
        label = name
        while len(label) > most and len(changes) > 1:
            changes.remove(max(changes, key=lambda part: common[part]))
            label = ", ".join([first, "…", *changes])
        labels[name] = shortened(label, most)
    return labels


def model(i: int) -> str:
    """The name of the model after the snapshot of index i: M₁, M₂, …"""
    return f"M{i + 1}".translate(SUBSCRIPTS)


def queries(j: int) -> str:
    """The name of the test set of the snapshot of index j: Q₁, Q₂, …"""
    return f"Q{j + 1}".translate(SUBSCRIPTS)
