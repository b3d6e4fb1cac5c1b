"""Views of one version: what lies around an entity, and the map of all."""

from __future__ import annotations

import numpy as np

from lkge.serve.bodies import Map, Neighbour, Neighbourhood
from lkge.serve.projection import on_the_map, principal_plane
from lkge.store.reader import Reader


class Atlas:
    """A reader and the last map drawn of it; two who ask at once may both draw the same map."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._drawn: dict[int, Map] = {}

    def neighbourhood(self, entity: str, limit: int) -> Neighbourhood:
        """Some facts of an entity, and how many there are."""
        reader = self.reader
        number = np.array([reader.names.entity_id(entity)])
        return Neighbourhood(
            version=reader.version,
            entity=entity,
            degree=int(reader.degree(number)[0]),
            since=int(reader.age(number)[0]),
            neighbours=[Neighbour(**one._asdict()) for one in reader.neighbourhood(entity, limit)],
        )

    def map(self, limit: int) -> Map:
        """The map with at most `limit` entities."""
        drawn = self._drawn.get(limit)
        if drawn is None:
            drawn = drawn_map(self.reader, limit)
            self._drawn = {limit: drawn}
        return drawn


def drawn_map(reader: Reader, limit: int) -> Map:
    """The map of a version."""
    degrees = reader.degree(np.arange(reader.num_entities))
    chosen = on_the_map(degrees, limit)
    plane = principal_plane(reader.rows(chosen)).round(4)
    return Map(
        version=reader.version,
        entities=reader.names.entity_table.names(chosen),
        x=plane[:, 0].tolist(),
        y=plane[:, 1].tolist(),
        degree=degrees[chosen].tolist(),
        since=reader.age(chosen).tolist(),
    )
