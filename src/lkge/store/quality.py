"""The quality of a version on facts that earlier versions were ranked on too.

More entities make ranks harder: a fact is always ranked among the entities that existed when it was
first ranked, so that its 1/rank can be compared over all versions. In a graph of more than K
entities these are a sample: entity e is in it with probability min(1, K/(e + 1)), decided by a hash
of e, so that the sample of the first n entities never changes. Ranks are filtered by all facts that
are known now.

The baseline of a fact is its 1/rank when it was first ranked. If older facts are better than their
baseline beyond sampling noise, or all known facts were learned again, the present values become the
baseline. (The best value that each single fact ever had would rise by chance alone.)
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, with_inverses
from lkge.models.predictor import Predictor, View
from lkge.store.holdout import RETRACTED, HoldOut, age_class, age_label
from lkge.store.records import Comparison, StoreConfig
from lkge.store.subgraph import Subgraph

Values = NDArray[np.float64]
"""1/rank and Hits@10 of facts, means over both queries, (k, 2)."""

VIEWS = 64
"""Numbers of entities that facts are ranked among in one pass."""
BASELINE_ERRORS = 3.0
"""Standard errors by which older facts must be better before the baseline rises."""


class Ranker(Protocol):
    """A model that gives a predictor over some entities only, under their local ids."""

    @property
    def num_entities(self) -> int:
        """How many entities it knows."""

    @property
    def has_rows(self) -> bool:
        """Whether `over` can leave entities out; otherwise it needs all of them."""

    def over(self, candidates: Subgraph) -> Predictor:
        """The predictor of these entities."""


@dataclass(frozen=True)
class Quality:
    """The hold-out set and the tracked retracted facts with their new values, and what a record
    says of them.

    mrr_new         MRR of the hold-out facts of this version
    candidates      entities that the facts of this version were ranked among
    residue_error   standard error of the mean 1/rank of the retracted facts
    """

    hold_out: HoldOut
    retracted: HoldOut
    since_baseline: Comparison
    by_age: dict[str, Comparison]
    last_update: Comparison
    touched_facts: Comparison
    untouched_facts: Comparison
    residue: Comparison
    residue_error: float
    mrr_new: float
    candidates: int

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the file of the hold-out set."""
        return {**self.hold_out.arrays(), **self.retracted.arrays(RETRACTED)}


def measured(
    hold_out: HoldOut,
    retracted: HoldOut,
    version: int,
    touched: NDArray[np.int64],
    models: tuple[Ranker, Ranker],
    known: tuple[KnownFacts, KnownFacts],
    config: StoreConfig,
    *,
    new_baseline: bool = False,
) -> Quality:
    """Rank all facts under the new version. `models` and `known` are those of the last version and
    of the new one. Facts that no earlier version ranked are ranked under the last one first."""
    size = config.evaluation_candidates // 2
    hold_out, now = _ranked(hold_out, version, models, known, size)
    retracted, gone_now = _ranked(retracted, version, models, known, size)
    old = hold_out.since < version
    is_touched = hold_out.has_entity(touched)
    since_baseline = compared(hold_out.baseline[old], now[old])
    classes = age_class(hold_out.since, version)
    by_age = {
        age_label(number): compared(hold_out.baseline[place], now[place])
        for number in np.unique(classes).tolist()
        for place in [classes == number]
    }
    last, with_touched, without_touched = (
        compared(hold_out.last[part], now[part])
        for part in (old, old & is_touched, old & ~is_touched)
    )
    rises = -since_baseline.loss > BASELINE_ERRORS * since_baseline.error
    if new_baseline or (since_baseline.facts >= config.min_facts_for_warning and rises):
        hold_out = hold_out.with_values(baseline=now)
    return Quality(
        hold_out.with_values(last=now),
        retracted.with_values(last=gone_now),
        since_baseline,
        by_age,
        last,
        with_touched,
        without_touched,
        residue=compared(retracted.baseline, gone_now),
        residue_error=_error(gone_now[:, 0]),
        mrr_new=compared(now[~old], now[~old]).mrr,
        candidates=len(_sample(models[1], size)),
    )


def tracked(
    before: HoldOut,
    retracted: Facts,
    added: Facts,
    version: int,
    generator: np.random.Generator,
    size: int,
) -> HoldOut:
    """The retracted facts that are tracked: those of before and the new ones, without facts that
    were added again; if there are more than `size`, a part of each age class."""
    return before.without(np.concatenate([added, retracted])).grown(
        retracted, version, generator, size
    )


def compared(before: Values, now: Values) -> Comparison:
    """Two measurements of the same facts, (k, 2) both."""
    if not len(now):
        return Comparison()
    (mrr_before, hits_before), (mrr, hits) = before.mean(axis=0), now.mean(axis=0)
    error = _error(now[:, 0] - before[:, 0])
    return Comparison(
        facts=len(now),
        mrr_before=float(mrr_before),
        mrr=float(mrr),
        hits10_before=float(hits_before),
        hits10=float(hits),
        error=error,
    )


def stable_sample(num_entities: int, size: int) -> NDArray[np.int64]:
    """Entities to rank among, ascending: entity e with probability min(1, size/(e + 1)). The sample
    of n entities is the beginning of that of more; it has about size·(1 + ln(n/size)) of them."""
    ids = np.arange(num_entities, dtype=np.int64)
    return ids[_uniform(ids) * (ids + 1) < size]


def values_of(
    predictor: Predictor, candidates: Subgraph, facts: Facts, entities: NDArray[Any], known: Facts
) -> Values:
    """1/rank and Hits@10 of facts, each among those candidates that are below its own number in
    `entities` (k,). `predictor` has the rows of the candidates, under their local ids; `known` are
    the known answers to the queries, in local ids."""
    limits = np.searchsorted(candidates.ids, entities).astype(np.int64)
    local, answers = candidates.local(facts), KnownFacts.build([known])
    values = np.empty((len(facts), 2))
    distinct = np.unique(limits)
    for start in range(0, len(distinct), VIEWS):
        views = distinct[start : start + VIEWS]
        part = np.flatnonzero(np.isin(limits, views))
        queries, columns = with_inverses(local[part]), np.searchsorted(views, limits[part])
        table = predictor.ranks(queries, [View(int(view), 0) for view in views], answers)
        ranks = table[np.arange(len(queries)), np.tile(columns, 2)].reshape(2, -1)
        values[part] = np.column_stack([(1 / ranks).mean(axis=0), (ranks <= 10).mean(axis=0)])
    return values


def _ranked(
    facts: HoldOut,
    version: int,
    models: tuple[Ranker, Ranker],
    known: tuple[KnownFacts, KnownFacts],
    size: int,
) -> tuple[HoldOut, Values]:
    """The facts, those without a baseline with one, and their values under the new version."""
    last, new = models
    fresh = facts.entities == 0
    earlier = fresh & (facts.facts[:, (0, 2)] < last.num_entities).all(axis=1)
    earlier &= (facts.since < version) | known[0].contains(facts.facts)
    entities, baseline = facts.entities.copy(), facts.baseline.copy()
    entities[fresh] = new.num_entities
    entities[earlier] = last.num_entities
    now = _values(new, facts.facts, entities, known[1], size)
    baseline[fresh] = now[fresh]
    baseline[earlier] = _values(last, facts.facts[earlier], entities[earlier], known[0], size)
    before = np.where(fresh[:, None], baseline, facts.last)
    return facts.with_values(entities=entities, baseline=baseline, last=before), now


def _values(
    model: Ranker, facts: Facts, entities: NDArray[np.int64], known: KnownFacts, size: int
) -> Values:
    if not len(facts):
        return np.empty((0, 2))
    ids = np.union1d(_sample(model, size), facts[:, (0, 2)]).astype(np.int64)
    candidates = Subgraph(ids, len(ids))
    answers = candidates.known_facts(known, facts)
    return values_of(model.over(candidates), candidates, facts, entities, answers)


def _sample(model: Ranker, size: int) -> NDArray[np.int64]:
    """The entities that facts are ranked among."""
    return stable_sample(model.num_entities, size if model.has_rows else model.num_entities)


def _error(values: NDArray[np.float64]) -> float:
    """The standard error of the mean; nan below two values."""
    if len(values) < 2:
        return math.nan
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _uniform(ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number from 0 to below 1 for each id, by the hash SplitMix64."""
    bits = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return (bits >> np.uint64(11)).astype(np.float64) / float(1 << 53)
