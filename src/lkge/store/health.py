"""The health of a living graph: the quality of its newest version against the baseline, and a
verdict in words with the remedy.

worse, quality    the MRR of older held-out facts is below their baseline by more than a share, and
                  by more than sampling noise
worse, residue    retracted facts rank better than facts that were never trained
unknown           too few older held-out facts to judge
"""

import dataclasses
import math
import shlex
from collections.abc import Sequence
from typing import Any, Final

from lkge.errors import DamagedFile
from lkge.reports import text
from lkge.store import records
from lkge.store.quality import Quality
from lkge.store.reader import Reader
from lkge.store.records import (
    GOOD,
    UNKNOWN,
    WORSE,
    Cause,
    Comparison,
    StoreConfig,
    Verdict,
    VersionRecord,
)
from lkge.store.reliability import Reliability

QUALITY: Final = "quality"
RESIDUE: Final = "residue"
FIGURES = (
    *("since_baseline", "by_age", "last_update"),
    *("touched_facts", "untouched_facts", "residue"),
)
"""What a record takes over from `Quality`."""


@dataclasses.dataclass(frozen=True)
class Health:
    """The verdict on a version and its figures; those of `VersionRecord` under the same names.

    since        the version that was evaluated first
    verdict      good, worse or unknown; `causes` of worse: quality, residue
    summary      the verdict in one sentence
    remedy       what to do; empty unless worse
    total_drift  the sum of the drift of all versions
    reliability  plausibility against the share of true answers, when it was last calibrated; None
                 if it was not, or not by this release
    """

    version: int
    since: int | None
    verdict: str
    causes: tuple[str, ...]
    summary: str
    remedy: str
    since_baseline: Comparison
    by_age: dict[str, Comparison]
    last_update: Comparison
    touched_facts: Comparison
    untouched_facts: Comparison
    residue: Comparison
    drift: float
    total_drift: float
    reliability: Reliability | None
    warnings: tuple[str, ...]


def health(reader: Reader, name: str = "") -> Health:
    """The health of the version of a reader, from its record. Commands of the remedy have `name`
    for the graph; default: its folder. Without the log, if that is damaged, and with a warning."""
    record = reader.record
    log, damage = _log_of(reader)
    evaluated = [line.version for line in log if line.by_age]
    drifts = [line.drift for line in log if not math.isnan(line.drift)] if log else [math.nan]
    shared = {f.name for f in dataclasses.fields(Health)} & record.__dict__.keys()
    given = {name: getattr(record, name) for name in shared}
    return Health(
        **given | {"warnings": (*record.warnings, *damage)},
        since=evaluated[0] if evaluated else None,
        summary=summary_of(record),
        remedy=_remedy_of(reader, name or str(reader.store.folder))
        if record.verdict == WORSE
        else "",
        total_drift=sum(drifts),
        reliability=reader.calibration.reliability,
    )


def _log_of(reader: Reader) -> tuple[Sequence[VersionRecord], tuple[str, ...]]:
    """The log, and what is wrong with it; a damaged one is empty."""
    try:
        return reader.log, ()
    except DamagedFile as error:
        return (), (str(error),)


def recorded(
    record: VersionRecord, quality: Quality, last: VersionRecord, config: StoreConfig, remedy: str
) -> VersionRecord:
    """The record of a version with its quality, verdict and warnings; `last` is the record of the
    version before."""
    is_anew = record.kind == records.RELEARN
    causes = causes_of(quality, config, () if is_anew else last.causes)
    judged = quality.since_baseline.facts >= config.min_facts_for_warning
    fields: dict[str, Any] = {name: getattr(quality, name) for name in FIGURES}
    verdict: Verdict = WORSE if causes else GOOD if judged else UNKNOWN
    judged_record = dataclasses.replace(record, **fields, verdict=verdict, causes=causes)
    warnings = [*record.warnings, *update_warnings(quality.last_update, config)]
    if verdict == WORSE and last.verdict != WORSE:
        warnings.append(f"health is worse: {summary_of(judged_record)}; {remedy}")
    return dataclasses.replace(judged_record, warnings=tuple(warnings))


def causes_of(
    quality: Quality, config: StoreConfig, last: tuple[Cause, ...] = ()
) -> tuple[Cause, ...]:
    """Why a version is worse than it was; empty if it is not, or if the facts are too few. A cause
    of the `last` version stays as long as there is a loss, within sampling noise or not: a verdict
    that changes by chance would warn again and again."""
    least, errors = config.min_facts_for_warning, config.noise_errors
    causes: list[Cause] = []
    if is_loss(quality.since_baseline, config.worse_below_baseline, config, QUALITY in last):
        causes.append(QUALITY)
    residue, untrained = quality.residue, quality.hold_out.last[:, 0]
    if min(residue.facts, len(untrained)) >= max(least, 2):
        error = untrained.std(ddof=1) / math.sqrt(len(untrained))
        noise = errors * math.hypot(quality.residue_error, float(error))
        if residue.mrr - float(untrained.mean()) > (0 if RESIDUE in last else noise):
            causes.append(RESIDUE)
    return tuple(causes)


def is_loss(
    comparison: Comparison, share: float, config: StoreConfig, with_noise: bool = False
) -> bool:
    """Whether the MRR fell by more than a share of what it was and, unless `with_noise`, by more
    than sampling noise; no if the facts are few."""
    if comparison.facts < max(config.min_facts_for_warning, 2):
        return False
    noise = config.noise_errors * comparison.error
    return (
        with_noise or comparison.loss > noise
    ) and comparison.loss > share * comparison.mrr_before


def update_warnings(update: Comparison, config: StoreConfig) -> list[str]:
    """The warning that one update lowered older facts by more than a share."""
    if not is_loss(update, config.forgetting_warning, config):
        return []
    return [
        f"old held-out facts fell from MRR {update.mrr_before:.3f} to {update.mrr:.3f}; "
        f"`lkge rollback` takes the last version back"
    ]


def summary_of(record: VersionRecord) -> str:
    """The verdict in one sentence."""
    quality, residue = record.since_baseline, record.residue
    if record.verdict == UNKNOWN:
        few = f"{text.count(quality.facts)} older held-out facts are too few to judge"
        return f"{few}; they come with more facts, or with a larger share held out (--valid)"
    parts = []
    if record.verdict == GOOD or QUALITY in record.causes:
        significant = "a significant loss" if QUALITY in record.causes else "no significant loss"
        parts.append(
            f"MRR {text.number(quality.mrr)} of {text.count(quality.facts)} older held-out facts, "
            f"baseline {text.number(quality.mrr_before)}, {change_of(quality)}: {significant}"
        )
    if RESIDUE in record.causes:
        parts.append(
            f"{text.count(residue.facts)} retracted facts still have MRR "
            f"{text.number(residue.mrr)}, more than facts that were never trained"
        )
    return "; ".join(parts)


def change_of(comparison: Comparison, noise: bool = True) -> str:
    """The relative change of the MRR in percent, by default with its standard error."""
    if math.isnan(comparison.relative_loss):
        return text.ABSENT
    change = -100 * comparison.relative_loss
    sign = text.MINUS if round(change, 1) < 0 else "+"
    error = 100 * comparison.error / comparison.mrr_before
    margin = "" if math.isnan(error) or not noise else f" ± {error:.1f} %"
    return f"{sign}{abs(change):.1f} %{margin}"


def remedy_for(name: str, known: bool, kind: str) -> str:
    """What to do with a worse version of this kind; `known`: the graph keeps known facts."""
    if kind == records.RELEARN:
        return (
            "all known facts were learned at once and the quality is still below the baseline; "
            "make a graph with a larger --dim"
        )
    if known:
        return f"`{shlex.join(['lkge', 'relearn', name])}` learns all known facts at once"
    return "the graph keeps no known facts to learn again: make a graph anew from its facts"


def _remedy_of(reader: Reader, name: str) -> str:
    """The remedy, with the newest good version on the disk as a second way."""
    kept = set(reader.store.versions())
    remedy = remedy_for(name, reader.store.options.known, reader.record.kind)
    good = [line.version for line in reader.log if line.verdict == GOOD and line.version in kept]
    if not good:
        return remedy
    command = shlex.join(["lkge", "rollback", name, str(good[-1])])
    return f"{remedy}; `{command}` goes back to the last good version"
