from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.training.made import made_graph, quick

import lkge
from lkge.training.trackers import MLflow

pytestmark = pytest.mark.usefixtures("one_thread")

Numbers = dict[tuple[str, int], float]


@dataclass
class Recorded:
    """A tracker that keeps what it is given; it breaks after snapshot `breaks_after`."""

    breaks_after: int = 99
    calls: list[str] = field(default_factory=list)
    numbers: Numbers = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def begin(self, name: str, settings: Mapping[str, Any]) -> None:
        self.calls.append(f"begin {name}")
        self.settings |= settings

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self.numbers |= {(name, step): value for name, value in numbers.items()}
        if "epochs" in numbers and step == self.breaks_after:
            raise KeyboardInterrupt

    def end(self, *, failed: bool) -> None:
        self.calls.append(f"end {failed}")


def run(*trackers: Any, **more: Any) -> lkge.Run:
    return lkge.run(made_graph(), config=quick(), trackers=trackers, **more)


def check(numbers: Numbers, results: lkge.Results) -> None:
    """The numbers of each epoch, of each model, and of the last model."""
    for record in results.snapshots:
        snapshot = record.index + 1
        for epoch in range(1, record.epochs + 1):
            assert (f"snapshot_{snapshot:03}/loss", epoch) in numbers
        assert numbers["epochs", snapshot] == record.epochs
        for name, protocol in results.protocols.items():
            expected = protocol.after(record.index).mrr
            assert numbers[f"{name}/mrr", snapshot] == pytest.approx(expected)
    for name, protocol in results.protocols.items():
        assert numbers[f"{name}/bwt", 3] == pytest.approx(protocol.bwt)
        assert numbers[f"{name}/hits10", 3] == pytest.approx(protocol.final.hits10)


def test_a_tracker_has_settings_numbers_and_an_end() -> None:
    one, other = Recorded(), Recorded()
    found = run(one, other)
    check(one.numbers, found.results)
    assert one.numbers == other.numbers
    assert one.settings["model.dim"] == 8
    assert one.calls[0].startswith("begin made-fine-tune-3-")
    assert one.calls[1:] == ["end False"]


def test_an_interrupted_run_is_followed_again_where_it_goes_on(tmp_path: Path) -> None:
    first, second = Recorded(breaks_after=2), Recorded()
    with pytest.raises(KeyboardInterrupt):
        run(first, out=tmp_path / "r")
    assert first.calls == ["begin r", "end True"]
    done = lkge.resume(tmp_path / "r", graph=made_graph(), trackers=[second])
    assert second.calls == ["begin r", "end False"]
    assert ("epochs", 1) not in second.numbers
    check(first.numbers | second.numbers, done.results)


@pytest.mark.parametrize("given", ["tensorboard", "tensorboard:", "wandb:runs", ":x", ""])
def test_an_unknown_tracker_is_an_error_before_anything_is_written(
    given: str, tmp_path: Path
) -> None:
    with pytest.raises(lkge.SettingsError, match="write KIND:FOLDER"):
        run(given, out=tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow"])
def test_a_missing_package_is_named(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(lkge.SettingsError, match=rf"pip install 'lkge\[{kind}\]'"):
        run(f"{kind}:{tmp_path}", out=tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = run(f"tensorboard:{tmp_path / 'tb'}", out=tmp_path / "a run")
    events = EventAccumulator(str(tmp_path / "tb" / "a-run"))
    events.Reload()
    tags = events.Tags()["scalars"]
    check({(tag, e.step): e.value for tag in tags for e in events.Scalars(tag)}, found.results)
    (settings,) = events.Tensors("settings/text_summary")
    assert b"| model.dim | 8 |" in settings.tensor_proto.string_val[0]


def test_mlflow_reads_what_was_written(tmp_path: Path) -> None:
    for package in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(package)
    from mlflow.tracking import MlflowClient

    found = run(f"mlflow:{tmp_path / 'ml flow'}", out=tmp_path / "a run")
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'ml flow' / 'mlflow.db'}")
    (experiment,) = client.search_experiments(filter_string="name = 'lkge'")
    (kept,) = client.search_runs([experiment.experiment_id])
    assert (kept.info.run_name, kept.info.status) == ("a run", "FINISHED")
    assert kept.data.params["model.dim"] == "8"
    histories = (client.get_metric_history(kept.info.run_id, name) for name in kept.data.metrics)
    check({(m.key, m.step): m.value for history in histories for m in history}, found.results)
    tracker = MLflow(str(tmp_path / "ml flow"))
    tracker.begin("broken", {})
    tracker.end(failed=True)
    names = {one.info.run_name: one for one in client.search_runs([experiment.experiment_id])}
    assert names["broken"].info.status == "FAILED"
