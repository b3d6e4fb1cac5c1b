"""The difference of two systems, over runs with the same seed on the same facts.

Two tests: over seeds, a paired t test of the differences of the runs; over relations,
a randomisation test of the shares that the relations have in the difference.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from lkge.evaluation.results import UNKNOWN, Results
from lkge.reports.statistics import sign_test, t_interval, t_test
from lkge.reports.systems import System, by_dataset, part


@dataclass(frozen=True)
class Difference:
    """MRR of the last model of `one` minus that of `other` over all test facts, the mean over
    `seeds`. `half_width`: of its 95 % interval over seeds; nan for a single seed.

    `p_seeds`: paired t test over seeds. `p_relations`: randomisation test over `relations`
    relations, each with its share of the difference; nan where results do not have them.
    """

    dataset: str
    protocol: str
    one: str
    other: str
    seeds: int
    mean: float
    half_width: float
    p_seeds: float
    relations: int
    p_relations: float

    @property
    def is_tested(self) -> bool:
        """Whether there is an interval or a p."""
        return not (math.isnan(self.half_width) and math.isnan(self.p_relations))


def differences(
    systems: Iterable[System], protocol: str, reference: str | None = None
) -> list[Difference]:
    """On each dataset the system named `reference`, by default the first, minus each other one
    that shares a seed with it."""
    found = []
    for group in by_dataset(systems).values():
        first = next((s for s in group if reference in (None, s.name)), group[0])
        pairs = ((other, paired_runs(first, other)) for other in group if other is not first)
        found += [_difference(first, other, runs, protocol) for other, runs in pairs if runs]
    return found


def paired_runs(one: System, other: System) -> list[tuple[Results, Results]]:
    """The runs of both with the same seed, on the same facts as far as the results say."""
    theirs = {run.seed: run for run in other.runs if run.seed is not None}
    pairs = [(run, theirs[run.seed]) for run in one.runs if run.seed in theirs]
    return [(mine, their) for mine, their in pairs if _same_facts(mine, their)]


def _same_facts(one: Results, other: Results) -> bool:
    digests = {one.data_digest, other.data_digest} - {UNKNOWN}
    return len(digests) < 2 and len(one.snapshots) == len(other.snapshots)


def _difference(
    one: System, other: System, runs: Sequence[tuple[Results, Results]], protocol: str
) -> Difference:
    gains = [_final(mine, protocol) - _final(theirs, protocol) for mine, theirs in runs]
    shares = _shares(runs, protocol)
    return Difference(
        dataset=one.dataset,
        protocol=protocol,
        one=one.name,
        other=other.name,
        seeds=len(runs),
        mean=fmean(gains),
        half_width=t_interval(gains),
        p_seeds=t_test(gains),
        relations=len(shares),
        p_relations=sign_test(shares),
    )


def _final(run: Results, protocol: str) -> float:
    found = part(run, protocol)
    return found.final.mrr if found.matrix else math.nan


def _shares(runs: Sequence[tuple[Results, Results]], protocol: str) -> list[float]:
    """Of each relation that all runs have: queries × difference of MRR, the mean over the runs. The
    sum over all relations is that of the differences of all queries."""
    tables = [tuple(run.relations.get(protocol, {}) for run in pair) for pair in runs]
    known = [name for name in tables[0][0] if all(name in each for pair in tables for each in pair)]
    return [
        fmean(mine[name].queries * (mine[name].mrr - theirs[name].mrr) for mine, theirs in tables)
        for name in known
    ]
