"""A study is data: which systems learn which datasets, with which settings and seeds.

paper.toml     the study of the paper's Tables 2 and 3
paper.json     what the paper printed: system → dataset → mrr, hits1, hits3, hits10
beyond.toml    evergreen, without one of its parts each, and others on the same base model
scores.toml    five systems on every score
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from lkge.config import RunConfig
from lkge.configure import configure
from lkge.errors import SettingsError, UnknownName

PAPER, BEYOND, SCORES = "paper", "beyond", "scores"
STUDIES = (PAPER, BEYOND, SCORES)

OWN = ("seeds", "datasets")
"""Lists that a system may have of its own."""

Printed = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True)
class Entrant:
    """A system of a study: METHOD or METHOD:VARIANT, its settings, those on single datasets, its
    own seeds and datasets, and the title of its group where the study has some."""

    name: str
    config: Mapping[str, Any] = field(default_factory=dict, hash=False)
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    seeds: tuple[int, ...] = ()
    datasets: tuple[str, ...] = ()
    group: str = ""

    @property
    def method(self) -> str:
        """The method behind it."""
        return self.name.partition(":")[0]

    @property
    def is_variant(self) -> bool:
        """Whether it is a variant of another system, such as an ablation."""
        return ":" in self.name

    @property
    def slug(self) -> str:
        """Its name in the names of files."""
        return self.name.replace(":", "-")


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    entrant: Entrant
    config: RunConfig

    @property
    def dataset(self) -> str:
        """The short name of its dataset."""
        return short_name(self.config.dataset.name)

    @property
    def name(self) -> str:
        """What its files are called: `ENTITY-lkge-no-transfer-11`."""
        return f"{self.dataset}-{self.entrant.slug}-{self.config.training.seed}"


@dataclass(frozen=True)
class Study:
    """Systems × datasets × seeds, and how they are shown. Settings differ from those of `preset`.
    Where the file has groups, every system is in every group, and each group has a table.

    `mrr_change_of` is the system whose models are drawn one by one, `time_on` the dataset of the
    figure of times, or all of them, `race` the systems whose MRR is drawn over time, `duel` two
    that are compared seed by seed; `notes` is Markdown for the README.
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    entrants: Mapping[str, Entrant]
    preset: str = PAPER
    config: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (11,)
    printed: Printed = field(default_factory=dict)
    mrr_change_of: str = "lkge"
    time_on: str | None = None
    race: tuple[str, ...] = ()
    duel: tuple[str, str] | None = None
    systems_title: str = "Systems"
    variants_title: str = "Variants"
    notes: str = ""

    def cells(
        self,
        datasets: Sequence[str] | None = None,
        systems: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Cell]:
        """The runs of the chosen systems and datasets: all first seeds, then all second ones, …

        Given seeds and datasets hold for every chosen system; otherwise each has its own, or those
        of the study.
        """
        entrants = [self.entrant(name) for name in systems or self.entrants]
        runs = [
            (turn, self.cell(entrant, self.spelled(dataset), seed))
            for entrant in entrants
            for dataset in datasets or entrant.datasets or self.datasets
            for turn, seed in enumerate(seeds or entrant.seeds or self.seeds)
        ]
        return [cell for _, cell in sorted(runs, key=lambda run: run[0])]

    def cell(self, entrant: Entrant, dataset: str, seed: int) -> Cell:
        """One run: the settings of all, of its method, of its variant; each also by dataset."""
        chosen = {**self.config}
        for part in (self.entrants.get(entrant.method, entrant), entrant):
            chosen |= {**part.config, **part.on.get(short_name(dataset), {})}
        chosen |= {"dataset": dataset, "method": entrant.method, "seed": seed}
        return Cell(entrant, configure(chosen, self.preset))

    def including(self, datasets: Iterable[str], systems: Iterable[str]) -> Study:
        """The study with these datasets and systems, should it not have them already."""
        places = dict.fromkeys([*self.datasets, *map(self.spelled, datasets)])
        entrants = {name: self.entrant(name) for name in [*self.entrants, *systems]}
        return replace(self, datasets=tuple(places), entrants=entrants)

    def entrant(self, name: str) -> Entrant:
        """The system of that name; a method that the study does not know runs with its settings."""
        if name in self.entrants:
            return self.entrants[name]
        from lkge.methods.base import known_methods

        known = known_methods()
        if name not in known:
            raise UnknownName("system", name, [*self.entrants, *known])
        return Entrant(name)

    def spelled(self, dataset: str) -> str:
        """A dataset as the study spells it, whatever the case; another name as it is."""
        known = {name.casefold(): name for name in self.datasets}
        return known.get(dataset.casefold(), dataset)


def short_name(dataset: str) -> str:
    """The name of a dataset in the names of files; one given as a path lends its last name."""
    return Path(dataset).resolve().name.removesuffix(".zip")


def study_named(name: str) -> Study:
    """The study `paper`, `beyond` or `scores`, or that of a TOML file."""
    if name in STUDIES:
        return read_study(resources.files("lkge.bench"), f"{name}.toml")
    if not name.endswith(".toml"):
        raise UnknownName("study", name, STUDIES)
    return read_study(Path(name).parent, Path(name).name)


def read_study(folder: Traversable, name: str) -> Study:
    """A study from its file in `folder`; the settings of every run are checked."""
    file = folder.joinpath(name)
    try:
        tree = tomllib.loads(file.read_text(encoding="utf-8"))
        printed = tree.pop("printed", None)
        figures = json.loads(folder.joinpath(printed).read_text("utf-8")) if printed else {}
        study = _study(Path(name).stem, tree, figures)
        study.cells()
    except OSError as error:
        raise SettingsError(f"{error.filename}: cannot be read: {error.strerror}") from error
    except SettingsError as error:
        raise SettingsError(f"{file}: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SettingsError(f"{file}: not a study: {error!r}") from error
    return study


def _study(name: str, tree: dict[str, Any], printed: Printed) -> Study:
    systems = [
        Entrant(system, **{**part, **{key: tuple(part.get(key, ())) for key in OWN}})
        for system, part in tree.pop("systems").items()
    ]
    groups = tree.pop("groups", {})
    if groups:
        systems = [_in_group(each, key, **part) for key, part in groups.items() for each in systems]
    entrants = {each.name: each for each in systems}
    whole: dict[str, Any] = {"name": name, "title": name, "printed": printed, **tree}
    whole |= {
        key: tuple(whole[key]) for key in ("datasets", "seeds", "race", "duel") if key in whole
    }
    return Study(entrants=entrants, **whole)


def _in_group(entrant: Entrant, key: str, title: str, config: Mapping[str, Any]) -> Entrant:
    """METHOD:KEY, with the settings of its group on top of its own."""
    return replace(
        entrant,
        name=f"{entrant.name}:{key}",
        config={**entrant.config, **config},
        group=title,
    )


def listed(names: str | None) -> list[str] | None:
    """The parts of `a,b,c`; none where nothing is given."""
    if names is None:
        return None
    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise SettingsError(f"{names!r}: name at least one, with commas between several")
    return list(dict.fromkeys(found))


def listed_seeds(names: str | None) -> list[int] | None:
    """The numbers of `11,22,33`; none where nothing is given."""
    parts = listed(names)
    if parts is None:
        return None
    wrong = [part for part in parts if not part.isdecimal()]
    if wrong:
        raise SettingsError(f"the seed {wrong[0]!r} is not a whole number")
    return list(map(int, parts))
