"""What a person meets in Python: sizes, names, tables, representations, progress, and errors."""

from __future__ import annotations

import io
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import rich.console

import lkge
from lkge.data.rows import SHOWN, Rows
from lkge.evaluation.results import Accuracy, OfTest, ProtocolResult, Results
from lkge.store.reader import Fact
from lkge.training import events

GOLDEN = Path(__file__).parent / "golden"
CITY, LIES_IN = "City 03", "lies in"


@pytest.fixture(scope="module")
def kg() -> lkge.LivingGraph:
    return lkge.open(GOLDEN / "store-3")


class Point(NamedTuple):
    name: str
    at: float


class TestALivingGraph:
    def test_it_has_entities(self, kg: lkge.LivingGraph) -> None:
        assert len(kg) == len(kg.entities(limit=None)) == kg.reader.num_entities - 1
        assert CITY in kg
        assert "Atlantis" not in kg
        assert "" not in kg  # the name of a removed entity
        assert 3 not in kg

    def test_it_is_true_even_if_it_is_empty(self, tmp_path: Path) -> None:
        graph = lkge.init(tmp_path / "KG")
        assert len(graph) == 0
        assert bool(graph)
        assert graph.facts() == graph.relations() == []

    def test_it_has_relations_and_facts(self, kg: lkge.LivingGraph) -> None:
        assert LIES_IN in kg.relations()
        facts = kg.facts()
        assert len(facts) == len(set(facts)) == kg.reader.num_facts
        assert all(scored.known for scored in kg.score(facts))
        named = [fact.relation for fact in facts if fact.subject == CITY]
        assert sorted(named) == sorted(
            each.relation for each in kg.neighbourhood(CITY) if not each.relation.endswith("⁻¹")
        )

    def test_a_graph_without_known_facts_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(lkge.DataError, match="does not keep known facts"):
            lkge.init(tmp_path / "KG", known=False).facts()

    def test_it_has_vectors(self, kg: lkge.LivingGraph) -> None:
        first, second = kg.similar(CITY, k=1)[0], kg.vectors([CITY, kg.similar(CITY)[0].entity])
        assert second.shape == (2, kg.config.model.dim)
        one, other = second
        cosine = one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
        assert math.isclose(cosine, first.similarity, rel_tol=1e-5)
        with pytest.raises(lkge.UnknownName, match="City 03"):
            kg.vectors(["City 3x"])
        with pytest.raises(lkge.DataError, match=r"must be a list of names: \['City 03'\]"):
            kg.vectors(CITY)


class TestFirstFacts:
    def test_a_share_is_held_out(self, tmp_path: Path) -> None:
        facts = [(one, "knows", other) for one in "abcd" for other in "abcd"]
        small: dict[str, Any] = {"dim": 2, "max_epochs": 1, "backend": "torch"}
        half = lkge.init(tmp_path / "half", facts=facts, valid=0.5, **small)
        none = lkge.init(tmp_path / "none", facts=facts, valid=0, **small)
        assert half.log()[-1].mrr_new > 0
        assert math.isnan(none.log()[-1].mrr_new)


class TestTables:
    def test_answers_are_lists_of_named_tuples(self, kg: lkge.LivingGraph) -> None:
        answers = kg.predict(subject=CITY, relation=LIES_IN, k=2)
        assert isinstance(answers, list)
        assert repr(answers).splitlines()[0].split() == list(answers[0]._fields)
        assert len(repr(answers).splitlines()) == 3
        assert answers[0].entity in repr(answers)

    def test_a_frame_is_made_by_pandas(
        self, kg: lkge.LivingGraph, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def made(rows: list[Any], columns: list[str] | None) -> tuple[list[Any], object]:
            return rows, columns

        monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=made))
        answers: Any = kg.similar(CITY, k=2)
        assert answers.to_frame() == (list(answers), ["entity", "similarity"])
        results: Any = lkge.opened(GOLDEN / "run").results
        rows, columns = results.to_frame()
        assert columns == list(OfTest._fields)
        assert len(rows) == 2 * 3
        final = results.protocols["paper"].matrix[1][0]
        assert rows[1] == ("paper", 2, 1, final.mrr, final.hits1, *rows[1][5:])

    def test_without_pandas_an_error_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(lkge.LkgeError, match="pip install pandas"):
            Rows([Point("a", 1.0)]).to_frame()

    def test_the_first_rows_are_shown(self) -> None:
        rows = Rows(Point(f"p{at}", at / 2) for at in range(SHOWN + 5))
        lines = repr(rows).splitlines()
        assert lines[:2] == ["name  at", "p0    0.000"]
        assert (len(lines), lines[-1]) == (SHOWN + 2, "… 5 more")
        assert rows._repr_html_().count("<tr>") == SHOWN + 1

    def test_names_are_escaped(self) -> None:
        page = Rows([Point("<b>&\x1b", 1.0)])._repr_html_()
        assert "<b>" not in page
        assert "&lt;b&gt;&amp;�" in page


class TestRepresentations:
    def test_graphs_runs_and_results_say_what_they_are(self, kg: lkge.LivingGraph) -> None:
        run, graph = lkge.opened(GOLDEN / "run"), lkge.load(GOLDEN / "data")
        assert repr(graph).startswith("<GrowingGraph data: 2 snapshots, ")
        assert repr(run.results).startswith("<Results of evergreen on data, 2 snapshots>\n")
        assert f"{run.results.mrr:.3f}" in repr(run)
        assert str(GOLDEN / "run") in repr(run)
        assert repr(kg).startswith(f"<LivingGraph {GOLDEN / 'store-3'}, version 4 (evergreen on")
        for each in (graph, run, run.results, kg, kg.log()[-1], kg.suggest(k=2).facts):
            page = each._repr_html_()
            assert page.count("<table>") == page.count("</table>") == 1

    def test_a_line_of_the_log_is_shown_as_the_graph_shows_it(self, kg: lkge.LivingGraph) -> None:
        line = kg.log()[-1]._repr_html_()
        assert line[line.index("<tbody><tr>") : line.index("</tr></tbody>")] in kg._repr_html_()

    def test_results_without_a_snapshot_are_shown(self) -> None:
        empty = Results("brick", "lkge", {})
        assert "0 snapshots" in repr(empty)
        cell = Accuracy(0.5, 0.4, 0.5, 0.6, 2)
        one = Results("brick", "lkge", {}, protocols={"paper": ProtocolResult(((cell,),))})
        assert "0.500" in repr(one)


class TestProgress:
    @pytest.mark.parametrize("terminal", [True, False])
    def test_it_is_shown_in_a_terminal_alone(
        self, terminal: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        screen = rich.console.Console(file=io.StringIO(), force_terminal=terminal, width=80)
        monkeypatch.setattr(rich.console, "Console", lambda **_: screen)
        with events.heard(events.by_default) as listener:
            listener(events.RunStarted("brick", "evergreen", 5, 0, 0))
        assert isinstance(screen.file, io.StringIO)
        assert ("evergreen" in screen.file.getvalue()) == terminal

    def test_a_notebook_gets_lines(self, monkeypatch: pytest.MonkeyPatch) -> None:
        screen = rich.console.Console(file=io.StringIO(), force_jupyter=True)
        monkeypatch.setattr(rich.console, "Console", lambda **_: screen)
        with events.heard(events.by_default) as listener:
            listener(events.RunStarted("brick", "evergreen", 5, 0, 0))
        assert isinstance(screen.file, io.StringIO)
        assert screen.file.getvalue() == "evergreen learns brick, 5 snapshots\n"

    def test_a_listener_that_is_given_is_the_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rich.console, "Console", None)
        graph, told = lkge.init(tmp_path / "KG"), list[events.Event]()
        assert graph.learn_waiting(told.append) == []
        assert graph.learn_waiting(listener=told.append) == []
        record = graph.add([], retract=[("a", "b", "c")], listener=told.append)
        assert (record.kind, len(told)) == ("nothing", 1)


WRONG: dict[str, tuple[Callable[[lkge.LivingGraph], object], str]] = {
    "a negative k": (
        lambda kg: kg.predict(subject=CITY, relation=LIES_IN, k=-3),
        "k = -3 is not a number of answers",
    ),
    "a k of another type": (lambda kg: kg.similar(CITY, k="3"), "k = '3' is not a number"),  # type: ignore[arg-type]
    "a negative limit": (lambda kg: kg.entities(limit=-1), "limit = -1 is not a number"),
    "a pair": (lambda kg: kg.score([(CITY, LIES_IN)]), "is not a fact"),  # type: ignore[list-item]
    "a fact, not a list": (lambda kg: kg.score((CITY, LIES_IN, CITY)), "'City 03' is not a fact"),  # type: ignore[arg-type]
    "a pair to learn": (lambda kg: kg.add([(CITY, LIES_IN)]), "is not a fact"),  # type: ignore[list-item]
    "a name that is a number": (lambda kg: kg.similar(3), "3 is not a name"),  # type: ignore[arg-type]
    "no relation": (lambda kg: kg.predict(subject=CITY, relation=None), "None is not a name"),  # type: ignore[arg-type]
    "a number in place of facts": (lambda kg: kg.add(3), "3 has no facts"),
    "a number in place of a dataset": (lambda _: lkge.load(3), "3 has no facts"),
    "a number in place of a folder": (lambda _: lkge.open(3), "3 is not the path"),  # type: ignore[arg-type]
    "one name": (lambda kg: kg.edit(rename="ab"), "must be two names"),  # type: ignore[arg-type]
    "a name in place of a graph": (lambda _: lkge.run("brick"), "'brick' is not a growing graph"),  # type: ignore[arg-type]
    "a living graph in place of a growing one": (lkge.run, "is not a growing graph"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_arguments_are_errors_in_one_line(wrong: str, tmp_path: Path) -> None:
    kg = lkge.open(shutil.copytree(GOLDEN / "store-3", tmp_path / "KG"))
    call, message = WRONG[wrong]
    with pytest.raises(lkge.LkgeError, match=message) as caught:
        call(kg)
    assert "\n" not in str(caught.value)


def test_a_predictor_speaks_of_entities_too() -> None:
    predictor = lkge.opened(GOLDEN / "run").predictor
    (answer,) = predictor.top_k(CITY, LIES_IN, k=1)
    with pytest.warns(DeprecationWarning, match="Answer.entity"):
        assert answer.name == answer.entity
    with pytest.raises(lkge.SettingsError, match="k = -3"):
        predictor.top_k(CITY, LIES_IN, k=-3)


def test_a_fact_is_a_tuple(kg: lkge.LivingGraph) -> None:
    assert kg.facts()[0] == tuple(kg.facts()[0])
    assert isinstance(kg.facts()[0], Fact)
