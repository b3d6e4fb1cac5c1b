"""Trackers: TensorBoard, MLflow, or a class with the three methods of `Tracker` follow a run.

Numbers of epochs are named `snapshot_001/loss`, with the epoch as their step; numbers of models
`paper/mrr`, with the snapshot as their step. A number that is not there (nan) is left out.
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from lkge.config import RunConfig
from lkge.errors import SettingsError
from lkge.evaluation.results import PROTOCOLS, Results
from lkge.reports.systems import MEASURES
from lkge.training.events import EpochFinished, Event, RunStarted, SnapshotFinished

EXPERIMENT = "lkge"


class Tracker(Protocol):
    """What follows a run. Each method is called in the process and thread that trains."""

    def begin(self, name: str, settings: Mapping[str, Any]) -> None:
        """The run starts, or goes on. `settings`: each by its name, such as `model.dim`."""

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Numbers by name, at an epoch or after a snapshot."""

    def end(self, *, failed: bool) -> None:
        """The run ends; `failed`: by an error or an interrupt."""


class TensorBoard:
    """Writes event files into `folder/NAME`: `tensorboard --logdir FOLDER`."""

    def __init__(self, folder: str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise SettingsError(_missing("tensorboard")) from error
        self._writer: Callable[[str], Any] = SummaryWriter
        self._folder = Path(folder)

    def begin(self, name: str, settings: Mapping[str, Any]) -> None:
        """Open a new file and write the settings as a table."""
        self._open = self._writer(str(self._folder / re.sub(r"[^\w.-]+", "-", name)))
        rows = "".join(f"| {key} | {value} |\n" for key, value in settings.items())
        self._open.add_text("settings", f"| setting | value |\n| --- | --- |\n{rows}")

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Add a scalar for each number."""
        for name, value in numbers.items():
            self._open.add_scalar(name, value, step)
        self._open.flush()

    def end(self, *, failed: bool) -> None:
        """Close the file."""
        self._open.close()


class MLflow:
    """Adds a run to the experiment `lkge` of the database `folder/mlflow.db`, or of an address:
    `mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db`. MLflow's own telemetry is off unless
    `MLFLOW_DISABLE_TELEMETRY` says otherwise."""

    def __init__(self, place: str) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        try:
            import alembic  # noqa: F401
            import sqlalchemy  # noqa: F401
            from mlflow.entities import Metric, Param
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise SettingsError(_missing("mlflow")) from error
        self._client: Callable[..., Any] = MlflowClient
        self._metric: Callable[..., Any] = Metric
        self._param: Callable[..., Any] = Param
        self._place = place

    def begin(self, name: str, settings: Mapping[str, Any]) -> None:
        """Create a run with the settings as its parameters."""
        address = self._place
        if "://" not in address:
            Path(address).mkdir(parents=True, exist_ok=True)
            address = f"sqlite:///{Path(address).resolve() / 'mlflow.db'}"
        self._open = self._client(tracking_uri=address)
        known = self._open.get_experiment_by_name(EXPERIMENT)
        experiment = known.experiment_id if known else self._open.create_experiment(EXPERIMENT)
        self._run = self._open.create_run(experiment, run_name=name).info.run_id
        params = [self._param(key, str(value)) for key, value in settings.items()]
        self._open.log_batch(self._run, params=params)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Add a metric for each number."""
        now = int(1000 * datetime.now(UTC).timestamp())
        metrics = [self._metric(name, value, now, step) for name, value in numbers.items()]
        self._open.log_batch(self._run, metrics=metrics)

    def end(self, *, failed: bool) -> None:
        """Close the run."""
        self._open.set_terminated(self._run, "FAILED" if failed else "FINISHED")


KINDS: dict[str, Callable[[str], Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


def tracker_of(given: Tracker | str) -> Tracker:
    """A tracker, also from `KIND:FOLDER`."""
    if not isinstance(given, str):
        return given
    kind, colon, place = given.partition(":")
    if kind not in KINDS or not (colon and place):
        raise SettingsError(
            f"tracker {given!r}: write KIND:FOLDER; KIND is {' or '.join(KINDS)}, such as "
            "tensorboard:runs/tensorboard"
        )
    return KINDS[kind](place)


def _missing(extra: str) -> str:
    return f"this tracker needs {extra}: pip install 'lkge[{extra}]'"


class Follower:
    """A listener that passes the numbers of events on to trackers. They begin with the run."""

    def __init__(self, trackers: Sequence[Tracker], name: str, config: RunConfig) -> None:
        self._trackers, self._name, self._config = trackers, name, config
        self._begun: list[Tracker] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            for tracker in self._trackers:
                tracker.begin(self._name, self._config.flat())
                self._begun.append(tracker)
        elif isinstance(event, EpochFinished | SnapshotFinished):
            self._log(*numbers_of(event))

    def finish(self, results: Results) -> None:
        """The measures of the last model."""
        numbers = {
            f"{protocol}/{measure.key}": measure.of(results)
            for protocol in PROTOCOLS
            for measure in MEASURES[protocol]
        }
        self._log(numbers, len(results.snapshots))

    def end(self, *, failed: bool) -> None:
        """End the trackers that have begun."""
        while self._begun:
            self._begun.pop().end(failed=failed)

    def _log(self, numbers: Mapping[str, float], step: int) -> None:
        known = {name: value for name, value in numbers.items() if math.isfinite(value)}
        for tracker in self._begun:
            tracker.log(known, step)


@contextmanager
def followed(
    trackers: Iterable[Tracker | str], config: RunConfig, folder: Path | None
) -> Iterator[Follower]:
    """A listener for the trackers; each ends with the block. The name of the run is that of its
    folder, else dataset, method, seed and time."""
    now = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    parts = (config.dataset.name, config.method.name, config.training.seed, now)
    name = folder.resolve().name if folder else "-".join(map(str, parts))
    follower = Follower([tracker_of(each) for each in trackers], name, config)
    try:
        yield follower
    except BaseException:
        follower.end(failed=True)
        raise
    follower.end(failed=False)


def numbers_of(event: EpochFinished | SnapshotFinished) -> tuple[dict[str, float], int]:
    """The numbers of an event by name, and their step."""
    if isinstance(event, SnapshotFinished):
        numbers = {f"{name}/mrr": getattr(event, f"{name}_mrr") for name in PROTOCOLS}
        own = {"valid_mrr": event.valid_mrr, "epochs": event.epochs, "seconds": event.seconds}
        return numbers | own, event.snapshot + 1
    names = ("loss", "valid_mrr", "facts_per_second")
    prefix = f"snapshot_{event.snapshot + 1:03}"
    return {f"{prefix}/{name}": getattr(event, name) for name in names}, event.epoch
