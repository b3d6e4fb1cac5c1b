"""Fine-tune: inherit all rows, draw the new ones at random, train on what is new."""

from __future__ import annotations

from typing import ClassVar

from lkge.methods.base import Method, register


@register
class FineTune(Method):
    """The defaults of `Method`, named."""

    name: ClassVar[str] = "fine-tune"
    summary: ClassVar[str] = "keep learning on the new facts alone; forgets"
    supports_partial_updates = True
