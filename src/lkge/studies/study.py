"""The definition of a study: systems, datasets, settings and seeds, from a TOML file.

paper.toml     the study of the paper's Tables 2 and 3
paper.json     the figures of the paper: system → dataset → mrr, hits1, hits3, hits10
beyond.toml    evergreen, its ablations, and other methods on the same base model
scores.toml    five systems on every score
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from lkge.config import RunConfig
from lkge.configure import configure
from lkge.data.documents import parse_json, read_toml
from lkge.errors import SettingsError, UnknownName

PAPER = "paper"
STUDIES = (PAPER, "beyond", "scores")

Printed = Mapping[str, Mapping[str, Mapping[str, float]]]
CHECKED = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=CHECKED)
class SystemSpec:
    """A system of a study: METHOD or METHOD:VARIANT.

    `on`: settings for single datasets. `seeds`, `datasets`: in place of those of the study.
    `group`: the title of its group.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    seeds: tuple[int, ...] = ()
    datasets: tuple[str, ...] = ()
    group: str = ""

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.name.partition(":")[0]

    @property
    def is_variant(self) -> bool:
        """Whether it is a variant of another system, such as an ablation."""
        return ":" in self.name

    @property
    def slug(self) -> str:
        """The name as part of file names."""
        return self.name.replace(":", "-")

    def in_group(self, key: str, title: str, settings: Mapping[str, Any]) -> SystemSpec:
        """METHOD:KEY, with the settings of its group on top of its own."""
        settings = {**self.settings, **settings}
        return replace(self, name=f"{self.name}:{key}", settings=settings, group=title)


@dataclass(frozen=True)
class RunSpec:
    """One run of a study."""

    spec: SystemSpec
    config: RunConfig

    @property
    def dataset(self) -> str:
        """The short name of the dataset."""
        return short_name(self.config.dataset.name)

    @property
    def name(self) -> str:
        """The name of the files, such as `ENTITY-lkge-no-transfer-11`."""
        return f"{self.dataset}-{self.spec.slug}-{self.config.training.seed}"


@dataclass(frozen=True, config=CHECKED)
class Study:
    """Systems × datasets × seeds, and how they are shown. `settings` change those of `preset`.
    If the file has groups, every system is in every group, and each group has a table.

    mrr_change_of     the system of the figure with one line for each model
    time_on           the dataset of the figure of times; None: all datasets
    mrr_over_time_of  the systems of the figure of MRR over time
    compared          two systems for the paired comparison
    notes             Markdown for the README
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    specs: Mapping[str, SystemSpec]
    preset: str = PAPER
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (11,)
    printed: Printed = field(default_factory=dict)
    mrr_change_of: str = "lkge"
    time_on: str | None = None
    mrr_over_time_of: tuple[str, ...] = ()
    compared: tuple[str, str] | None = None
    systems_title: str = "Systems"
    variants_title: str = "Variants"
    notes: str = ""

    def run_specs(
        self,
        datasets: Sequence[str] | None = None,
        systems: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[RunSpec]:
        """The runs of the chosen systems and datasets: all first seeds, then all second seeds, …

        Given seeds and datasets hold for every chosen system. By default each system has its own,
        or those of the study.
        """
        specs = [self.spec(name) for name in systems or self.specs]
        runs = [
            (turn, self.run_spec(spec, self.spelled(dataset), seed))
            for spec in specs
            for dataset in datasets or spec.datasets or self.datasets
            for turn, seed in enumerate(seeds or spec.seeds or self.seeds)
        ]
        return [cell for _, cell in sorted(runs, key=lambda run: run[0])]

    def run_spec(self, spec: SystemSpec, dataset: str, seed: int) -> RunSpec:
        """One run with the settings of the study, the method and the variant; each by dataset."""
        chosen = {**self.settings}
        for part in (self.specs.get(spec.method, spec), spec):
            chosen |= {**part.settings, **part.on.get(short_name(dataset), {})}
        chosen |= {"dataset": dataset, "method": spec.method, "seed": seed}
        return RunSpec(spec, configure(chosen, self.preset))

    def including(self, datasets: Iterable[str], systems: Iterable[str]) -> Study:
        """The study with these datasets and systems added, if it does not have them."""
        places = dict.fromkeys([*self.datasets, *map(self.spelled, datasets)])
        specs = {name: self.spec(name) for name in [*self.specs, *systems]}
        return replace(self, datasets=tuple(places), specs=specs)

    def spec(self, name: str) -> SystemSpec:
        """The system of that name. A method that is not in the study has the study's settings."""
        if name in self.specs:
            return self.specs[name]
        from lkge.methods.base import known_methods

        known = known_methods()
        if name not in known:
            raise UnknownName("system", name, [*self.specs, *known])
        return SystemSpec(name)

    def spelled(self, dataset: str) -> str:
        """The dataset name in the spelling of the study, ignoring case; others unchanged."""
        known = {name.casefold(): name for name in self.datasets}
        return known.get(dataset.casefold(), dataset)


def short_name(dataset: str) -> str:
    """The name of a dataset in file names: of a path, the last part."""
    return Path(dataset).resolve().name.removesuffix(".zip")


def study_named(name: str) -> Study:
    """The study `paper`, `beyond` or `scores`, or that of a TOML file."""
    if name in STUDIES:
        return read_study(resources.files("lkge.studies"), f"{name}.toml")
    if not name.endswith(".toml"):
        raise UnknownName("study", name, STUDIES)
    return read_study(Path(name).parent, Path(name).name)


def read_study(folder: Traversable, name: str) -> Study:
    """The study of a file in `folder`. The settings of every run are checked."""
    file = folder.joinpath(name)
    try:
        with resources.as_file(file) as path:
            tree = read_toml(path)
        printed = tree.pop("printed", None)
        figures = parse_json(folder.joinpath(printed).read_text("utf-8")) if printed else {}
        study = _study(Path(name).stem, tree, figures)
        study.run_specs()
    except OSError as error:
        raise SettingsError(f"{error.filename}: cannot be read: {error.strerror}") from error
    except SettingsError as error:
        raise SettingsError(f"{file}: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{file}: not a study: {place}: {first['msg']}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SettingsError(f"{file}: not a study: {error!r}") from error
    return study


def _study(name: str, tree: dict[str, Any], printed: Printed) -> Study:
    systems = [SystemSpec(system, **part) for system, part in tree.pop("systems").items()]
    groups = tree.pop("groups", {})
    if groups:
        systems = [each.in_group(key, **part) for key, part in groups.items() for each in systems]
    specs = {each.name: each for each in systems}
    return Study(**{"name": name, "title": name, "printed": printed, "specs": specs, **tree})


def listed(names: str | None) -> list[str] | None:
    """The parts of `a,b,c`; None if `names` is None."""
    if names is None:
        return None
    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise SettingsError(f"{names!r}: name at least one, with commas between several")
    return list(dict.fromkeys(found))


def listed_seeds(names: str | None) -> list[int] | None:
    """The numbers of `11,22,33`; None if `names` is None."""
    parts = listed(names)
    for part in parts or []:
        if not part.isdecimal():
            raise SettingsError(f"the seed {part!r} is not a whole number")
    return None if parts is None else list(map(int, parts))
