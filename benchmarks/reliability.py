"""`python -m benchmarks.reliability [--data PATH/dataset.zip]`: is plausibility a probability?

A tenth of the facts of a graph is hidden. A living graph learns the rest, with the settings that
`lkge init` takes. Then the ten best new answers to each query of the hidden facts are compared with
the hidden facts. The expected calibration error is the mean distance, over ten bins of plausibility
weighted by their counts, between mean plausibility and share of true answers. Nothing is tuned on
hidden facts.

Graphs: brick; the Debian packages of this machine, by `dpkg-query`; with `--data` the first
snapshot of ENTITY. Results: `results/reliability.md`, `results/figures/reliability.png`.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import lkge
from lkge.data.files import write_text_atomically
from lkge.data.formats import Triple
from lkge.reports import plot_style
from lkge.store.graph import LivingGraph
from lkge.store.reader import Prediction

RESULTS = Path(__file__).parents[1] / "results"
SEED, HIDDEN, TOP, BINS, WANTED = 11, 0.1, 10, 10, 0.05
OTHER_QUERIES = 1_000
"""Queries of known facts that are asked for comparison."""
PACKAGE_FIELDS = ("Package", "Section", "Maintainer", "Priority", "Architecture", "Source")

Query = tuple[str | None, str, str | None]


@dataclass(frozen=True)
class Answers:
    """Answers to queries, (n,) each: plausibility, whether the answer is a hidden fact, and whether
    it is the first of its list."""

    plausibility: NDArray[np.float64]
    true: NDArray[np.bool_]
    first: NDArray[np.bool_]

    def only_first(self) -> Answers:
        """The first answer of each list."""
        return Answers(self.plausibility[self.first], self.true[self.first], self.first[self.first])

    def bins(self) -> Iterator[tuple[int, float, float]]:
        """Of each bin with answers: their number, mean plausibility, share of true ones."""
        numbers = np.minimum((self.plausibility * BINS).astype(int), BINS - 1)
        for number in range(BINS):
            if (inside := numbers == number).any():
                share = float(self.true[inside].mean())
                yield int(inside.sum()), float(self.plausibility[inside].mean()), share

    def error(self) -> float:
        """The expected calibration error."""
        return sum(n * abs(p - share) for n, p, share in self.bins()) / len(self.true)

    def above(self, least: float) -> tuple[int, float]:
        """How many answers are at least so plausible, and the share of true ones."""
        sure = self.plausibility >= least
        return int(sure.sum()), float(self.true[sure].mean()) if sure.any() else float("nan")


@dataclass(frozen=True)
class Measured:
    """A graph. The same answers without those that are other hidden facts of the query (`single`);
    answers to queries of known facts (`others`)."""

    name: str
    facts: int
    held_out: int
    answers: Answers
    single: Answers
    others: Answers


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description="Is plausibility a probability?")
    parser.add_argument("--data", type=Path, help="the archive of the paper's datasets")
    data = parser.parse_args().data
    packages = package_facts()
    cases: list[tuple[str, list[Triple], str]] = [
        ("brick", dataset_facts("brick"), "evergreen"),
        ("packages", packages, "evergreen"),
        ("packages, TransE", packages, "lkge"),
    ]
    if data:
        cases.append(("ENTITY, first snapshot", dataset_facts("ENTITY", data, 1), "evergreen"))
    measured = [measure(*case) for case in cases]
    print(_markdown(measured))
    if data:
        write_text_atomically(RESULTS / "reliability.md", _markdown(measured))
        figure = plot_style.render(reliability_diagram(measured), "reliability")
        figure.write(RESULTS / "figures")
        print("kept in results/reliability.md and results/figures")


def dataset_facts(
    name: str, data: Path | None = None, snapshots: int | None = None
) -> list[Triple]:
    """All facts of the first snapshots of a dataset."""
    graph = lkge.load(name, data)
    names = graph.vocabulary
    parts = [part for s in graph.snapshots[:snapshots] for part in (s.train, s.valid, s.test)]
    return [
        (names.entity_name(s), names.relation_name(r), names.entity_name(o))
        for s, r, o in np.concatenate(parts).tolist()
    ]


def package_facts() -> list[Triple]:
    """Section, maintainer and others of each installed package, and what it depends on."""
    form = "\\t".join(f"${{{name}}}" for name in (*PACKAGE_FIELDS, "Depends")) + "\\n"
    command = ["dpkg-query", "-W", f"-f={form}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    facts: list[Triple] = []
    for line in text.splitlines():
        package, *values, depends = line.split("\t")
        for name, value in zip(PACKAGE_FIELDS[1:], values, strict=True):
            if value:
                facts.append((package, name.lower(), f"{name.lower()}: {value.split(' (')[0]}"))
        for item in depends.replace("|", ",").split(","):
            if words := item.split():
                facts.append((package, "depends", words[0].split(":")[0]))
    return list(dict.fromkeys(facts))


def measure(name: str, facts: Sequence[Triple], method: str) -> Measured:
    """Hide, learn, ask and compare."""
    hidden, known = split(facts)
    with tempfile.TemporaryDirectory() as place:
        graph = lkge.init(Path(place) / "KG", method=method)
        graph.add(known)
        truths = by_query(hidden)
        answers, single = ask(graph, list(truths), truths)
        queries, generator = list(by_query(known)), np.random.default_rng(SEED)
        drawn = generator.choice(len(queries), min(OTHER_QUERIES, len(queries)), replace=False)
        others, _ = ask(graph, [queries[number] for number in np.sort(drawn)], truths)
        held_out = graph.reader.calibration.facts
    return Measured(name, len(facts), held_out, answers, single, others)


def split(facts: Sequence[Triple]) -> tuple[list[Triple], list[Triple]]:
    """Hidden and other facts. A hidden fact has no name that only hidden facts have."""
    order = np.random.default_rng(SEED).permutation(len(facts))
    size = round(HIDDEN * len(facts))
    known = [facts[number] for number in np.sort(order[size:])]
    entities = {name for s, _, o in known for name in (s, o)}
    relations = {relation for _, relation, _ in known}
    hidden = [facts[number] for number in np.sort(order[:size])]
    return [f for f in hidden if {f[0], f[2]} <= entities and f[1] in relations], known


def by_query(facts: Sequence[Triple]) -> dict[Query, set[str]]:
    """The answers of each query of these facts, in both directions."""
    answers: dict[Query, set[str]] = defaultdict(set)
    for subject, relation, object_ in facts:
        answers[subject, relation, None].add(object_)
        answers[None, relation, object_].add(subject)
    return answers


def ask(
    graph: LivingGraph, queries: Sequence[Query], truths: dict[Query, set[str]]
) -> tuple[Answers, Answers]:
    """The ten best new answers to each query, once with all hidden facts as true ones, and once for
    each hidden fact alone, without the other ones."""
    every: list[tuple[float, bool, bool]] = []
    single: list[tuple[float, bool, bool]] = []
    for query in queries:
        subject, relation, object_ = query
        true = truths.get(query, set())
        found = graph.predict(
            subject=subject, relation=relation, object=object_, k=TOP + len(true), new_only=True
        )
        every += _judged(found, true)
        for target in true:
            left = [each for each in found if each.entity == target or each.entity not in true]
            single += _judged(left, {target})
    return _answers(every), _answers(single)


def _judged(found: Sequence[Prediction], true: set[str]) -> list[tuple[float, bool, bool]]:
    return [
        (answer.plausibility, answer.entity in true, rank == 0)
        for rank, answer in enumerate(found[:TOP])
    ]


def _answers(judged: Sequence[tuple[float, bool, bool]]) -> Answers:
    plausibility, true, first = np.array(judged, dtype=float).reshape(-1, 3).T
    return Answers(plausibility, true > 0, first > 0)


@plot_style.style()
def reliability_diagram(measured: Sequence[Measured]) -> Figure:
    """Share of true answers against mean plausibility, a panel for each graph; a larger point has
    more answers."""
    size = (3.0, 3.0)
    figure, axes = plot_style.panels(len(measured), columns=len(measured), size=size)
    for panel, one in zip(axes, measured, strict=True):
        panel.plot([0, 1], [0, 1], color=plot_style.SOFT, linestyle="--", linewidth=1)
        for answers, colour, label in (
            (one.answers, plot_style.BLUE, "all hidden facts are true"),
            (one.single, plot_style.ORANGE, "one hidden fact at a time"),
        ):
            counts, given, share = map(np.array, zip(*answers.bins(), strict=True))
            panel.plot(given, share, color=colour, linewidth=1, label=label)
            panel.scatter(given, share, 6 + 90 * np.sqrt(counts / counts.sum()), color=colour)
        panel.set(xlim=(0, 1), ylim=(0, 1), title=one.name)
    axes[0].legend(loc="upper left", fontsize="small")
    title = "Reliability of plausibility, ten best new answers to queries of hidden facts"
    plot_style.heading(figure, title, "Mean plausibility of a bin", "Share of true answers")
    return figure


HEADER = (
    *("graph", "facts", "held out", "answers", "mean plausibility", "share true"),
    *("error", "error, single", "error, first answers", "error, first answers, single"),
    *("≥ 0.9: answers", "of these true", "error, other queries"),
)


def _row(one: Measured) -> list[str]:
    sure, share = one.answers.above(0.9)
    given, true = one.answers.plausibility.mean(), one.answers.true.mean()
    first = (one.answers.only_first(), one.single.only_first())
    errors = [answers.error() for answers in (one.answers, one.single, *first)]
    return [
        *(one.name, f"{one.facts:,}", f"{one.held_out:,}", f"{len(one.answers.true):,}"),
        *(f"{number:.3f}" for number in (given, true, *errors)),
        *(f"{sure:,}", f"{share:.2f}", f"{one.others.error():.3f}"),
    ]


def _markdown(measured: Sequence[Measured]) -> str:
    worst = max(measured, key=lambda one: one.answers.error())
    lines = [
        "# Is plausibility a probability?",
        "",
        "`python -m benchmarks.reliability --data dataset.zip`: a tenth of the facts is hidden, a"
        " living graph with default settings learns the rest, and the ten best new answers to each"
        " query of the hidden facts are compared with the hidden facts. *Error* is the expected"
        f" calibration error: {BINS} bins of equal width, weighted by their counts.",
        "",
        "![Reliability diagram](figures/reliability.png)",
        "",
        "| " + " | ".join(HEADER) + " |",
        "| --- |" + " ---: |" * (len(HEADER) - 1),
        *("| " + " | ".join(_row(one)) + " |" for one in measured),
        "",
        f"* largest error: {worst.answers.error():.3f} on {worst.name}"
        f" (wanted: at most {WANTED:g})",
        "* *held out*: facts that the calibration was fitted to; *single*: for each hidden fact of"
        " a query alone, without the answers that are other hidden facts; *first answers*: the"
        " first answer of each list alone, where most of the high plausibilities are",
        f"* *other queries*: {OTHER_QUERIES:,} queries of known facts, most of which lack no"
        " answer; they are not part of the wanted figure",
        "* TransE is the method LKGE with the preset `living-paper`; the packages are those of the"
        " machine, so their figures are its own",
        "",
        "The calibration sees one held-out fact at a time, and takes the hidden tenth for false."
        " So where a query lacks several answers, plausibility is too low.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
