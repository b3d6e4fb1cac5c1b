"""The commands for living graphs, end to end on a graph of a few facts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from lkge import sizing
from lkge.cli import app
from lkge.cli.ask import bar
from lkge.cli.grow import HELD_OUT, KEPT
from lkge.configure import configure
from lkge.living import open as open_graph
from lkge.store import calibration, health
from lkge.store.graph import LivingGraph
from lkge.store.inbox import accept
from lkge.store.locks import writing
from lkge.store.records import Options, StoreConfig
from lkge.store.versions import Store

SMALL = ("--dim", "8", "--batch-size", "32", "--backend", "torch", "--max-epochs", "3")


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines long enough for every sentence."""
    monkeypatch.setenv("COLUMNS", "120")


def lkge(*words: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


def done(*words: str | Path) -> Result:
    """A command that must succeed."""
    result = lkge(*words)
    assert result.exit_code == 0, result.output
    return result


def said(result: Result) -> str:
    """What was printed, wherever its lines end."""
    return " ".join(result.stdout.split())


def tree(*words: str | Path) -> Any:
    """What a command prints as JSON."""
    return json.loads(done(*words, "--json").stdout)


def assert_refused(result: Result, *fragments: str) -> None:
    """Exit code 2, one line `error: …` on stderr, no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = [each for each in result.stderr.splitlines() if not each.startswith("warning: ")]
    assert line.startswith("error: ")
    assert all(fragment in line for fragment in fragments), line


def ring(first: int, last: int) -> str:
    """People who know those one, two and five places further on, as TSV."""
    size = last - first
    return "".join(
        f"p{first + k}\tknows {step}\tp{first + (k + step) % size}\n"
        for k in range(size)
        for step in (1, 2, 5)
    )


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph at version 1, for all tests."""
    folder = tmp_path_factory.mktemp("begun")
    facts = written(folder / "first.tsv", ring(0, 20))
    done("init", folder / "KG", *SMALL, "--from", facts, "--valid", "0.2", "--quiet")
    return folder / "KG"


@pytest.fixture
def kg(begun: Path, tmp_path: Path) -> Path:
    """A graph at version 1, for one test."""
    return Path(shutil.copytree(begun, tmp_path / "KG"))


@pytest.fixture
def more(tmp_path: Path) -> Path:
    return written(tmp_path / "more.tsv", ring(20, 30) + "p20\tknows 1\tp0\n")


class TestInit:
    def test_an_empty_graph(self, tmp_path: Path) -> None:
        result = done("init", tmp_path / "KG", "--dim", "8")
        assert f"lkge add {tmp_path / 'KG'}" in result.stdout
        (first,) = tree("log", tmp_path / "KG")
        assert (first["kind"], first["entities"]) == ("init", 0)

    def test_settings_are_those_of_living_graphs_and_the_flags(self, tmp_path: Path) -> None:
        config = written(tmp_path / "c.toml", "[model]\ndim = 16\n[training]\nseed = 5\n")
        words = ("--config", config, "--dim", "8", "--set", "method.replay_weight=3")
        made = tree("init", tmp_path / "KG", *words)
        expected = configure({"dim": 8, "seed": 5, "replay_weight": 3.0}, "living")
        assert made["settings"] == expected.to_dict()

    @pytest.mark.parametrize("words", [["--preset", "living-paper"], ["--method", "lkge"]])
    def test_a_preset_is_named_or_comes_with_the_method(
        self, tmp_path: Path, words: list[str]
    ) -> None:
        config = written(tmp_path / "c.toml", "dim = 16\nbatch_size = 64\n")
        made = tree("init", tmp_path / "KG", *words, "--config", config, "--dim", "8")
        expected = configure({"dim": 8, "batch_size": 64}, "living-paper")
        assert made["settings"] == expected.to_dict()

    @pytest.mark.parametrize("preset", ["living", "living-paper", "evergreen", "paper"])
    def test_each_preset_learns_and_goes_on(self, tmp_path: Path, more: Path, preset: str) -> None:
        facts = written(tmp_path / "first.tsv", ring(0, 20))
        words = ("--preset", preset, *SMALL, "--from", facts, "--quiet")
        assert tree("init", tmp_path / "KG", *words)["log"][1]["entities"] == 20
        assert tree("add", tmp_path / "KG", more, "--quiet")[0]["new_entities"] == 10

    def test_settings_follow_from_the_size_of_a_large_graph(
        self, tmp_path: Path, more: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sizing, "LARGE", 10)
        result = done("init", tmp_path / "KG", "--from", more, *SMALL)
        assert result.stderr.startswith("11 entities, 31 facts; batches of 32; ")
        training = open_graph(tmp_path / "KG").config.training
        assert training.max_candidates == 6000 * 10 // 11
        assert training.validation_candidates == sizing.VALIDATION_CANDIDATES

    def test_the_options_are_kept(self, tmp_path: Path) -> None:
        done("init", tmp_path / "KG", "--dim", "8", "--keep", "3", "--no-known")
        assert Store(tmp_path / "KG").options == Options(keep=3, known=False)

    def test_the_defaults_are_those_of_the_store(self) -> None:
        assert (StoreConfig().hold_out_fraction, Options.keep) == (HELD_OUT, KEPT)

    def test_from_several_files(self, tmp_path: Path, more: Path) -> None:
        csv = written(tmp_path / "x.csv", "subject,relation,object\np1,knows 1,p2\n")
        words = ("--from", more, "--from", csv, *SMALL)
        made = tree("init", tmp_path / "KG", *words, "--quiet")
        assert [record["facts"] for record in made["log"]] == [0, 32]
        assert made["log"][1]["source"] == "more.tsv, x.csv"

    def test_from_a_run_and_on(self, tmp_path: Path, more: Path) -> None:
        graph, run, kg = tmp_path / "graph", tmp_path / "run", tmp_path / "KG"
        facts = written(tmp_path / "all.tsv", ring(0, 20))
        done("datasets", "build", facts, "--growth", "fact", "--snapshots", "2", "--out", graph)
        done("run", "--dataset", graph, "--out", run, *SMALL, "--method", "fine-tune", "--quiet")
        refused = lkge("init", kg, "--from-run", run, "--dim", "9")
        assert_refused(refused, "model.dim = 8", "leave model.dim out")
        assert_refused(lkge("init", kg, "--from-run", run, "--config", facts), "--config")
        assert_refused(lkge("init", kg, "--from-run", run, "--preset", "paper"), "leave preset out")
        assert not kg.exists()
        made = tree("init", kg, "--from-run", run, "--max-epochs", "2")
        assert made["settings"]["training"]["max_epochs"] == 2
        assert (made["log"][0]["entities"], made["log"][0]["known_facts"]) == (20, 60)
        assert tree("add", kg, more, "--quiet")[0]["new_entities"] == 10

    @pytest.mark.parametrize(
        ("words", "fragments"),
        [
            (["--method", "lkgee"], ["lkgee", "'lkge'"]),
            (["--dim", "0"], ["dim = 0"]),
            (["--preset", "papers"], ["'papers'", "evergreen, paper"]),
            (["--from", "absent.tsv"], ["absent.tsv", "no such file"]),
            (["--from-run", "absent"], ["absent", "not a finished run"]),
            (["--config", "absent.toml"], ["absent.toml"]),
        ],
    )
    def test_what_cannot_be_leaves_nothing(
        self, tmp_path: Path, words: list[str], fragments: list[str]
    ) -> None:
        assert_refused(lkge("init", tmp_path / "KG", *words), *fragments)
        assert not (tmp_path / "KG").exists()

    def test_a_file_without_facts(self, tmp_path: Path) -> None:
        nothing = written(tmp_path / "nothing.tsv", "\n")
        assert_refused(lkge("init", tmp_path / "KG", "--from", nothing), "nothing.tsv")
        assert not (tmp_path / "KG").exists()

    def test_what_is_there_stays(self, kg: Path) -> None:
        assert_refused(lkge("init", kg), "exists already", f"lkge add {kg}")


class TestAdd:
    def test_the_summary(self, kg: Path, more: Path) -> None:
        result = done("add", kg, more, "--valid", "0.1")
        for words in ("Version 2", "more.tsv", "31 new", "10 new; 30 in all", "drift", "→"):
            assert words in result.stdout
        assert "published version 2" in result.stderr

    def test_json_is_the_line_of_the_log(self, kg: Path, more: Path) -> None:
        (record,) = tree("add", kg, more, "--quiet", "--valid", "0")
        assert record["mrr_new"] is None, "no held-out fact: no number"
        assert {**record, "tags": []} == tree("log", kg)[-1]

    def test_what_was_known_is_warned_of(self, kg: Path) -> None:
        again = written(kg.parent / "again.tsv", "p0\tknows 1\tp1\np0\tknows 1\tp9\n")
        result = done("add", kg, again, "--quiet")
        assert result.stderr == "warning: 1 of the added facts were known already\n"

    def test_a_fact_in_two_files_is_one(self, kg: Path) -> None:
        fact = "p0\tknows 1\tp7\n"
        files = [written(kg.parent / f"{name}.tsv", fact) for name in "ab"]
        result = done("add", kg, *files, "--json", "--quiet")
        assert json.loads(result.stdout)[0]["facts"] == 1
        assert result.stderr == ""

    def test_retracted_facts_are_no_longer_known(self, kg: Path) -> None:
        gone = written(kg.parent / "gone.tsv", "p0\tknows 1\tp1\n")
        assert tree("score", kg, gone)["facts"][0]["known"]
        (record,) = tree("add", kg, "--retract", gone, "--quiet")
        assert (record["facts"], record["retracted"], record["known_facts"]) == (0, 1, 59)
        assert not tree("score", kg, gone)["facts"][0]["known"]

    def test_without_a_file_what_waits_is_learned(self, kg: Path) -> None:
        store = Store(kg)
        for name in ("new one", "new two"):
            accept(store, [(name, "knows 1", "p0")])
        assert "2 more to be learned" in said(done("log", kg))
        assert [record["version"] for record in tree("add", kg, "--quiet")] == [2, 3]
        assert "Nothing waits" in done("add", kg).stdout

    def test_events_are_lines_of_json(self, kg: Path, more: Path) -> None:
        result = done("add", kg, more, "--events")
        events = [json.loads(line) for line in result.stdout.splitlines()]
        assert {"RunStarted", "EpochFinished"} <= {event["type"] for event in events}
        last = events[-1]
        assert (last["type"], last["version"], last["batch"]) == ("VersionPublished", 2, 2)
        assert_refused(lkge("add", kg, "--events", "--json"), "--events and --json")

    def test_a_malformed_file_changes_nothing(self, kg: Path) -> None:
        bad = written(kg.parent / "bad.tsv", "p0\tknows 1\tp9\np0\tknows\n")
        assert_refused(lkge("add", kg, bad), "bad.tsv:2", "found 2 fields")
        assert len(tree("log", kg)) == 2

    def test_another_writer_is_named(self, kg: Path, more: Path) -> None:
        with writing(Store(kg), "add"):
            assert_refused(lkge("add", kg, more), f"process {os.getpid()}", "wait")

    def test_a_folder_that_is_no_graph(self, tmp_path: Path) -> None:
        for words in (["add"], ["log"], ["verify"], ["similar", "x"], ["rollback", "0"]):
            result = lkge(words[0], tmp_path, *words[1:])
            assert_refused(result, "not a store", "lkge init")


def heed_ctrl_c() -> None:
    """A test run in the background ignores SIGINT, and what it starts would ignore it too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_after_ctrl_c_nothing_is_lost(tmp_path: Path, more: Path) -> None:
    kg = tmp_path / "KG"
    long = ("--max-epochs", "1000000", "--patience", "1000000")
    done("init", kg, "--dim", "8", "--backend", "torch", *long)
    words = [sys.executable, "-m", "lkge", "add", str(kg), str(more), "--valid", "0.2"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c
    ) as process:
        try:
            assert process.stderr
            while "epoch" not in (line := process.stderr.readline()):
                assert line, "it ended by itself"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    assert f"The facts are kept. To go on: lkge add {kg}" in errors
    assert "Traceback" not in errors
    assert "1 more to be learned" in said(done("log", kg))


class TestHealth:
    def test_few_facts_are_unknown(self, kg: Path) -> None:
        result = done("health", kg)
        assert "unknown: 0 older held-out facts are too few to judge" in said(result)
        assert "plausibility: its reliability is not measured in this version" in said(result)
        assert f"Health: unknown: lkge health {kg}." in said(done("log", kg))

    def test_json_has_every_figure(
        self, kg: Path, more: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(calibration, "MIN_FACTS", 2)
        done("add", kg, more, "--quiet", "--valid", "0.3")
        found = tree("health", kg)
        assert (found["version"], found["verdict"], found["causes"]) == (2, "unknown", [])
        assert found["since_baseline"] == tree("log", kg)[-1]["since_baseline"]
        assert found["remedy"] == ""
        reliability = found["reliability"]
        answers = sum(each["answers"] for each in reliability["bins"])
        assert 0 <= reliability["error"] <= 1
        line = f"over {answers} answers to {reliability['queries']} held-out queries"
        assert line in said(done("health", kg))
        assert tree("health", kg, "--version", "1")["version"] == 1

    def test_a_worse_graph_ends_with_1_and_the_remedy(
        self, kg: Path, more: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(health, "causes_of", lambda *_: ("quality",))
        result = lkge("add", kg, more, "--quiet", "--valid", "0.1")
        assert "warning: health is worse: " in result.stderr
        found = lkge("health", kg)
        assert found.exit_code == 1
        assert "a significant loss" in said(found)
        assert f"remedy: `lkge relearn {kg}` learns all known facts at once" in said(found)
        assert "since version 2: lkge health" in said(done("log", kg))
        assert lkge("health", kg, "--json").exit_code == 1


class TestRelearn:
    def test_it_publishes_a_version_of_the_known_facts(self, kg: Path) -> None:
        before = tree("log", kg)[-1]
        (record,) = [tree("relearn", kg, "--quiet")]
        assert (record["version"], record["kind"]) == (before["version"] + 1, "relearn")
        assert record["known_facts"] == before["known_facts"]
        assert "relearn" in said(done("log", kg))
        shown = done("relearn", kg, "--quiet")
        assert "Version 3" in said(shown)

    def test_events_are_lines_of_json(self, kg: Path) -> None:
        lines = done("relearn", kg, "--events").stdout.splitlines()
        assert json.loads(lines[-1])["type"] == "VersionPublished"
        assert_refused(lkge("relearn", kg, "--events", "--json"), "--events and --json")

    def test_without_known_facts_it_is_refused(self, tmp_path: Path, more: Path) -> None:
        done("init", tmp_path / "KG", *SMALL, "--no-known", "--from", more, "--quiet")
        assert_refused(lkge("relearn", tmp_path / "KG"), "keeps no known facts", "lkge init")

    def test_ctrl_c_names_the_command_that_goes_on(
        self, kg: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(LivingGraph, "relearn", stop)
        result = lkge("relearn", kg, "--quiet")
        assert result.exit_code == 130
        assert f"Stopped. To go on: lkge relearn {kg}" in result.stderr


class TestLog:
    @pytest.mark.parametrize("columns", ["80", "120"])
    def test_a_line_a_version(
        self, kg: Path, more: Path, columns: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", columns)
        done("add", kg, more, "--quiet", "--valid", "0.1")
        lines = done("log", kg).stdout.splitlines()
        assert [line.split()[0] for line in lines if " init" in line or " add" in line] == list(
            "012"
        )
        assert any(line.split()[0] == "2" and "→" in line for line in lines[4:])
        assert "more.tsv" in "".join(lines)

    def test_versions_that_are_gone_are_still_listed(self, tmp_path: Path) -> None:
        kg = tmp_path / "KG"
        done("init", kg, *SMALL, "--keep", "2")
        for version in range(3):
            fact = written(tmp_path / "fact.tsv", f"a{version}\tknows\tb\n")
            done("add", kg, fact, "--quiet")
        assert len(tree("log", kg)) == 4
        assert "Faint: no longer on the disk." in said(done("log", kg))
        assert_refused(lkge("similar", kg, "b", "--version", "1"), "no version 1", "2, 3")


class TestPredict:
    def test_best_first_with_marks(self, kg: Path) -> None:
        answers = tree("predict", kg, "-s", "p3", "-r", "knows 1", "-k", "20")["answers"]
        assert [a["score"] for a in answers] == sorted((a["score"] for a in answers), reverse=True)
        assert [a["entity"] for a in answers if a["known"]] == ["p4"]
        shown = done("predict", kg, "-s", "p3", "-r", "knows 1", "-k", "20").stdout
        assert "(p3, knows 1, ?)" in shown
        assert shown.count("known") == 1
        assert shown.count(" new ") == 18

    def test_backwards(self, kg: Path) -> None:
        found = tree("predict", kg, "-r", "knows 1", "-o", "p4", "-k", "20")
        assert [a["entity"] for a in found["answers"] if a["known"]] == ["p3"]

    def test_only_new_ones(self, kg: Path) -> None:
        words = ("predict", kg, "-s", "p3", "-r", "knows 1", "-k", "20", "--new")
        answers = tree(*words)["answers"]
        assert len(answers) == 18
        assert "p4" not in {answer["entity"] for answer in answers}

    def test_answers_out_of_range_are_marked_or_left_out(self, kg: Path) -> None:
        fact = written(kg.parent / "fact.tsv", "Basel\tlies in\tEurope\n")
        done("add", kg, fact, "--valid", "0", "--quiet")
        words = ("predict", kg, "-s", "p3", "-r", "knows 1", "-k", "30")
        answers = tree(*words)["answers"]
        outside = {answer["entity"] for answer in answers if not answer["in_range"]}
        assert outside == {"Basel", "Europe"}
        assert done(*words).stdout.count("out of range") == 2
        assert tree(*words, "--in-range")["answers"] == [a for a in answers if a["in_range"]]
        assert "out of range" not in done(*words, "--in-range").stdout

    def test_few_held_out_facts_are_told(self, kg: Path) -> None:
        words = ("predict", kg, "-s", "p3", "-r", "knows 1", "-k", "20")
        found = tree(*words)
        assert found["calibrated"] is False
        assert max(answer["plausibility"] for answer in found["answers"]) < 0.3
        assert "not calibrated" in done(*words).stdout

    def test_of_an_older_version(self, kg: Path, more: Path) -> None:
        done("add", kg, more, "--quiet")
        for version, answers in ((1, 19), (2, 29)):
            words = ("-s", "p3", "-r", "knows 1", "-k", "99", "--version", str(version))
            found = tree("predict", kg, *words)
            assert (found["version"], len(found["answers"])) == (version, answers)

    def test_a_batch(self, kg: Path) -> None:
        questions = "p3\tknows 1\t?\n\n?\tknows 2\tp4\np3\tknows 1\t?\n"
        file = written(kg.parent / "questions.tsv", questions)
        first, second, third = tree("predict", kg, "--batch", file, "-k", "3")
        assert first == tree("predict", kg, "-s", "p3", "-r", "knows 1", "-k", "3") == third
        assert second == tree("predict", kg, "-r", "knows 2", "-o", "p4", "-k", "3")
        assert done("predict", kg, "--batch", file).stdout.count("(p3, knows 1, ?)") == 2

    @pytest.mark.parametrize(
        ("line", "fragment"),
        [
            ("p3\tknows 1", "found 2 fields"),
            ("p3\tknows 1\tp4", "with ? for one of them"),
            ("?\tknows 1\t?", "with ? for one of them"),
            ("p3\t\t?", "with ? for one of them"),
            ("p3\tknows 9\t?", "no relation named 'knows 9'"),
            ("person 3\tknows 1\t?", "no entity named 'person 3'"),
        ],
    )
    def test_a_bad_line_of_a_batch_is_named(self, kg: Path, line: str, fragment: str) -> None:
        file = written(kg.parent / "questions.tsv", f"p3\tknows 1\t?\n{line}\n")
        result = lkge("predict", kg, "--batch", file)
        assert_refused(result, f"{file}:2", fragment)

    @pytest.mark.parametrize(
        ("words", "fragments"),
        [
            (["-s", "p33", "-r", "knows 1"], ["'p33'", "Did you mean", "'p3'"]),
            (["-s", "p3", "-r", "know 1"], ["'know 1'", "'knows 1'"]),
            (["-s", "p3"], ["-r RELATION"]),
            (["-r", "knows 1"], ["-s SUBJECT"]),
            (["-s", "p3", "-r", "knows 1", "-o", "p4"], ["-s SUBJECT"]),
            (["-s", "p3", "--batch", "q.tsv"], ["leave out -s"]),
            (["--batch", "absent.tsv"], ["absent.tsv"]),
            (["-s", "p3", "-r", "knows 1", "--version", "7"], ["no version 7"]),
        ],
    )
    def test_a_bad_question(self, kg: Path, words: list[str], fragments: list[str]) -> None:
        assert_refused(lkge("predict", kg, *words), *fragments)

    def test_without_known_facts_nothing_is_marked(self, tmp_path: Path, more: Path) -> None:
        kg = tmp_path / "KG"
        done("init", kg, *SMALL, "--no-known", "--from", more, "--valid", "0", "--quiet")
        words = ("predict", kg, "-s", "p20", "-r", "knows 1")
        assert {answer["known"] for answer in tree(*words)["answers"]} == {None}
        shown = done(*words).stdout
        assert " new " not in shown
        assert "not calibrated" in shown
        assert {answer["in_range"] for answer in tree(*words)["answers"]} == {None}
        assert_refused(lkge(*words, "--new"), "--new needs the known facts")
        assert_refused(lkge(*words, "--in-range"), "--in-range needs the known facts")


def test_similar(kg: Path) -> None:
    found = tree("similar", kg, "p3", "-k", "5")["answers"]
    assert len(found) == 5
    assert "p3" not in {each["entity"] for each in found}
    assert found[0]["entity"] in done("similar", kg, "p3").stdout
    assert_refused(lkge("similar", kg, "P3"), "no entity named 'P3'", "'p3'")


def test_score(kg: Path) -> None:
    facts = written(kg.parent / "facts.tsv", "p0\tknows 1\tp1\np0\tknows 1\tp9\n")
    judged = tree("score", kg, facts)["facts"]
    assert [(fact["object"], fact["known"]) for fact in judged] == [("p1", True), ("p9", False)]
    asked = [(fact["subject"], fact["relation"], fact["object"]) for fact in judged]
    assert judged == [fact._asdict() for fact in open_graph(kg).score(asked)]
    shown = done("score", kg, facts).stdout
    assert "known" in shown
    assert " new" in shown
    bad = written(kg.parent / "bad.tsv", "p0\tknows 1\tp1\np0\tknows 1\tpp9\n")
    assert_refused(lkge("score", kg, bad), "bad.tsv:2", "'pp9'", "'p9'")


class TestCheck:
    def test_a_whole_graph(self, kg: Path) -> None:
        assert "every byte of 2 versions" in done("verify", kg).stdout
        assert tree("verify", kg) == {"damage": [], "repaired": [], "whole": True}

    def test_damage_is_named_and_mended(self, kg: Path, more: Path) -> None:
        done("add", kg, more, "--quiet", "--valid", "0.1")
        before = tree("predict", kg, "-s", "p20", "-r", "knows 1")
        names = kg / "data" / "000002-names-base.safetensors"
        os.truncate(names, 100)
        found = lkge("verify", kg)
        assert found.exit_code == 1
        assert found.stdout.startswith(f"{names}: truncated: 100 of ")
        assert f"lkge verify {kg} --repair" in found.stdout
        assert lkge("verify", kg, "--json").exit_code == 1
        older = lkge("similar", kg, "p3", "-k", "99", "--json")
        assert len(json.loads(older.stdout)["answers"]) == 19, "version 1 answers"
        assert "warning: version 2 is damaged, and version 1 is used" in older.stderr
        assert_refused(lkge("add", kg, more), "damaged", "--repair")
        mended = done("verify", kg, "--repair").stdout
        assert f"Learn again: lkge add {kg}" in mended
        done("add", kg, "--quiet")
        assert tree("predict", kg, "-s", "p20", "-r", "knows 1") == before
        assert tree("verify", kg)["whole"]


def test_rollback(kg: Path, more: Path) -> None:
    before = tree("similar", kg, "p3")["answers"]
    done("add", kg, more, "--quiet")
    assert "version 3 is version 1 again" in done("rollback", kg, "1").stdout
    assert tree("similar", kg, "p3")["answers"] == before
    assert [record["kind"] for record in tree("log", kg)] == ["init", "add", "add", "rollback"]
    assert_refused(lkge("rollback", kg, "9"), "no version 9", "0, 1, 2, 3")
    assert tree("rollback", kg, "2")["entities"] == 30


class TestNothingNew:
    def test_it_is_said_and_no_version_is_made(self, kg: Path, tmp_path: Path) -> None:
        known = written(tmp_path / "known.tsv", ring(0, 20))
        result = done("add", kg, known, "--quiet")
        assert "known.tsv: nothing new: all 60 facts are known" in said(result)
        assert "stays at version 1" in said(result)
        assert len(tree("log", kg)) == 2
        assert "Nothing waits" in done("add", kg).stdout

    def test_as_json_and_as_events(self, kg: Path, tmp_path: Path) -> None:
        gone = written(tmp_path / "gone.tsv", "p1\tknows 1\tp9\nnobody\tknows 1\tp9\n")
        (record,) = tree("add", kg, "--retract", gone, "--quiet")
        assert (record["kind"], record["version"], record["facts"]) == ("nothing", 1, 0)
        assert record["warnings"] == ["nothing new: none of the 2 retracted facts is known"]
        (line,) = done("add", kg, "--retract", gone, "--events").stdout.splitlines()
        event = json.loads(line)
        assert (event["type"], event["batch"], event["failed"]) == ("BatchSkipped", 3, False)

    def test_what_waited_is_learned_all_the_same(self, kg: Path, tmp_path: Path) -> None:
        accept(Store(kg), [("new one", "knows 1", "p0")])
        known = written(tmp_path / "known.tsv", ring(0, 20))
        kinds = [record["kind"] for record in tree("add", kg, known, "--quiet")]
        assert kinds == ["add", "nothing"]


class TestTags:
    def test_a_tag_stands_for_its_version(self, kg: Path, more: Path) -> None:
        before = tree("predict", kg, "-s", "p3", "-r", "knows 1")
        assert "version 1 has the tag before-import" in done("tag", kg, "before-import").stdout
        done("add", kg, more, "--quiet")
        words = ("-s", "p3", "-r", "knows 1", "--version", "before-import")
        assert tree("predict", kg, *words) == before
        assert tree("tag", kg, "first", "--version", "0") == {"before-import": 1, "first": 0}
        assert "[before-import]" in said(done("log", kg))
        assert [line["tags"] for line in tree("log", kg)] == [["first"], ["before-import"], []]
        again = said(done("rollback", kg, "before-import"))
        assert "version 3 is version 1 again" in again
        assert tree("predict", kg, "-s", "p3", "-r", "knows 1") == {**before, "version": 3}
        assert "deleted" in done("tag", kg, "first", "--delete").stdout
        assert tree("keep", kg)["tags"] == {"before-import": 1}

    def test_what_is_wrong_is_said(self, kg: Path) -> None:
        done("tag", kg, "good", "--version", "0")
        assert_refused(lkge("tag", kg, "good"), "'good' names version 0", "delete it first")
        assert_refused(lkge("tag", kg, "12"), "cannot be a tag", "before-import")
        assert_refused(lkge("tag", kg, "a/b"), "cannot be a tag")
        assert_refused(lkge("tag", kg, "x", "--version", "7"), "no version 7", "0, 1")
        assert_refused(lkge("tag", kg, "bad", "--delete"), "no tag 'bad'", "good")
        assert_refused(lkge("tag", kg, "good", "--delete", "--version", "1"), "leave out")
        assert_refused(lkge("similar", kg, "p3", "--version", "bad"), "no tag 'bad'", "good")

    def test_which_versions_stay_can_be_changed(self, kg: Path) -> None:
        done("tag", kg, "first", "--version", "0")
        for number in range(3):
            fact = written(kg.parent / "fact.tsv", f"new {number}\tknows 1\tp0\n")
            done("add", kg, fact, "--quiet")
        assert tree("keep", kg)["versions"] == [0, 1, 2, 3, 4]
        assert tree("keep", kg, "--keep", "2", "--keep-days", "1")["versions"] == [0, 1, 2, 3, 4]
        assert tree("keep", kg, "--keep-days", "0") == {
            "keep": 2,
            "keep_days": 0,
            "tags": {"first": 0},
            "versions": [0, 3, 4],
        }
        assert "the newest 2 versions stay" in done("keep", kg).stdout
        assert tree("verify", kg)["whole"]


class TestEdit:
    def test_remove_rename_and_merge(self, kg: Path) -> None:
        done("keep", kg, "--keep", "9")
        (record,) = tree("edit", kg, "--remove-entity", "p3", "--quiet")
        assert (record["kind"], record["retracted"], record["removed"]) == ("edit", 6, 1)
        assert record["source"] == "remove 'p3'"
        assert_refused(lkge("similar", kg, "p3"), "no entity named 'p3'", "Did you mean")
        assert "19 in all" in said(done("edit", kg, "--rename", "p4", "Ada", "--quiet"))
        (record,) = tree("edit", kg, "--merge", "p5", "Ada", "--quiet")
        assert (record["removed"], record["facts"]) == (2, record["retracted"])
        answers = tree("predict", kg, "-s", "Ada", "-r", "knows 1", "-k", "99")["answers"]
        assert {answer["entity"] for answer in answers if answer["known"]} == {"p6", "Ada"}
        assert len(answers) == 18
        done("edit", kg, "--rename-relation", "knows 1", "met", "--quiet")
        kinds = [record["kind"] for record in tree("log", kg)]
        assert kinds[-2:] == ["consolidate", "edit"], "in the background, or by the next edit"
        assert tree("predict", kg, "-s", "p0", "-r", "met", "-k", "1")["answers"]
        assert tree("verify", kg)["whole"]
        assert tree("rollback", kg, "1")["removed"] == 0
        assert tree("similar", kg, "p3", "-k", "99")["answers"][18:]

    @pytest.mark.parametrize(
        ("words", "fragments"),
        [
            ([], ["one change, not 0"]),
            (["--remove-entity", "p1", "--rename", "p2", "x"], ["one change, not 2"]),
            (["--remove-entity", "persn"], ["no entity named 'persn'"]),
            (["--rename", "p1", "p2"], ["'p2' is in use"]),
            (["--rename", "p1", " "], ["empty name"]),
            (["--merge", "p1", "p1"], ["twice"]),
            (["--merge", "p1", "p99"], ["no entity named 'p99'", "Did you mean"]),
            (["--rename-relation", "knows 3", "x"], ["no relation", "Did you mean 'knows 1'"]),
            (["--rename-relation", "knows 1", "knows 2"], ["in use"]),
        ],
    )
    def test_what_cannot_be_done_is_said(
        self, kg: Path, words: list[str], fragments: list[str]
    ) -> None:
        assert_refused(lkge("edit", kg, *words), *fragments)
        assert len(tree("log", kg)) == 2
        assert os.listdir(kg / "inbox") == []


def test_export(kg: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert tree("export", kg, "--format", "tsv", "--out", out) == {
        "folder": str(out),
        "files": ["entities.tsv", "relations.tsv"],
    }
    lines = (out / "entities.tsv").read_text("utf-8").splitlines()
    assert [line.count("\t") for line in lines] == [8] * 20
    assert_refused(lkge("export", kg, "--format", "npy", "--out", out), "exists already")
    shown = done("export", kg, "--format", "npy", "--out", tmp_path / "npy", "--version", "0")
    assert "entities.npy" in shown.stdout


def test_the_graph_of_the_commands_is_that_of_python(kg: Path) -> None:
    graph = open_graph(kg)
    answers = graph.predict(subject="p3", relation="knows 1")
    shown = tree("predict", kg, "-s", "p3", "-r", "knows 1")["answers"]
    assert [answer._asdict() for answer in answers] == shown


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0.0, ""), (-0.4, ""), (1.0, "█" * 20), (1.7, "█" * 20), (0.5, "█" * 10), (0.0375, "▊")],
)
def test_bars(share: float, drawn: str) -> None:
    assert bar(share) == drawn


CHOSEN = ("--columns", "subject=source,relation=type,object=target")


class TestFiles:
    @pytest.fixture
    def edges(self, tmp_path: Path) -> Path:
        """Its columns are not in the order of a fact."""
        return written(tmp_path / "edges.csv", "source,target,type\nQ,p1,knows 1\np1,P2,knows 1\n")

    @pytest.mark.parametrize("command", ["init", "add", "score", "build"])
    def test_columns_that_are_not_clear_are_refused(
        self, kg: Path, edges: Path, tmp_path: Path, command: str
    ) -> None:
        words: dict[str, tuple[str | Path, ...]] = {
            "init": ("init", tmp_path / "new", "--from", edges),
            "add": ("add", kg, edges),
            "score": ("score", kg, edges),
            "build": ("datasets", "build", edges, "--growth", "fact", "--out", tmp_path / "new"),
        }
        assert_refused(lkge(*words[command]), "edges.csv:1", " ".join(CHOSEN))
        assert not (tmp_path / "new").exists()

    def test_a_preview_of_what_add_would_do(self, kg: Path, edges: Path) -> None:
        before = tree("log", kg)
        result = done("add", kg, edges, "--preview", *CHOSEN)
        fragments = ("2 source type target source, target, type", "edges.csv", "Q knows 1 p1")
        fragments += ("facts 2 of 2", "entities 2", "P2 differs from 'p2' in case only")
        assert all(fragment in said(result) for fragment in fragments), said(result)
        found = tree("add", kg, edges, "--preview", *CHOSEN)
        assert (found["new_facts"], found["new_entities"], found["new_relations"]) == (2, 2, 0)
        assert found["doubts"][0]["name"] == "P2"
        assert tree("log", kg) == before
        assert tree("queue", kg) == []

    def test_a_preview_of_what_init_would_do(self, tmp_path: Path, edges: Path) -> None:
        found = tree("init", tmp_path / "new", "--from", edges, "--preview", *CHOSEN)
        assert found["sample"] == [["Q", "knows 1", "p1"], ["p1", "knows 1", "P2"]]
        assert not (tmp_path / "new").exists()

    def test_a_preview_needs_facts(self, kg: Path, edges: Path, tmp_path: Path) -> None:
        assert_refused(lkge("init", tmp_path / "new", "--preview"), "give --from")
        assert_refused(lkge("add", kg, "--preview"), "give files")
        assert_refused(lkge("add", kg, edges, *CHOSEN, "--preview", "--retract", edges), "files")

    def test_standard_input_and_a_folder(self, kg: Path, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        written(tmp_path / "in" / "more.jsonl", '["p1", "knows 1", "x2"]\n')
        words = ["add", str(kg), "-", "--format", "ttl", "--preview", "--json"]
        text = '<x:a> <x:r> <x:b> ; <x:l> "text", 5 .'
        result = CliRunner().invoke(app, words, input=text)
        assert result.exit_code == 0, result.output
        (file,) = json.loads(result.stdout)["files"]
        assert file["warnings"] == ["standard input: left out 2 facts: 2 with literals"]
        result = CliRunner().invoke(app, words[:3], input=text)
        assert_refused(result, "standard input", "--format")
        assert tree("add", kg, tmp_path / "in", "--preview")["sample"][0][2] == "x2"

    def test_literals_are_counted_when_facts_are_learned(self, kg: Path, tmp_path: Path) -> None:
        facts = written(tmp_path / "f.trig", '<x:g> { <x:a> <x:r> <x:b> ; <x:l> "text" }')
        result = done("add", kg, facts, "--quiet", "--json")
        assert "left out 1 facts: 1 with literals" in result.stderr
        assert json.loads(result.stdout)[0]["facts"] == 1

    def test_columns_by_number(self, kg: Path, tmp_path: Path) -> None:
        facts = written(tmp_path / "f.tsv", "x\tp1\tp0\tknows 1\n")
        columns = ("--columns", "subject=3,relation=4,object=2")
        assert done("score", kg, facts, *columns, "--json")
        assert_refused(lkge("score", kg, facts), "found 4 fields", "--columns subject=1")
