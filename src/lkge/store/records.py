"""Records of a store: options, config, the manifest of a version, a line of its log.

Each record is a file or a part of a file: JSON with a checksum. Reading checks every field: its
name, its type and that none is missing or unknown. A float that is nan is null in JSON.

A file says which format a reader of it must know, and which one a writer. A later release that only
adds what readers may ignore raises the format of writers alone: then this release reads, without
the fields that it does not know, and does not write.
"""

import dataclasses
import json
import math
import re
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from lkge.data.checked_json import read_checked_json, write_checked_json
from lkge.data.files import as_run_error
from lkge.data.rows import html_table
from lkge.errors import DamagedFile, NewerFormat
from lkge.evaluation.results import nan_to_none
from lkge.store.calibration import Calibration

FORMAT = 3
"""What is written, for readers and for writers."""
OLD_FORMATS = (1, 2)
"""What is read beside it. In format 1, of release 0.1, fields have other names (`OLD_FIELDS`)."""
OLD_FIELDS = {"settings": "config", "lessons": "updates"}
REMEDY = "`lkge verify` finds all damage, `lkge verify --repair` mends what can be mended"
INIT, ADD, EDIT, ROLLBACK, CONFIG = "init", "add", "edit", "rollback", "config"
CONSOLIDATE, RELEARN = "consolidate", "relearn"
LOST = "lost"
"""The kind of a line of the log that was lost with a damaged file."""
COMPACT = "compact"
"""What a writer does without a new version."""
NOTHING = "nothing"
"""The kind of a record that is no version: the batch had nothing new. It is in no log."""
FAILED = "failed"
"""The same, of a batch that could not be learned or applied."""
WITH_BATCH = (ADD, EDIT)
"""The kinds of versions that a batch led to."""
GOOD: Final = "good"
WORSE: Final = "worse"
UNKNOWN: Final = "unknown"
STRICT = ConfigDict(strict=True, extra="forbid")
ROW = ("version", "kind", "facts", "MRR of added facts", "MRR of kept facts", "health")
"""The columns of `VersionRecord.row`."""

Record = TypeVar("Record")
Number = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
"""A float whose nan is null in JSON."""
OldCalibration = tuple[Number, Number]
"""Slope and offset of a curve from score to plausibility, up to release 0.1."""
Count = Annotated[int, Field(ge=0)]
Verdict = Literal["good", "worse", "unknown"]
Cause = Literal["quality", "residue"]


SavedConfig = dict[str, Any]
"""What `lkge.configure.from_tree` reads."""


@dataclass(frozen=True, config=STRICT)
class StoreConfig:
    """How updates of a living graph are split, trained and evaluated. It is not stored."""

    hold_out_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.02
    """The fraction of new facts that is not trained on: one half for validation, one half for the
    hold-out set."""
    min_validation_facts: Count = 5
    """If one half has fewer facts, all go to the hold-out set: their MRR would be chance."""
    subgraph_entities: Count = 3_000
    """Old entities that are sampled for the subgraph of an update, at least."""
    subgraph_entities_per_fact: Count = 3
    """Old entities that are sampled for each fact of a large update."""
    compact_after: Annotated[float, Field(gt=0)] = 0.1
    """Base files are written anew when the changes since are this share of their bytes."""
    deltas_from_bytes: Count = 1 << 20
    """Smaller base files are written anew by each version."""
    calibrate_after: Annotated[float, Field(ge=0)] = 0.01
    """Plausibility is calibrated again after so many new and retracted facts for each known one."""
    hold_out_facts: Count = 2_000
    """Facts of the hold-out set, at most."""
    calibration_facts: Count = 500
    """Hold-out facts that plausibility is calibrated on, at most."""
    evaluation_candidates: Count = 20_000
    """Entities that a hold-out fact is ranked among, at most."""
    forgetting_warning: Annotated[float, Field(ge=0)] = 0.01
    """The relative loss of MRR on older hold-out facts in one update, beyond sampling noise, that
    leads to a warning."""
    worse_below_baseline: Annotated[float, Field(ge=0)] = 0.05
    """The relative loss of MRR on older hold-out facts since their baseline that is `worse`."""
    noise_errors: Annotated[float, Field(ge=0)] = 2.0
    """A loss within so many standard errors is sampling noise."""
    min_facts_for_warning: Count = 20
    """With fewer older hold-out facts there is no warning, and the verdict is `unknown`."""
    tracked_retractions: Count = 200
    """Retracted facts that are still ranked in later versions, at most."""
    seconds_between_checkpoints: Annotated[float, Field(ge=0)] = 5.0
    """Between two checkpoints of an update in training."""


KINDS = ("model", "inference", "names", "known", "hold_out", "batch")
"""The kinds of files of a version."""
PLAIN_NAME = re.compile(
    r"(?P<version>\d{6}|[1-9]\d{6,})-((model|inference|names|known|hold_out)-(base|delta)"
    r"\.safetensors|batch\.json)",
    re.ASCII,
)
"""Names of files that a manifest may have: they stay in their folder."""


@dataclass(frozen=True, config=STRICT)
class FileChecksum:
    """Number of bytes of a file and a SHA-256: of all of it, or of the header and the block
    checksums of a file of arrays."""

    sha256: str
    bytes: Count


@dataclass(frozen=True, config=STRICT)
class File(FileChecksum):
    """A file that a manifest names."""

    name: str

    def __post_init__(self) -> None:
        if not PLAIN_NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not the name of a file of a version")


@dataclass(frozen=True, config=STRICT)
class LogPosition:
    """How many bytes of the log belong to a version, and the checksum of its last line."""

    bytes: Count = 0
    checksum: str = ""


@dataclass(frozen=True, config=STRICT)
class Comparison:
    """The same facts before and now, ranked among the same entities.

    facts     how many
    mrr_before, mrr, hits10_before, hits10   their MRR and Hits@10; nan without facts
    error     standard error of the mean difference of 1/rank; nan below two facts
    """

    facts: Count = 0
    mrr_before: Number = math.nan
    mrr: Number = math.nan
    hits10_before: Number = math.nan
    hits10: Number = math.nan
    error: Number = math.nan

    @property
    def loss(self) -> float:
        """The fall of the MRR; negative if it rose."""
        return self.mrr_before - self.mrr

    @property
    def relative_loss(self) -> float:
        """The same as a share of the MRR before; nan if that is zero or unknown."""
        return self.loss / self.mrr_before if self.mrr_before > 0 else math.nan


@dataclass(frozen=True, config=STRICT)
class VersionRecord:
    """A line of the log. Numbers that could not be measured are nan.

    created             UTC to the second; with `add`, when the batch was accepted; with
                        `consolidate`, that of the version before
    entities, relations, known_facts   totals
    mrr_new             MRR of the hold-out facts of this batch
    mrr_old_before, mrr_old   MRR of older hold-out facts, under the last and under this version
    candidates          entities that hold-out facts were ranked among
    full                whether all known facts were trained on, not new ones and a sample
    drift               mean of 1 - cosine over the `touched` old rows that changed
    removed             how many of `entities` were removed; each keeps its row and has no name
    since_baseline      older hold-out facts, against their baseline (`lkge.store.quality`)
    by_age              the same by age class, such as "3-6": facts that came 3 to 6 versions ago
    last_update         older hold-out facts, against the last version
    touched_facts, untouched_facts   the same, for facts with and without an entity of the batch
    residue             retracted facts, against the version that still knew them
    verdict, causes     good, worse or unknown; worse because of "quality", "residue" or both
    """

    version: int
    kind: str
    created: str
    facts: int = 0
    retracted: int = 0
    new_entities: int = 0
    new_relations: int = 0
    entities: int = 0
    relations: int = 0
    known_facts: int = 0
    mrr_new: Number = math.nan
    mrr_old_before: Number = math.nan
    mrr_old: Number = math.nan
    candidates: int = 0
    full: bool = False
    drift: Number = math.nan
    touched: int = 0
    epochs: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    source: str = ""
    batch: int = 0
    since_baseline: Comparison = Comparison()
    by_age: dict[str, Comparison] = field(default_factory=dict)
    last_update: Comparison = Comparison()
    touched_facts: Comparison = Comparison()
    untouched_facts: Comparison = Comparison()
    residue: Comparison = Comparison()
    verdict: Verdict = UNKNOWN
    causes: tuple[Cause, ...] = ()
    removed: int = 0

    @property
    def is_version(self) -> bool:
        """Whether there is a version; otherwise nothing was new, or learning failed, and
        `warnings` says so."""
        return self.kind not in (NOTHING, FAILED)

    @property
    def row(self) -> tuple[str | float, ...]:
        """What a notebook shows of it, under the names of `ROW`."""
        return self.version, self.kind, self.facts, self.mrr_new, self.mrr_old, self.verdict

    def _repr_html_(self) -> str:
        return html_table("", ROW, [self.row])


@dataclass(frozen=True, config=STRICT)
class Manifest:
    """A version.

    last_batch   the last batch that was learned
    record       its line of the log
    files        of each kind, the base file and then its deltas; a batch has one file
    log          which part of the log is that of the version
    updates      updates (or snapshots of a run) that its model has learned
    facts_since_calibration     facts that changed since the calibration was fitted
    facts_since_consolidation   new facts since all known facts were trained on
    provenance   the code that made it
    """

    version: int
    last_batch: int
    config: SavedConfig
    calibration: Calibration | OldCalibration
    record: VersionRecord
    files: dict[str, tuple[File, ...]] = field(default_factory=dict)
    log: LogPosition = LogPosition()
    updates: int = 0
    facts_since_calibration: Count = 0
    facts_since_consolidation: Count = 0
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.record.version != self.version:
            raise ValueError(f"the line of the log is of version {self.record.version}")

    @property
    def names(self) -> set[str]:
        """The names of all files."""
        return {file.name for files in self.files.values() for file in files}

    def next(self, record: VersionRecord, **changes: Any) -> Self:
        """The manifest of the next version, with the same files and its own line of the log."""
        since = 0 if record.full else self.facts_since_consolidation + record.facts
        same: dict[str, Any] = {"version": record.version, "record": record}
        return dataclasses.replace(self, **same, **({"facts_since_consolidation": since} | changes))


@dataclass(frozen=True, config=STRICT)
class Options:
    """How many versions are kept on disk, whether known facts are stored, and for how many days
    each version is kept at least."""

    keep: int = 5
    known: bool = True
    keep_days: Count = 0


@dataclass(frozen=True, config=STRICT)
class Root:
    """Settings and options that a store was made with."""

    config: SavedConfig
    options: Options


def now() -> str:
    """The time, UTC to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_record(path: Path, record: Any) -> None:
    """Write a record as JSON with a checksum, atomically."""
    with as_run_error(path):
        write_checked_json(path, {"format": THIS_FORMAT, **to_json(record)})


def read_record(path: Path, kind: type[Record]) -> Record:
    """The record that `write_record` wrote, its checksum and every field verified."""
    return read_with_format(path, kind)[0]


def read_with_format(path: Path, kind: type[Record]) -> "tuple[Record, Format]":
    """The same, and the format in which it was written."""
    try:
        tree = read_checked_json(path, follow=False)
        format_ = format_of(path, tree.pop("format", None))
        if format_.reader == 1:
            tree = {OLD_FIELDS.get(name, name): value for name, value in tree.items()}
        return from_json(kind, tree, with_unknown=format_.writer > FORMAT), format_
    except (DamagedFile, ValueError) as error:
        raise DamagedFile(f"{path}: damaged; {REMEDY}") from error


class Format(NamedTuple):
    """The format that a reader of a file must know, and the one that a writer must."""

    reader: int
    writer: int


def format_of(path: Path, written: Any) -> Format:
    """The format in a file; NewerFormat if this release cannot read it. Formats 1 and 2 are one
    number."""
    match written:
        case {"reader": int(reader), "writer": int(writer)} if FORMAT <= reader <= writer:
            format_ = Format(reader, writer)
        case int(old) if old in OLD_FORMATS or (old > FORMAT):
            format_ = Format(old, old)
        case other:
            raise DamagedFile(f"{path}: written in format {other!r}")
    if format_.reader > FORMAT:
        raise NewerFormat(
            f"{path}: written in format {format_.reader} by a newer release; upgrade lkge, "
            f"which reads formats up to {FORMAT} here"
        )
    return format_


THIS_FORMAT = {"reader": FORMAT, "writer": FORMAT}


def to_json(record: Any) -> dict[str, Any]:
    """The fields of a record as `json.dump` takes them; nan is None."""
    adapter: TypeAdapter[Any] = TypeAdapter(type(record))
    return dict(nan_to_none(adapter.dump_python(record)))


def from_json(kind: type[Record], tree: Any, *, with_unknown: bool = False) -> Record:
    """Inverse of `to_json`; a ValueError if a field is missing or of another type, or unknown and
    not `with_unknown`: then it is left out."""
    adapter = TypeAdapter(kind)
    try:
        return adapter.validate_json(json.dumps(tree))
    except ValidationError as error:
        unknown = [e["loc"] for e in error.errors() if e["type"] == "unexpected_keyword_argument"]
        if not (with_unknown and unknown):
            raise
    return from_json(kind, _without(tree, unknown), with_unknown=with_unknown)


def _without(tree: Any, places: list[tuple[int | str, ...]]) -> Any:
    """A tree without what is at some places."""
    left = json.loads(json.dumps(tree))
    for *path, last in places:
        inside = left
        for step in path:
            inside = inside[step]
        del inside[last]
    return left
