"""Views of one version for browsing: the neighbourhood of an entity, and the entity map."""

import functools

import numpy as np
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts, unpack
from lkge.serve import responses
from lkge.store.reader import Reader

SAMPLED = 50_000
"""Entities, and answers of known facts, that are looked at for a map."""


def neighbourhood(reader: Reader, entity: str, limit: int) -> responses.Neighbourhood:
    """At most `limit` known facts of an entity, and how many there are."""
    row = np.array([reader.names.entity_id(entity)])
    facts = reader.neighbourhood(entity, limit)
    return responses.Neighbourhood(
        version=reader.version,
        entity=entity,
        degree=int(reader.degree(row)[0]),
        since=int(reader.age(row)[0]),
        neighbours=[responses.Neighbour(**fact._asdict()) for fact in facts],
        labels=reader.labels.of([entity, *(name for fact in facts for name in fact[:2])]),
    )


@functools.lru_cache(maxsize=1)
def entity_map(reader: Reader, limit: int) -> responses.EntityMap:
    """The map of at most `limit` entities. Two threads may compute the same map twice."""
    ids, degrees = _chosen(reader, limit)
    plane = principal_plane(reader.rows(ids)).round(4)
    return responses.EntityMap(
        version=reader.version,
        entities=reader.names.entity_table.names(ids),
        x=plane[:, 0].tolist(),
        y=plane[:, 1].tolist(),
        degree=degrees.tolist(),
        since=reader.age(ids).tolist(),
    )


def _chosen(reader: Reader, limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entities for a map, ascending, and the number of known facts of each. At most `SAMPLED` are
    looked at, however large the graph is."""
    count, left = reader.num_entities, reader.removed
    if count <= SAMPLED:
        ids = np.setdiff1d(np.arange(count), left, assume_unique=True)
        degrees = reader.degree(ids)
        places = select_entities(degrees, limit)
        return ids[places], degrees[places]
    busy = np.setdiff1d(_busy(reader.answers), left)
    leading = busy[np.argsort(-reader.degree(busy), kind="stable")[: limit // 2]]
    spread = np.setdiff1d(_spread(count, limit - len(leading)), left)
    ids = np.union1d(leading, spread)
    return ids, reader.degree(ids)


def _busy(known: KnownFacts) -> NDArray[np.int64]:
    """The subjects of answers that lie evenly among all, which are sorted by subject: each entity
    with a `SAMPLED`-th of the answers, or more, is one of them."""
    places = _spread(known.num_answers, SAMPLED)
    return np.unique(unpack(known.entries(places)[0])[0])


def _spread(count: int, size: int) -> NDArray[np.int64]:
    """At most `size` of the numbers below `count`, evenly from the first to the last."""
    found: NDArray[np.int64] = np.linspace(0, count - 1, min(size, count)).round().astype(np.int64)
    return found


def forget() -> None:
    """Forget what was computed for an old version, which keeps its arrays open."""
    entity_map.cache_clear()


def principal_plane(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """The first two principal components of rows (n, d), as (n, 2), scaled to -1 … 1.

    With centred rows X and the eigenvectors V of XᵀX, the coordinates are the columns of X V for
    the two largest eigenvalues. The sign of each axis makes the sum of cubes positive, so that maps
    of successive versions look alike.
    """
    plane = np.zeros((len(rows), 2))
    if not len(rows):
        return plane
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    axes = vectors[:, ::-1][:, :2]
    plane[:, : axes.shape[1]] = centred @ axes
    plane *= np.where((plane**3).sum(axis=0) < 0, -1.0, 1.0)
    largest = np.abs(plane).max()
    return plane / largest if largest > 0 else plane


def select_entities(degrees: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """The ids of at most `limit` entities, ascending.

    All entities if there are few. Otherwise half of them have the most facts, and the other half
    is spread evenly from the oldest to the newest entity.
    """
    count = len(degrees)
    if count <= limit:
        return np.arange(count)
    leading = np.argsort(-degrees, kind="stable")[: limit // 2]
    others = np.setdiff1d(np.arange(count), leading, assume_unique=True)
    return np.union1d(leading, others[_spread(len(others), limit - len(leading))])
