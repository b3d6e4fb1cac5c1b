"""`Attention` in kernels, differentiated by hand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional

from lkge.kernels.attention import asks_of, attended, attended_by_all, keys_of
from lkge.kernels.attention_flow import attention_gradient
from lkge.kernels.attention_items import Asks, Floats, Items, Keys, Pairs, Sources
from lkge.kernels.scratch import Scratch
from lkge.methods.parts.attention import FROM_NEIGHBOUR, FROM_QUERY, QUERY, VECTOR, Logic
from lkge.methods.parts.inductive import TRANSITION
from lkge.methods.parts.neighbours import Neighbourhoods
from lkge.models.scores import Score
from lkge.models.tables import Tables


@dataclass(frozen=True)
class FusedAttention:
    """The twin of `Attention` on CPU: `sources` are the tensors of `Sources`, from which all
    rows are made, and through which their gradient flows back."""

    sources: tuple[Tensor, ...]
    pairs: Pairs
    items: Items
    keys: Keys
    implied: Floats
    scratch: Scratch

    @classmethod
    def of(
        cls, score: Score, tables: Tables, near: Neighbourhoods, logic: Logic, scratch: Scratch
    ) -> Self:
        """The attention that the tables hold."""
        own, entity = tables.extra, score.prepare_entities(tables.entity)
        direction = functional.normalize(own[TRANSITION], dim=-1)
        onto = own[FROM_NEIGHBOUR].T
        queries, vector = own[QUERY] @ own[FROM_QUERY].T, own[VECTOR][0].clone()
        sources = (entity, direction, entity @ onto, direction @ onto, queries, vector)
        pairs = Pairs(near.pairs.relations.numpy(), near.pairs.others.numpy())
        items = Items(
            near.starts.numpy(),
            near.relations.numpy(),
            near.pairs.places.numpy(),
            logic.discount.numpy(),
        )
        keys, implied = keys_of(_arrays(sources), pairs), logic.implies.T.contiguous()
        return cls(sources, pairs, items, keys, implied.numpy(), scratch)

    def rows(self, entities: Tensor, queries: Tensor) -> Tensor:
        """See `Attends`."""
        asks = asks_of(self.items, entities.numpy(), queries.numpy())
        rows: Tensor = _Attended.apply(self, asks, *self.sources)  # type: ignore[no-untyped-call]
        return rows

    def all_rows(self, queries: Tensor) -> Tensor:
        """See `Attends`."""
        own = _arrays(self.sources)
        known = (own, self.pairs, self.items, self.keys, self.implied)
        return torch.from_numpy(attended_by_all(*known, queries.numpy()))


class _Attended(torch.autograd.Function):
    """The rows of asks as a function of the sources."""

    @staticmethod
    def forward(ctx: Any, attention: FusedAttention, asks: Asks, *sources: Tensor) -> Tensor:
        """See `attended`."""
        known = (_arrays(sources), attention.pairs, attention.items, attention.keys)
        rows, weights = attended(*known, attention.implied, asks)
        ctx.gradient = partial(attention_gradient, *known, asks, weights, attention.scratch)
        return torch.from_numpy(rows)

    @staticmethod
    def backward(ctx: Any, *on_rows: Tensor) -> tuple[Tensor | None, ...]:
        """See `attention_gradient`."""
        gradient = ctx.gradient(on_rows[0].contiguous().numpy())
        return (None, None, *map(torch.from_numpy, gradient))


def _arrays(sources: tuple[Tensor, ...]) -> Sources:
    return Sources(*(source.detach().contiguous().numpy() for source in sources))
