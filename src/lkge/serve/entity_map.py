"""Views of one version for browsing: the neighbourhood of an entity, and the entity map."""

import functools

import numpy as np
from numpy.typing import NDArray

from lkge.serve import responses
from lkge.store.reader import Reader


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
    ids, degrees = _degrees(reader)
    places = select_entities(degrees, limit)
    chosen = ids[places]
    plane = principal_plane(reader.rows(chosen)).round(4)
    names = reader.names.entity_table.names(chosen)
    return responses.EntityMap(
        version=reader.version,
        entities=names,
        x=plane[:, 0].tolist(),
        y=plane[:, 1].tolist(),
        degree=degrees[places].tolist(),
        since=reader.age(chosen).tolist(),
    )


@functools.lru_cache(maxsize=1)
def _degrees(reader: Reader) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The entities that are not removed, and the number of known facts of each."""
    ids = np.setdiff1d(np.arange(reader.num_entities), reader.removed, assume_unique=True)
    return ids, reader.degree(ids)


def forget() -> None:
    """Forget what was computed for an old version, which keeps its arrays open."""
    entity_map.cache_clear()
    _degrees.cache_clear()


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
    places = np.linspace(0, len(others) - 1, limit - len(leading)).round().astype(np.int64)
    return np.union1d(leading, others[places])
