"""Systems: runs that differ only in their seed. Measures of a system are means over its runs."""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from lkge.config import RunConfig
from lkge.configure import configure, flat_config
from lkge.errors import UnknownName
from lkge.evaluation.results import PROTOCOLS, ProtocolResult, Results, SnapshotRecord
from lkge.provenance import codes_of
from lkge.reports import text
from lkge.reports.statistics import t_interval

NOT_IDENTITY = frozenset(
    {"dataset.name", "method.name", "training.seed", "training.backend", "training.device"}
)
"""Settings that do not make another system: the run itself, and where it ran."""

REFERENCES = frozenset({"re-train"})
"""Methods that keep every fact. They are references: never marked as the best."""


class Spread(NamedTuple):
    """Mean, sample standard deviation, and half the width of the 95 % interval of the mean; nan
    where there is nothing to average."""

    mean: float
    deviation: float
    half_width: float


@dataclass(frozen=True)
class Measure:
    """One number of a run: its column title, its format, and whether lower is better."""

    key: str
    title: str
    of: Callable[[Results], float]
    text: Callable[[float], str] = text.number
    lower_is_better: bool = False

    def deviation(self, spread: Spread) -> str:
        """` ±0.002`, or nothing for a single run."""
        return "" if math.isnan(spread.deviation) else f" ±{self.text(spread.deviation)}"


@dataclass(frozen=True)
class System:
    """The runs of one method with one choice of settings on one dataset."""

    dataset: str
    name: str
    runs: tuple[Results, ...]

    @property
    def seeds(self) -> list[Any]:
        """The seed of each run that says it."""
        return [run.seed for run in self.runs if run.seed is not None]

    @property
    def code(self) -> str:
        """The versions of the code that made the runs."""
        codes = (code for run in self.runs for code in codes_of(run.provenance))
        return ", ".join(dict.fromkeys(codes))

    @property
    def competes(self) -> bool:
        """Whether it may be marked as the best: it is not a reference."""
        return self.runs[0].method not in REFERENCES

    def spread(self, measure: Measure) -> Spread:
        """The measure over the runs."""
        return spread(measure.of(run) for run in self.runs)

    def is_best(self, measure: Measure, best: str | None) -> bool:
        """Whether its mean is `best` as printed."""
        return self.competes and measure.text(self.spread(measure).mean) == best

    def matrix(self, protocol: str) -> list[list[float]]:
        """MRR of M_i on Q_j for j ≤ i, each the mean over the runs that have it."""
        matrices = [part(run, protocol).matrix for run in self.runs]
        return [
            _means([[cell.mrr for cell in row] for row in rows])
            for rows in zip_longest(*matrices, fillvalue=())
        ]

    def by_age(self, protocol: str) -> list[float]:
        """MRR of the last model on the test facts that are new in each snapshot."""
        return next(iter(self.matrix(protocol)[-1:]), [])

    def so_far(self, protocol: str) -> list[float]:
        """MRR of M_i on the union of Q_1 … Q_i; means over the runs."""
        found = [part(run, protocol) for run in self.runs]
        return _means([[each.after(i).mrr for i in range(len(each.matrix))] for each in found])

    def forward(self, protocol: str) -> list[float]:
        """MRR of M_i on Q_{i+1} before training on snapshot i+1; means over the runs."""
        return _means([[cell.mrr for cell in part(run, protocol).forward] for run in self.runs])

    def per_snapshot(self, of: Callable[[SnapshotRecord], float]) -> list[float]:
        """A number of each snapshot's record; means over the runs."""
        return _means([list(map(of, run.snapshots)) for run in self.runs])


def _means(lines: Iterable[Sequence[float]]) -> list[float]:
    """The mean at each place, over the lines that are long enough."""
    return [spread(values).mean for values in zip_longest(*lines, fillvalue=math.nan)]


def spread(values: Iterable[float]) -> Spread:
    """Mean, deviation and interval of the values that are not nan."""
    known = [value for value in values if not math.isnan(value)]
    mean = statistics.fmean(known) if known else math.nan
    deviation = statistics.stdev(known) if len(known) > 1 else math.nan
    return Spread(mean, deviation, t_interval(known))


def part(run: Results, protocol: str) -> ProtocolResult:
    """What a run found under a protocol: empty where it was not asked."""
    return run.protocols.get(protocol, ProtocolResult())


def systems_of(results: Iterable[Results]) -> list[System]:
    """The systems, each dataset's together, otherwise in the order of their first runs."""
    groups: dict[str, dict[tuple[str, str], list[Results]]] = {}
    for run in results:
        variants = groups.setdefault(run.dataset, {})
        key = json.dumps(_identity(run.config), sort_keys=True, default=str)
        variants.setdefault((run.method, key), []).append(run)
    return [
        System(text.printable(dataset), _name(runs[0], variants.values()), tuple(runs))
        for dataset, variants in groups.items()
        for runs in variants.values()
    ]


def by_dataset(systems: Iterable[System]) -> dict[str, list[System]]:
    """The systems of each dataset."""
    groups: dict[str, list[System]] = {}
    for system in systems:
        groups.setdefault(system.dataset, []).append(system)
    return groups


def _protocol_measures(protocol: str) -> tuple[Measure, ...]:
    """MRR, Hits@1/3/10 of the last model on the union of the tests; FWT and BWT."""

    def final(key: str) -> Callable[[Results], float]:
        def of(run: Results) -> float:
            found = part(run, protocol)
            return float(getattr(found.final, key)) if found.matrix else math.nan

        return of

    titles = {"mrr": "MRR", "hits1": "H@1", "hits3": "H@3", "hits10": "H@10"}
    return (
        *(Measure(key, title, final(key)) for key, title in titles.items()),
        Measure("fwt", "FWT", lambda run: part(run, protocol).fwt),
        Measure("bwt", "BWT", lambda run: part(run, protocol).bwt),
    )


def _most_carried(run: Results) -> float:
    return max((float(record.carried_bytes) for record in run.snapshots), default=math.nan)


MEASURES = {protocol: _protocol_measures(protocol) for protocol in PROTOCOLS}
TIME = Measure("seconds", "Time", lambda run: run.seconds, text.duration, lower_is_better=True)
STATE = Measure("carried_bytes", "Carried", _most_carried, text.size, lower_is_better=True)
COSTS = (TIME, STATE)


def best_text(systems: Sequence[System], measure: Measure) -> str | None:
    """The best mean among the systems that compete, as printed; None if all means are equal."""
    means = [system.spread(measure).mean for system in systems if system.competes]
    known = [mean for mean in means if not math.isnan(mean)]
    if len({measure.text(mean) for mean in known}) < 2:
        return None
    return measure.text(min(known) if measure.lower_is_better else max(known))


def _identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a system of a run; a setting that it does not name, an older one, had the value
    that is now the default."""
    return {n: value for n, value in flat_config(config).items() if n not in NOT_IDENTITY}


def _name(run: Results, variants: Iterable[Sequence[Results]]) -> str:
    """The method, and the settings that differ from other variants of the method and from the
    defaults. If the score distinguishes all variants, only the score; a component that is switched
    off is always named.
    """
    siblings = [_identity(runs[0].config) for runs in variants if runs[0].method == run.method]
    scores = {each.get("model.score") for each in siblings}
    by_score = 1 < len(scores) == len(siblings)
    try:
        defaults = configure({"method": run.method}).flat()
    except UnknownName:  # the method need not be installed
        defaults = RunConfig().flat()
    words = [run.method]
    for name, value in sorted(_identity(run.config).items()):
        setting = name.partition(".")[2].replace("_", " ")
        differs = any(sibling.get(name) != value for sibling in siblings)
        if value is False:
            if value != defaults.get(name):
                words.append(f"no {setting}")
        elif name == "model.score" if by_score else differs and value != defaults.get(name):
            words.append(setting if value is True else f"{setting} {value}")
    return text.printable(", ".join(words))
