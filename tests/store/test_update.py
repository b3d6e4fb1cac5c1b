from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.store.living import QUICK, made, mrr_of, ring

from lkge import sizing
from lkge.config import RunConfig
from lkge.living import init
from lkge.store.update import Update
from lkge.store.update_split import UpdateSplit

FORGETFUL = {**QUICK, "method": "fine-tune", "dim": 24, "learning_rate": 0.03, "patience": 60}


def test_forgetting_is_warned_of(tmp_path: Path) -> None:
    graph = init(tmp_path / "KG", **{**FORGETFUL, "max_epochs": 60})
    graph.add(ring(0, 60), valid=0.4)
    wrong = [(f"person {k}", f"knows {step}", "person 0") for k in range(60) for step in (1, 2, 5)]
    record = graph.add(wrong, valid=0)
    assert record.mrr_old < 0.9 * record.mrr_old_before
    before, after = f"{record.mrr_old_before:.3f}", f"{record.mrr_old:.3f}"
    (warning,) = [each for each in record.warnings if "fell" in each]
    assert f"from MRR {before} to {after}" in warning
    assert "lkge rollback" in warning


def test_few_held_out_facts_are_no_ground_for_a_warning(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", **FORGETFUL)
    wrong = [(f"person {k}", "knows 1", "person 0") for k in range(40)]
    assert not any("fell" in warning for warning in graph.add(wrong).warnings)


def test_what_was_not_measured_is_not_a_number(tmp_path: Path) -> None:
    graph = init(tmp_path / "KG", **QUICK)
    first = graph.add(ring(0, 10), valid=0)
    assert math.isnan(first.mrr_new)
    assert math.isnan(first.mrr_old)
    assert first.by_age == {}
    second = graph.add(ring(10, 50), valid=0.2)
    assert second.mrr_new == pytest.approx(mrr_of(graph, 2), abs=0.01)
    assert math.isnan(second.mrr_old_before)
    third = graph.add([("person 0", "knows 1", "person 9")], valid=0)
    assert third.by_age.keys() == {"1-2"}
    assert third.mrr_old == pytest.approx(third.by_age["1-2"].mrr)


def test_a_graph_that_has_grown_large_is_trained_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, seen = init(tmp_path / "KG", **QUICK), []
    chosen = Update.training_config

    def watched(update: Update, split: UpdateSplit) -> RunConfig:
        seen.append(chosen(update, split).training.validation_candidates)
        return chosen(update, split)

    monkeypatch.setattr(Update, "training_config", watched)
    graph.add(ring(0, 10), valid=0)
    monkeypatch.setattr(sizing, "LARGE", 10)
    graph.add(ring(5, 20), valid=0)
    assert seen == [0, sizing.VALIDATION_CANDIDATES]
    assert graph.config.training.validation_candidates == 0
