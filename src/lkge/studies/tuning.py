"""The search for settings: the whole grid, or Optuna over the same values.

Settings are chosen by the MRR of the last model on the validation facts of all snapshots. Test
figures are not used and not stored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any

from lkge.config import ModelConfig, RunConfig, Section, literal
from lkge.data.documents import read_json
from lkge.data.files import write_text_atomically
from lkge.errors import RunError, SettingsError
from lkge.evaluation.results import nan_to_none
from lkge.studies.display import Observer
from lkge.studies.result_store import RESULTS, read_results, require_same
from lkge.studies.runner import Failure, Job, run_arguments, run_jobs

FILE = "tune.json"
Choice = Mapping[str, Any]
"""A value for each setting that is searched, by `section.name`."""
Space = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Trial:
    """A choice of settings and its validation MRR."""

    choice: Choice
    valid_mrr: float
    epochs: int
    seconds: float


@dataclass
class Search:
    """The trials so far, stored in a file. `settings`: those that are not searched."""

    folder: Path
    config: RunConfig
    space: Space
    trials: list[Trial] = field(default_factory=list)

    @classmethod
    def opened(cls, folder: Path, config: RunConfig, space: Space) -> Search:
        """A new search, or the search in that folder, if it has the same settings and space."""
        search, file = cls(folder, config, space), folder / FILE
        if file.exists():
            search.trials += _read_trials(file, config, space)
        return search

    @property
    def best(self) -> Trial | None:
        """The first trial with the highest validation MRR; None if there is none."""
        known = [trial for trial in self.trials if not math.isnan(trial.valid_mrr)]
        return max(known, key=lambda trial: trial.valid_mrr, default=None)

    def job(self, choice: Choice) -> Job:
        """The run of a trial."""
        name = "-".join(
            f"{key.partition('.')[2]}-{value if isinstance(value, str) else literal(value)}"
            for key, value in choice.items()
        )
        return Job(name, self.config.with_changes(choice), self.folder / "runs" / name)

    def add(self, job: Job) -> None:
        """Add the trial of a finished run and write the file."""
        records = read_results(job.folder / RESULTS).snapshots
        self.trials.append(
            Trial(
                choice={name: job.config.get(name) for name in self.space},
                valid_mrr=records[-1].union_valid_mrr,
                epochs=sum(record.epochs for record in records),
                seconds=sum(record.seconds for record in records),
            )
        )
        write_text_atomically(self.folder / FILE, json.dumps(self.to_json(), indent=1) + "\n")

    def to_json(self) -> dict[str, Any]:
        """A plain tree for `json.dump`; an unknown validation MRR is null."""
        best = self.best
        words = run_arguments(self.config.with_changes(best.choice)) if best else []
        tree = {
            "settings": self.config.to_dict(),
            "space": self.space,
            "trials": list(map(asdict, self.trials)),
            "best": asdict(best) if best else None,
            "command": ["lkge", *words] if best else None,
        }
        return dict(nan_to_none(tree))

    def run(
        self, *, trials: int | None, jobs: int, observer: Observer, data: Path | None = None
    ) -> list[Failure]:
        """Try the whole grid, or `trials` choices of Optuna, `jobs` at a time."""
        failures: list[Failure] = []
        tried = [trial.choice for trial in self.trials]
        while choices := self._next(tried, trials, jobs):
            tried += choices
            batch = [self.job(choice) for choice in choices]
            failures += run_jobs(batch, at_once=jobs, store=self.add, observer=observer, data=data)
        return failures

    def _next(self, tried: Sequence[Choice], trials: int | None, jobs: int) -> list[Choice]:
        """The whole rest of the grid, or the next few choices of Optuna."""
        rest = [choice for choice in grid(self.space) if choice not in tried]
        if trials is None:
            return rest
        wanted = min(trials - len(tried), len(rest), jobs)
        suggested = suggestions(self.space, self.trials, self.config.training.seed)
        return list(islice((each for each in suggested if each in rest), max(wanted, 0)))


def space_of(config: RunConfig, *, base: bool) -> Space:
    """The values to try, by `section.name`: of the method's own settings, or of the base model if
    `base` or if the method has none. A setting with a `grid` has that; a method without any grid
    has values around each of its numbers."""
    own = _with_section("method", type(config.method).grid() or _around(config.method))
    space = own if own and not base else _base_space(config)
    for choice in grid(space):
        config.with_changes(choice)
    return space


def _base_space(config: RunConfig) -> Space:
    """The paper's grid for Adam; values around those of the preset for another optimizer."""
    if config.training.optimizer == "adam":
        of_training = type(config.training).grid()
        return _with_section("training", of_training) | _with_section("model", ModelConfig.grid())
    names = ("learning_rate", "batch_size")
    near = {name: _near(getattr(config.training, name)) for name in names}
    return _with_section("training", near) | {"model.dim": _near(config.model.dim)[:2]}


def _around(section: Section) -> dict[str, tuple[Any, ...]]:
    """Values around each number of a section that its bounds allow."""
    numbers = {name: value for name, value in section if type(value) in (int, float) and value}
    return {
        name: tuple(each for each in _near(value) if _is_allowed(section, name, each))
        for name, value in numbers.items()
    }


def _near(value: float) -> tuple[Any, ...]:
    """A value, and others below and above it."""
    if isinstance(value, int):
        return (max(1, value // 2), value, 2 * value)
    return tuple(float(f"{factor * value:.3g}") for factor in (1 / 3, 1, 3))


def _is_allowed(section: Section, name: str, value: object) -> bool:
    try:
        type(section).model_validate({**section.model_dump(), name: value})
    except ValueError:
        return False
    return True


def _with_section(section: str, values: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {f"{section}.{name}": tuple(each) for name, each in values.items()}


def grid(space: Space) -> list[Choice]:
    """Every combination, the last setting varying fastest."""
    return [dict(zip(space, values, strict=True)) for values in product(*space.values())]


def suggestions(space: Space, trials: Sequence[Trial], seed: int) -> Iterator[Choice]:
    """Choices of Optuna given the trials so far, each once, then the rest of the grid.

    The sampler is seeded by `seed` and the number of trials: a resumed search makes the choices
    that it would have made without the stop.
    """
    optuna = _optuna()
    sampler = optuna.samplers.TPESampler(seed=seed + len(trials), n_startup_trials=3)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    kind = optuna.distributions.CategoricalDistribution
    kinds = {name: kind(tuple(values)) for name, values in space.items()}
    for trial in trials:
        value = None if math.isnan(trial.valid_mrr) else trial.valid_mrr
        state = optuna.trial.TrialState["FAIL" if value is None else "COMPLETE"]
        tried = {"params": dict(trial.choice), "distributions": kinds}
        study.add_trial(optuna.trial.create_trial(**tried, value=value, state=state))
    known, size = list[Choice](), len(grid(space))
    for _ in range(10 * size):
        choice = dict(study.ask(kinds).params)
        if choice not in known:
            known.append(choice)
            yield choice
    yield from (choice for choice in grid(space) if choice not in known)


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise SettingsError(
            "--trials needs Optuna, which is not installed; run: pip install 'lkge[tune]', "
            "or leave out --trials to try the whole grid"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _trial(tree: Mapping[str, Any]) -> Trial:
    mrr = tree["valid_mrr"]
    return Trial(**{**tree, "valid_mrr": math.nan if mrr is None else mrr})


def _read_trials(file: Path, config: RunConfig, space: Space) -> list[Trial]:
    try:
        tree = read_json(file)
        trials = list(map(_trial, tree["trials"]))
        there, searched = tree["settings"], tree["space"]
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise RunError(f"{file}: not a search for settings: {error}; move it away") from error
    require_same(file, there, config)
    if searched != {name: list(values) for name, values in space.items()}:
        raise RunError(
            f"{file}: searched other choices, {searched}; move it away, or choose another "
            "folder with --out"
        )
    return trials
