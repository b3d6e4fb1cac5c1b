"""One version of a living graph, opened for queries. It never changes; threads may share it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from lkge.backends import backend_for
from lkge.configure import from_tree
from lkge.data.formats import Triple
from lkge.data.names import require_fit
from lkge.data.snapshots import Facts, inverse_of
from lkge.errors import DamagedFile, DataError
from lkge.models.parameters import host, index, placed
from lkge.models.predictor import Predictor, TablePredictor
from lkge.models.scores import score_of
from lkge.store import versions
from lkge.store.array_files import ArrayFile
from lkge.store.arrays import Array
from lkge.store.calibration import UNKNOWN, Calibration
from lkge.store.composed import known_of, names_of
from lkge.store.contradictions import names_damage, naming_damage
from lkge.store.holdout import RETRACTED, HoldOut
from lkge.store.judging import Judge
from lkge.store.overlay import overlaid, patched
from lkge.store.records import Manifest, VersionRecord
from lkge.store.subgraph import is_by_entity
from lkge.store.versions import ENTITY, RELATION, Store
from lkge.training.trainer import restored

Ids = NDArray[np.int64]


class Prediction(NamedTuple):
    """An entity that completes a fact: score, plausibility from 0 to 1, whether the fact is known,
    and whether a known fact of the relation has the entity in the same place."""

    entity: str
    score: float
    plausibility: float
    known: bool
    in_range: bool


class Similar(NamedTuple):
    """An entity and the cosine of its row with that of another."""

    entity: str
    similarity: float


class ScoredFact(NamedTuple):
    """A fact: score, plausibility from 0 to 1, whether it is known, and whether a known fact of the
    relation has its object in the same place."""

    subject: str
    relation: str
    object: str
    score: float
    plausibility: float
    known: bool
    in_range: bool


class Neighbour(NamedTuple):
    """A known fact seen from one of its entities; `since` is the version that brought it."""

    relation: str
    entity: str
    since: int


class Reader:
    """A version with memory-mapped arrays: it opens quickly, whatever the size of the graph."""

    def __init__(self, store: Store, version: int) -> None:
        self.store = store
        self.version = version
        self.manifest: Manifest = store.manifest(version)
        self.config = from_tree(self.manifest.config)
        saved = self.manifest.calibration
        self.calibration = saved if isinstance(saved, Calibration) else UNKNOWN
        self._files: dict[str, list[ArrayFile]] = store.opened(self.manifest)
        with as_damage(store.manifest_file(version)):
            self.names = names_of(self._files[versions.NAMES])
            self.answers = known_of(self._files[versions.KNOWN])
            if versions.INFERENCE in self._files:
                self._require_tables(self.tables[versions.INFERENCE])
        self._judge = Judge(self.answers, self.calibration, store.options.known)

    @cached_property
    def log(self) -> Sequence[VersionRecord]:
        """The log up to this version; it is read when it is asked for."""
        return self.store.log(self.manifest)

    @property
    def record(self) -> VersionRecord:
        """The line of the log for this version."""
        return self.manifest.record

    @cached_property
    def predictor(self) -> Predictor:
        """Answers by the tables of this version."""
        return self._predictor().with_names(self.names)

    @property
    def num_entities(self) -> int:
        """The number of entities, removed ones included: the number of rows."""
        return self.names.num_entities

    @property
    def removed(self) -> Ids:
        """The ids of entities that were removed, ascending; each still has a row."""
        return self.names.removed

    @property
    def num_relations(self) -> int:
        """The number of relations, without inverses."""
        return self.names.num_relations

    @property
    def num_facts(self) -> int:
        """The number of known facts."""
        return self.answers.num_facts

    @cached_property
    def model_arrays(self) -> dict[str, NDArray[Any]]:
        """The tables of the model and the state of the method."""
        return self.arrays(versions.MODEL)

    @cached_property
    def inference_arrays(self) -> dict[str, NDArray[Any]]:
        """The inference tables; empty if the predictor has no tables."""
        return self.arrays(versions.INFERENCE) if versions.INFERENCE in self._files else {}

    def arrays(self, kind: str) -> dict[str, NDArray[Any]]:
        """All arrays of a kind, as if they were in one file."""
        if kind in (versions.NAMES, versions.KNOWN):
            return (self.names if kind == versions.NAMES else self.answers).arrays()
        return overlaid(*self._split(kind))

    def _split(self, kind: str) -> tuple[ArrayFile, list[dict[str, NDArray[Any]]]]:
        base, *deltas = self._files[kind]
        return base, [each.arrays for each in deltas]

    @cached_property
    def tables(self) -> dict[str, dict[str, Array]]:
        """The arrays of the model and of inference by kind, for who reads some rows only."""
        kinds = (versions.MODEL, versions.INFERENCE)
        return {kind: patched(*self._split(kind)) for kind in kinds if kind in self._files}

    def contents(self) -> dict[str, dict[str, NDArray[Any]]]:
        """All arrays by kind."""
        return {kind: self.arrays(kind) for kind in self._files}

    def verify(self, *kinds: str) -> None:
        """Read all files, or those of some kinds; DamagedFile if a byte is not as written."""
        for kind in kinds or self._files:
            for file in self._files[kind]:
                file.verify()

    def verify_rows(self, kind: str, rows: Ids) -> None:
        """The same for the blocks of some rows, ascending, of arrays by entity. Deltas and what is
        no array by entity were verified before, or are now."""
        for file in self._files.get(kind, ())[:1]:
            for name, table in file.arrays.items():
                if is_by_entity(name):
                    file.verify_rows(name, rows[rows < len(table)])
                else:
                    file.verify_array(name)

    @cached_property
    def hold_out(self) -> HoldOut:
        """The hold-out set."""
        return self._hold_out("")

    @cached_property
    def retracted(self) -> HoldOut:
        """The retracted facts that are still ranked."""
        return self._hold_out(RETRACTED)

    def _hold_out(self, prefix: str) -> HoldOut:
        """Kernels read the rows of these facts: their ids must be those of rows."""
        found = HoldOut.from_arrays(self.arrays(versions.HOLD_OUT_FILE), prefix)
        most = (self.num_entities, 2 * self.num_relations, self.num_entities)
        fits = ((found.facts >= 0) & (found.facts < most)).all()
        require_fit(bool(fits), "a held-out fact has an id without a row")
        return found

    @names_damage
    def predict(
        self,
        *,
        relation: str,
        subject: str | None = None,
        object: str | None = None,
        k: int = 10,
        new_only: bool = False,
        in_range: bool = False,
    ) -> list[Prediction]:
        """The k best objects of (subject, relation, ?), or subjects of (?, relation, object). With
        `in_range` only entities that a known fact of the relation has in the same place."""
        query = self._query(subject, relation, object)
        known = self.answers.of(*query, self.version)
        left = np.ones(self.num_entities, np.bool_)
        if in_range:
            left[:] = False
            left[self._judge.range_of(query[1])] = True
        if new_only:
            left[known] = False
        left[self.removed] = False
        best = self.predictor.best(*query, k, left)
        self._finite(best.list)
        judged = self._judge.judged(query, best.list, best.places, best.scores, known)
        columns = (best.scores.tolist(), *(column.tolist() for column in judged))
        names = self.names.entity_table.names(best.places)
        return [Prediction(*answer) for answer in zip(names, *columns, strict=True)]

    @names_damage
    def similar(self, entity: str, k: int = 10) -> list[Similar]:
        """The k entities with the greatest cosine similarity of rows."""
        number = self.names.entity_id(entity)
        left = np.ones(self.num_entities, np.bool_)
        left[number] = left[self.removed] = False
        best = self._tables.search.nearest(number, k, left)
        self._finite(best.list)
        names = self.names.entity_table.names(best.places)
        return [Similar(*each) for each in zip(names, best.scores.tolist(), strict=True)]

    @names_damage
    def score(self, facts: Sequence[Triple]) -> list[ScoredFact]:
        """How plausible each fact is, at its place in the list of (subject, relation, ?)."""
        ids = self.ids_of(facts)
        scores = self._finite(self.predictor.fact_scores(ids))
        judged = self._judge.facts(self.predictor, ids, self.num_entities, self.version)
        columns = (scores.tolist(), *(column.tolist() for column in judged))
        return [ScoredFact(*fact, *rest) for fact, *rest in zip(facts, *columns, strict=True)]

    def ids_of(self, facts: Sequence[Triple]) -> Facts:
        """Facts by id, (k, 3); every name must exist."""
        entity, relation = self.names.entity_id, self.names.relation_id
        ids = [(entity(s), relation(r), entity(o)) for s, r, o in facts]
        return np.array(ids, dtype=np.int32).reshape(-1, 3)

    @names_damage
    def entities(self, prefix: str = "", limit: int = 10) -> list[str]:
        """The first names that begin with `prefix`, in any case."""
        table = self.names.entity_table
        return table.names(table.starting_with(prefix, limit))

    @names_damage
    def relations(self, prefix: str = "", limit: int | None = None) -> list[str]:
        """The relations whose names begin with `prefix`, in any case."""
        table = self.names.relation_table
        return table.names(table.starting_with(prefix, limit))

    @names_damage
    def neighbourhood(self, entity: str, limit: int = 50) -> list[Neighbour]:
        """Known facts of an entity, the inverse ones too, as they are stored."""
        names = self.names
        facts, since = self.answers.around(names.entity_id(entity), limit)
        return [
            Neighbour(names.relation_name(relation), names.entity_name(other), at)
            for (_, relation, other), at in zip(facts.tolist(), since.tolist(), strict=True)
        ]

    def degree(self, ids: Ids) -> NDArray[np.int64]:
        """The number of known facts of each of these entities, as subject or object, (k,)."""
        starts, stops = self.answers.spans_of(ids)
        return stops - starts

    def age(self, ids: Ids) -> NDArray[np.int64]:
        """The version that added each of these entities, (k,)."""
        sizes = np.array([record.entities for record in self.log])
        lasting = np.minimum.accumulate(sizes[::-1])[::-1]
        return np.searchsorted(lasting, ids, side="right")

    def rows(self, ids: Ids) -> NDArray[np.float32]:
        """The inference rows of entities, (k, d)."""
        table = self._tables.entity
        return self._finite(host(table[index(ids, table.device)]))

    def _finite(self, numbers: NDArray[np.float32]) -> NDArray[np.float32]:
        """These numbers; DamagedFile if one of them is no finite number."""
        if not np.isfinite(numbers).all():
            folder = self.store.folder
            raise DamagedFile(
                f"{folder}: the tables of version {self.version} have values that are not finite "
                f"numbers; go back with `lkge rollback {folder}`, or run `lkge relearn {folder}`"
            )
        return numbers

    @property
    def _tables(self) -> TablePredictor:
        if not isinstance(self.predictor, TablePredictor):
            raise DataError(
                f"an entity has no row of its own under the method {self.config.method.name!r}; "
                "ask a graph that another method learns"
            )
        return self.predictor

    def _query(self, subject: str | None, relation: str, object_: str | None) -> tuple[int, int]:
        """The entity of the query, and the relation or its inverse."""
        if (subject is None) == (object_ is None):
            raise DataError("a question has either a subject or an object; give one of them")
        number = self.names.relation_id(relation)
        if subject is not None:
            return self.names.entity_id(subject), number
        return self.names.entity_id(str(object_)), inverse_of(number)

    def _predictor(self) -> Predictor:
        tables = self.inference_arrays
        if not tables:
            whole = {name: torch.from_numpy(array) for name, array in self.model_arrays.items()}
            model, method = restored(self.config, whole)
            return method.predictor(model)
        backend, device = self.config.training.backend, self.config.training.device
        return TablePredictor(
            placed(tables[ENTITY], device),
            placed(tables[RELATION], device),
            score_of(self.config),
            backend_for(backend, device),
        )

    def _require_tables(self, tables: Mapping[str, Array]) -> None:
        """Kernels read these tables by id: each id must have a row, of the same width."""
        rows = {ENTITY: self.num_entities, RELATION: 2 * self.num_relations}
        for name, count in rows.items():
            table = tables.get(name)
            fits = table is not None and table.dtype == np.float32 and len(table.shape) == 2
            fits = fits and table is not None and len(table) == count
            require_fit(fits, f"{count} ids have no table {name!r} of as many rows")
        same = tables[ENTITY].shape[1] == tables[RELATION].shape[1]
        require_fit(same or not self.num_relations, "tables of entities and relations differ")


def inference_tables(predictor: Predictor) -> dict[str, torch.Tensor] | None:
    """The two tables of a predictor; None if it needs more than these."""
    if not isinstance(predictor, TablePredictor) or predictor.subject is not None:
        return None
    return {ENTITY: predictor.entity, RELATION: predictor.relation}


def open_reader(folder: Path | str, version: int | str | None = None) -> Reader:
    """A version of the graph in `folder`, by number or tag; default: the newest that is whole. If
    newer ones are damaged, a DamageWarning says so."""
    store = Store(Path(folder))
    with naming_damage(store):
        if version is not None:
            return Reader(store, store.number_of(version))
        return store.newest_of(lambda newest: Reader(store, newest), warn=True)


@contextmanager
def as_damage(path: Path) -> Iterator[None]:
    """Raise what arrays that do not fit together lead to as a DamagedFile."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise DamagedFile(f"{path}: its arrays do not fit together: {error}") from error
