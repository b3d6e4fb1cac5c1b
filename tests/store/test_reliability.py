"""The reliability of plausibility: bins by hand, and curves that are tested on other facts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tests.store.test_held_out_lists import ENTITIES, predictor_of, true_facts

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import with_inverses
from lkge.living import open as open_graph
from lkge.store import held_out_lists, records
from lkge.store.answer_list import Features
from lkge.store.calibration import UNKNOWN, Calibration, Examples, fitted
from lkge.store.held_out_lists import PARTS, TOP, calibrated
from lkge.store.reliability import Bin, reliability
from lkge.store.subgraph import whole_graph

GOLDEN = Path(__file__).parents[1] / "golden"


def test_bins_have_the_mean_and_the_share_by_hand() -> None:
    plausibility = np.array([0.02, 0.06, 0.5, 0.58, 1.0])
    true = np.array([False, True, True, False, True])
    found = reliability(3, plausibility, true, np.array([3.0, 1.0, 1.0, 1.0, 1.0]))
    assert [each.answers for each in found.bins] == [2, 2, 1]
    assert [each.plausibility for each in found.bins] == pytest.approx([0.03, 0.54, 1.0])
    assert [each.true for each in found.bins] == pytest.approx([0.25, 0.5, 1.0])
    assert found.error == pytest.approx((4 * 0.22 + 2 * 0.04 + 0) / 7)
    assert (found.queries, found.answers) == (3, 5)
    assert found.error_above == pytest.approx(2 * 0.04 / 3)
    assert reliability(1, plausibility[:1], true[:1], np.ones(1)).error_above is None


def test_a_curve_is_tested_on_lists_that_it_has_not_seen() -> None:
    """Of each relation one of two answers is true. A curve that has seen both says 0.5, as is
    right; one that has seen the other says the wrong thing."""
    examples, parts = list[Examples](), list[np.ndarray]()
    for number in range(200):
        features, relation = Features(np.zeros(1), np.zeros(1)), np.array([number // 2])
        true = np.array([number % 2 == 0])
        examples.append(Examples(features, relation, true, np.full(1, 50.0)))
        parts.append(np.array([number % PARTS]))
    joined = held_out_lists._joined(examples)
    whole = fitted(joined, 200, 1.0)
    seen = np.array([whole.plausibility(one.features, one.relations[0])[0] for one in examples])
    assert reliability(200, seen, joined.true, joined.weights).error < 0.01
    found = held_out_lists._cross_fitted(examples, parts, whole)
    assert found
    assert found.error > 0.9
    assert found.answers == 200


def test_the_facts_of_a_part_are_in_no_list_of_its_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = predictor_of("complex")
    held = true_facts(predictor, 150, noise=0.3, seed=6)
    fits = list[Examples]()

    def watched(examples: Examples, facts: int, temperature: float) -> Calibration:
        fits.append(examples)
        return fitted(examples, facts, temperature)

    monkeypatch.setattr(held_out_lists, "fitted", watched)
    known = KnownFacts.build([held])
    found = calibrated(predictor, whole_graph(0, ENTITIES), held, known, ENTITIES)
    queries = len(np.unique(with_inverses(held)[:, :2], axis=0))
    assert found.reliability
    assert (found.reliability.queries, found.reliability.answers) == (queries, TOP * queries)
    whole, *others = fits
    assert len(others) == PARTS
    tested = [len(whole.relations) - len(each.relations) for each in others]
    assert sum(tested) >= len(whole.relations)
    assert all(0.1 * TOP * queries < size < 0.4 * TOP * queries for size in tested)
    monkeypatch.undo()
    again = calibrated(predictor, whole_graph(0, ENTITIES), held, known, ENTITIES)
    assert again == found


def test_what_a_curve_promises_is_measured_as_reliable_and_what_it_does_not_is_not() -> None:
    predictor = predictor_of("complex")
    held = true_facts(predictor, 600, noise=0.3, seed=7)
    known = KnownFacts.build([held])
    found = calibrated(predictor, whole_graph(0, ENTITIES), held, known, ENTITIES).reliability
    assert found
    assert found.error < 0.03
    assert len(found.bins) > 5
    assert all(
        abs(each.true - each.plausibility) < 0.25 for each in found.bins if each.answers > 20
    )


def test_it_is_kept_with_the_calibration_and_old_ones_have_none() -> None:
    found = reliability(1, np.array([0.2]), np.array([True]), np.ones(1))
    kept = Calibration(facts=10, reliability=found)
    assert records.from_json(Calibration, records.to_json(kept)) == kept
    old = records.to_json(kept)
    del old["reliability"]
    assert records.from_json(Calibration, old) == dataclasses.replace(kept, reliability=None)
    assert UNKNOWN.reliability is None
    for name in ("store", "store-2", "store-3"):
        assert open_graph(GOLDEN / name).health().reliability is None
    with pytest.raises(ValueError, match="less than or equal to 1"):
        Bin(1, 1.5, 0.5)
