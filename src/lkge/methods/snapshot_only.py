"""Snapshot: forget everything and learn each snapshot alone."""

from __future__ import annotations

from typing import ClassVar

from lkge.data.snapshots import Snapshot
from lkge.methods.base import Method, register
from lkge.models.model import Model


@register
class SnapshotOnly(Method):
    """All rows are drawn anew before each snapshot."""

    name: ClassVar[str] = "snapshot"
    summary: ClassVar[str] = "start over on each snapshot's own facts"

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Start over."""
        model.restart(snapshot)
