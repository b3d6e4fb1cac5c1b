from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from lkge.cli import app
from lkge.cli.flags import DEFAULTS, option
from lkge.cli.run import default_folder, resume_line
from lkge.common_settings import COMMON
from lkge.config import RunConfig, literal
from lkge.configure import configure
from lkge.errors import DataError
from lkge.evaluation.results import Accuracy, ProtocolResult, Results, SnapshotRecord
from lkge.sizing import PRESET_VALUES, Size
from lkge.testing import paper_config
from lkge.training.events import RunFinished, RunStarted

RESULTS = Results(
    dataset="brick",
    method="lkge",
    config=paper_config().to_dict(),
    protocols={
        name: ProtocolResult(matrix=((Accuracy(0.5, 0.4, 0.5, 0.6, queries=10),),))
        for name in ("paper", "current")
    },
)


class FakeApi:
    """Stands in for `lkge.api`: records the calls, learns nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.interrupted = False
        self.warnings: tuple[str, ...] = ()
        self.results = RESULTS
        self.size = Size(entities=200, facts=1000)

    def load(self, name_or_path: str | Path, data: Path | None = None) -> Any:
        self.calls.append(("load", {"name": name_or_path, "data": data}))
        return SimpleNamespace(name="brick", warnings=self.warnings)

    def size_of(self, graph: Any) -> Size:
        return self.size

    def run(self, graph: Any, *, out: Path, listener: Any, config: RunConfig, trackers: Any) -> Any:
        call = {"graph": graph, "out": out, "trackers": trackers, "config": config}
        self.calls.append(("run", call))
        out.mkdir(parents=True)
        (out / "config.toml").write_text(config.to_toml(), encoding="utf-8")
        return self._learned(out, listener)

    def resume(self, folder: Path, listener: Any, data: Path | None, trackers: Any) -> Any:
        self.calls.append(("resume", {"folder": folder, "data": data, "trackers": trackers}))
        return self._learned(folder, listener)

    def _learned(self, folder: Path, listener: Any) -> Any:
        listener(RunStarted("brick", "lkge", snapshots=1, snapshot=0, epochs_done=0))
        if self.interrupted:
            raise KeyboardInterrupt
        listener(RunFinished(seconds=1.0))
        return SimpleNamespace(results=self.results, folder=folder)

    @property
    def config(self) -> RunConfig:
        """That of the last run."""
        config = self.calls[-1][1]["config"]
        assert isinstance(config, RunConfig)
        return config


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeApi:
    fake = FakeApi()
    for name in ("load", "size_of", "run", "resume"):
        monkeypatch.setattr(f"lkge.api.{name}", getattr(fake, name))
    monkeypatch.chdir(tmp_path)
    return fake


def lkge(*words: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


def assert_refused(result: Result, *fragments: str) -> None:
    """Exit code 2, one line on stderr, nothing on stdout, no traceback."""
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: ")
    for fragment in fragments:
        assert fragment in result.stderr


def test_the_common_settings_are_flags_with_the_text_of_their_section() -> None:
    run: Any = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    flags = {each.name: each for each in run.params}
    for name in COMMON:
        section, field = configure().place(name)
        fields = type(getattr(configure(), section)).model_fields
        assert flags[name].opts == [option(name)]
        assert flags[name].help == fields[field].description
    assert flags["assignments"].opts == ["--set"]


def test_without_flags_the_defaults_hold(api: FakeApi) -> None:
    assert lkge("run").exit_code == 0
    assert api.config == configure()
    assert api.config.method.name == "evergreen"
    assert [name for name, _ in api.calls] == ["load", "run"]
    assert api.calls[0][1] == {"name": "brick", "data": None}
    assert api.calls[1][1]["out"] == Path("runs/brick-evergreen-11")


@pytest.mark.parametrize(
    ("words", "changes", "preset"),
    [
        (["--method", "evergreen"], {}, "evergreen"),
        (["--method", "lkge"], {}, "paper"),
        (["--method", "ewc"], {"method": "ewc"}, "paper"),
        (["--preset", "paper"], {}, "paper"),
        (["--preset", "living"], {}, "living"),
        (["--preset", "evergreen", "--method", "re-train"], {"method": "re-train"}, "evergreen"),
    ],
)
def test_a_preset_is_named_or_comes_with_the_method(
    api: FakeApi, words: list[str], changes: dict[str, Any], preset: str
) -> None:
    assert lkge("run", *words).exit_code == 0
    assert api.config == configure(changes, preset)


def test_settings_follow_from_the_size_of_a_large_graph(api: FakeApi, tmp_path: Path) -> None:
    api.size = Size(entities=200_000, facts=1_000_000)
    result = lkge("run", "--out", tmp_path / "sized", "--batch-size", "1500")
    assert result.stderr.startswith("200,000 entities, 1,000,000 facts; batches of 1,500; ")
    config = api.calls[-1][1]["config"]
    assert config == configure({"batch_size": 1500}, size=api.size)
    assert config.training.max_candidates != PRESET_VALUES["training.max_candidates"]
    quiet = lkge("run", "--out", tmp_path / "quiet", "--quiet")
    assert "entities" not in quiet.stderr


def test_an_unknown_preset_is_one_line(api: FakeApi) -> None:
    assert_refused(lkge("run", "--preset", "papers"), "'papers'", "evergreen, paper")
    assert api.calls == []


def test_the_help_shows_the_defaults_of_the_default_run() -> None:
    assert {name: str(configure().get(name)) for name in DEFAULTS} == DEFAULTS


OTHER = {
    "dataset": "mine",
    "method": "ewc",
    "seed": 5,
    "score": "distmult",
    "dim": 8,
    "learning_rate": 0.25,
    "batch_size": 64,
    "max_epochs": 7,
    "patience": 2,
    "device": "cuda",
    "backend": "torch",
}
"""Another value than the paper's for each flag."""


@pytest.mark.parametrize("name", COMMON)
def test_each_flag_sets_its_field(api: FakeApi, name: str) -> None:
    words = ("run", "--preset", "paper", option(name), str(OTHER[name]))
    assert lkge(*words).exit_code == 0
    assert api.config == paper_config(**{name: OTHER[name]}) != paper_config()


TEXTS = {"memory": "none", "score": "distmult", "loss": "sampled", "optimizer": "adam"} | OTHER


def another(name: str, value: Any) -> Any:
    """Another value that the setting may have."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return TEXTS[name]
    return value + 1 if isinstance(value, int) else value / 2 or 0.5


@pytest.mark.parametrize("field", [name for name in configure().flat() if "name" not in name])
def test_every_setting_can_be_set_by_section_and_by_name(api: FakeApi, field: str) -> None:
    name = field.partition(".")[2]
    value = another(name, configure().get(field))
    for key in (field, name):
        assert lkge("run", "--set", f"{key}={literal(value)}", "--out", key).exit_code == 0
        assert api.config.get(field) == value
        assert api.config == configure({field: value}) != configure()


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (["method.replay_weight=1"], {"replay_weight": 1.0}),
        (["transfer=false", "training.n3 = 0.5"], {"transfer": False, "n3": 0.5}),
        (["training.loss=margin", "margin=2"], {"loss": "margin", "margin": 2.0}),
        (["training.loss='sampled'"], {"loss": "sampled"}),
        (["model.dim=8", "method=lkge", "alpha_is=not"], None),
    ],
)
def test_set_reads_toml_values_or_text(
    api: FakeApi, words: list[str], changes: dict[str, Any] | None
) -> None:
    done = lkge("run", *(word for each in words for word in ("--set", each)))
    if changes is None:
        assert_refused(done, "no setting 'alpha_is' for method 'lkge'")
    else:
        assert api.config == configure(changes)


@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        (["method.memory_size=3"], ["method 'evergreen'", "it belongs to dicgrl, emr, gem"]),
        (["margin=3"], ["training.margin has no effect", "it belongs to margin"]),
        (["replay_weight=much"], ["method.replay_weight = 'much'", "valid number"]),
        (["replay_weight"], ["--set replay_weight: write SECTION.NAME=VALUE"]),
        (["=2"], ["--set =2: write SECTION.NAME=VALUE"]),
    ],
)
def test_a_setting_without_effect_is_an_error(
    api: FakeApi, words: list[str], fragments: list[str]
) -> None:
    assert_refused(lkge("run", *(w for each in words for w in ("--set", each))), *fragments)
    assert api.calls == []


FILE = {"dim": 30, "seed": 5, "transfer": True, "max_epochs": 7}
OLD = "dim = 30\nseed = 5\ntransfer = true\nmax_epochs = 7\n"
NEW = "[model]\ndim = 30\n[training]\nseed = 5\nmax_epochs = 7\n[method]\ntransfer = true\n"


@pytest.mark.parametrize("content", [OLD, NEW])
@pytest.mark.parametrize(
    ("words", "changes", "preset"),
    [
        ([], FILE, "evergreen"),
        (["--preset", "paper"], FILE, "paper"),
        (["--dim", "200", "--set", "transfer=false"], FILE | {"dim": 200, "transfer": False}, None),
        (["--preset", "paper", "--dim", "200"], FILE | {"dim": 200}, "paper"),
    ],
)
def test_a_flag_outweighs_the_file_and_the_file_the_preset(
    api: FakeApi,
    tmp_path: Path,
    content: str,
    words: list[str],
    changes: dict[str, Any],
    preset: str | None,
) -> None:
    file = tmp_path / "my.toml"
    file.write_text(content, encoding="utf-8")
    assert lkge("run", "--config", file, *words).exit_code == 0
    assert api.config == configure(changes, preset)


@pytest.mark.parametrize("content", ['method = "ewc"\n', '[method]\nname = "ewc"\n'])
@pytest.mark.parametrize(
    ("words", "method", "preset"),
    [
        ([], "ewc", "paper"),
        (["--method", "evergreen"], "evergreen", "evergreen"),
        (["--preset", "evergreen"], "ewc", "evergreen"),
    ],
)
def test_a_method_in_the_file_is_a_method_that_is_named(
    api: FakeApi, tmp_path: Path, content: str, words: list[str], method: str, preset: str
) -> None:
    file = tmp_path / "my.toml"
    file.write_text(content, encoding="utf-8")
    assert lkge("run", "--config", file, *words).exit_code == 0
    assert api.config == configure({"method": method}, preset)


def test_another_method_leaves_out_the_settings_of_the_method_in_the_file(
    api: FakeApi, tmp_path: Path
) -> None:
    file = tmp_path / "my.toml"
    file.write_text('[model]\ndim = 8\n[method]\nname = "gem"\nmemory_size = 3\n', "utf-8")
    assert lkge("run", "--config", file, "--method", "ewc").exit_code == 0
    assert api.config == paper_config(method="ewc", dim=8)


def test_the_file_of_a_run_is_all_its_settings(api: FakeApi, tmp_path: Path) -> None:
    lkge("run", "--out", "r", "--method", "lkge", "--dim", "8")
    assert lkge("run", "--config", "r/config.toml", "--preset", "evergreen").exit_code == 0
    assert api.config.to_dict() == paper_config(dim=8).to_dict()


def test_data_and_out_are_passed_on(api: FakeApi, tmp_path: Path) -> None:
    out = tmp_path / "here"
    assert lkge("run", "--dataset", "FACT", "--data", "d.zip", "--out", out).exit_code == 0
    assert api.calls[0][1] == {"name": "FACT", "data": Path("d.zip")}
    assert api.calls[1][1]["out"] == out


@pytest.mark.parametrize(
    ("dataset", "name"),
    [("FACT", "FACT"), ("graphs/mine", "mine"), ("graphs/mine/", "mine"), ("a/b.zip", "b")],
)
def test_the_default_folder_is_named_after_the_run(dataset: str, name: str) -> None:
    config = paper_config(dataset=dataset, method="snapshot", seed=3)
    assert default_folder(config) == Path(f"runs/{name}-snapshot-3")


def test_the_table_and_the_page_are_printed(api: FakeApi) -> None:
    result = lkge("run")
    assert "lkge learns brick" in result.stdout
    assert "0.500" in result.stdout
    assert "open runs/brick-evergreen-11/index.html" in result.stdout


def test_what_a_method_cannot_do_is_printed(api: FakeApi) -> None:
    record = SnapshotRecord(0, 9, 5, 4, 2, 1, 1, 0.5, 1.0, 0.1, 0, note="1 of 2 relations …")
    api.results = dataclasses.replace(RESULTS, snapshots=(record,))
    assert "After the last snapshot: 1 of 2 relations …" in lkge("run").stdout


def test_warnings_of_the_reader_are_on_stderr(api: FakeApi) -> None:
    api.warnings = ("3 facts stand twice",)
    result = lkge("run", "--json")
    assert "warning: 3 facts stand twice" in result.stderr.splitlines()
    json.loads(result.stdout)


def test_quiet_shows_no_progress(api: FakeApi) -> None:
    result = lkge("run", "--quiet")
    assert "lkge learns brick" not in result.stdout + result.stderr
    assert "0.500" in result.stdout


def test_json_is_all_there_is_on_stdout(api: FakeApi) -> None:
    result = lkge("run", "--json")
    assert Results.from_json(json.loads(result.stdout)) == RESULTS
    assert "lkge learns brick" in result.stderr


def test_an_existing_folder_is_not_overwritten(api: FakeApi) -> None:
    assert lkge("run").exit_code == 0
    assert_refused(lkge("run"), "runs/brick-evergreen-11", "--resume", "--out")
    assert len(api.calls) == 2


def test_trackers_follow_a_run_and_what_goes_on_with_it(api: FakeApi) -> None:
    tracks = ["--track", "tensorboard:a b", "--track", "mlflow:m"]
    lkge("run", "--out", "r", *tracks)
    assert api.calls[-1][1]["trackers"] == ["tensorboard:a b", "mlflow:m"]
    api.interrupted = True
    result = lkge("run", "--resume", "r", *tracks)
    assert api.calls[-1][1]["trackers"] == ["tensorboard:a b", "mlflow:m"]
    assert "--resume r --track 'tensorboard:a b' --track mlflow:m" in result.stderr


def test_resume_goes_on_with_the_folder(api: FakeApi) -> None:
    lkge("run", "--out", "r")
    result = lkge("run", "--resume", "r", "--data", "d.zip")
    assert result.exit_code == 0
    call = {"folder": Path("r"), "data": Path("d.zip"), "trackers": []}
    assert api.calls[-1] == ("resume", call)


def test_resume_takes_no_other_settings(api: FakeApi) -> None:
    lkge("run", "--out", "r")
    refused = lkge("run", "--resume", "r", "--dim", "200", "--set", "transfer=false", "--out", "q")
    assert_refused(refused, "--resume", "--dim", "--set transfer", "--out")
    assert_refused(lkge("run", "--resume", "r", "--config", "c.toml"), "--config")
    assert_refused(lkge("run", "--resume", "r", "--preset", "paper"), "--preset")


def test_resume_needs_a_run_folder(api: FakeApi) -> None:
    assert_refused(lkge("run", "--resume", "nowhere"), "nowhere", "not a run folder")


def test_an_interrupted_run_says_how_to_go_on(api: FakeApi) -> None:
    api.interrupted = True
    result = lkge("run", "--out", "my run", "--data", "d.zip")
    assert result.exit_code == 130
    assert "lkge run --resume 'my run' --data d.zip" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_interrupt_before_the_first_step_promises_nothing(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lkge.api.load", interrupted)
    result = lkge("run")
    assert result.exit_code == 130
    assert "--resume" not in result.stderr


def test_the_resume_line_names_the_data_only_where_it_was_named() -> None:
    assert resume_line(Path("r")) == "lkge run --resume r"


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["--dim", "0"], "dim = 0"),
        (["--method", "lkge", "--set", "regularization_form=cubed"], "regularization_form"),
        (["--config", "absent.toml"], "absent.toml"),
    ],
)
def test_bad_settings_are_one_line(api: FakeApi, words: list[str], fragment: str) -> None:
    assert_refused(lkge("run", *words), fragment)
    assert api.calls == []


def test_a_bad_config_file_is_named(api: FakeApi, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text("dimension = 3\n", encoding="utf-8")
    assert_refused(lkge("run", "--config", config), "c.toml", "'dimension'")


def test_an_error_while_learning_is_one_line(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> None:
        raise DataError("has two fields instead of three", file="[red]x.txt", line=7)

    monkeypatch.setattr("lkge.api.load", damaged)
    assert_refused(lkge("run", "--json"), "[red]x.txt:7: has two fields")


def test_a_full_disk_is_one_line(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "runs/x")

    monkeypatch.setattr("lkge.api.load", full)
    assert_refused(lkge("run", "--json"), "runs/x: No space left on device")
