"""Union, transfer and the way to JSON and back."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from lkge.evaluation.results import (
    PROTOCOLS,
    Accuracy,
    ProtocolResult,
    Results,
    SnapshotRecord,
    union,
)

NAN = math.nan
NOTHING = Accuracy(NAN, NAN, NAN, NAN, 0)


def cell(mrr: float, queries: int = 10) -> Accuracy:
    return Accuracy(mrr, mrr / 2, mrr / 4, mrr / 8, queries)


THREE = ProtocolResult(
    matrix=(
        (cell(0.5, 10),),
        (cell(0.4, 10), cell(0.6, 30)),
        (cell(0.3, 10), cell(0.2, 30), cell(0.8, 60)),
    ),
    forward=(cell(0.1, 30), cell(0.3, 60)),
)


def record(index: int, valid_mrr: float = 0.2) -> SnapshotRecord:
    return SnapshotRecord(
        index=index,
        new_facts=50,
        train_facts=30,
        entities=10,
        relations=2,
        epochs=7,
        best_epoch=4,
        valid_mrr=valid_mrr,
        seconds=1.5,
        validation_seconds=0.5,
        carried_bytes=64,
    )


def test_a_union_weighs_each_query_once() -> None:
    whole = union([cell(0.3, 10), cell(0.2, 30), cell(0.8, 60)])
    assert whole.mrr == pytest.approx((0.3 * 10 + 0.2 * 30 + 0.8 * 60) / 100)
    assert whole.hits1 == pytest.approx(whole.mrr / 2)
    assert whole.hits10 == pytest.approx(whole.mrr / 8)
    assert whole.queries == 100


def test_an_empty_test_set_does_not_spoil_a_union() -> None:
    whole = union([cell(0.3), NOTHING])
    assert whole.mrr == pytest.approx(0.3)
    assert whole.queries == 10
    assert math.isnan(union([]).mrr)
    assert math.isnan(union([NOTHING]).mrr)


def test_accuracy_after_each_snapshot() -> None:
    assert THREE.after(0).mrr == pytest.approx(0.5)
    assert THREE.after(1).mrr == pytest.approx((0.4 + 3 * 0.6) / 4)
    assert THREE.final.mrr == pytest.approx((0.3 + 3 * 0.2 + 6 * 0.8) / 10)


def test_forward_transfer_by_hand() -> None:
    assert THREE.fwt == pytest.approx((0.1 + 0.3) / 2)


def test_backward_transfer_by_hand() -> None:
    assert THREE.bwt == pytest.approx(((0.3 - 0.5) + (0.2 - 0.6)) / 2)


def test_transfer_needs_two_snapshots() -> None:
    one = ProtocolResult(matrix=((cell(0.5),),))
    assert math.isnan(one.fwt)
    assert math.isnan(one.bwt)


def test_a_snapshot_without_test_facts_has_no_part_in_transfer() -> None:
    result = ProtocolResult(
        matrix=(
            (cell(0.5),),
            (cell(0.4), NOTHING),
            (cell(0.3), NOTHING, cell(0.8)),
        ),
        forward=(NOTHING, cell(0.3)),
    )
    assert result.fwt == pytest.approx(0.3)
    assert result.bwt == pytest.approx(-0.2)


def made_results() -> Results:
    return Results(
        dataset="made",
        method="lkge",
        config={"regularization_weight": 0.01, "transfer": True, "score": "transe"},
        snapshots=(record(0), record(1, valid_mrr=NAN)),
        protocols={
            "paper": THREE,
            "current": ProtocolResult(
                ((cell(0.1),), (NOTHING, cell(0.2))), (dataclasses.replace(NOTHING),)
            ),
        },
    )


def test_to_json_and_back_with_what_is_not_a_number() -> None:
    results = made_results()
    text = json.dumps(results.to_json(), allow_nan=False)
    back = Results.from_json(json.loads(text))
    assert json.dumps(back.to_json(), allow_nan=False) == text
    assert back.protocols["paper"] == results.protocols["paper"]
    assert math.isnan(back.snapshots[1].valid_mrr)
    assert back.snapshots[0] == results.snapshots[0]
    assert math.isnan(back.protocols["current"].matrix[1][0].mrr)
    assert back.config == results.config


def test_provenance_goes_to_json_and_back_and_older_results_have_none() -> None:
    made = dataclasses.replace(made_results(), provenance={"lkge": "0.2.0"}, data_digest="ab")
    tree = json.loads(json.dumps(made.to_json()))
    back = Results.from_json(tree)
    assert (back.provenance, back.data_digest) == ({"lkge": "0.2.0"}, "ab")
    del tree["provenance"], tree["data_digest"]
    older = Results.from_json(tree)
    assert (older.provenance, older.data_digest) == ({}, "unknown")


def test_the_last_model_by_the_age_of_facts() -> None:
    results = dataclasses.replace(
        made_results(), snapshots=(record(0), record(1), record(2)), protocols={"paper": THREE}
    )
    assert [(row.protocol, row.snapshot, row.mrr, row.queries) for row in results.by_age()] == [
        *(("paper", 1, 0.3, 10), ("paper", 2, 0.2, 30), ("paper", 3, 0.8, 60)),
    ]


def test_relations_go_to_json_and_back_in_their_order_and_older_results_have_none() -> None:
    found = {"z": cell(0.5, 30), "a⁻": cell(0.1, 4), "none": NOTHING}
    made = dataclasses.replace(made_results(), relations={"paper": found})
    tree = json.loads(json.dumps(made.to_json(), allow_nan=False))
    rows = Results.from_json(tree).by_relation()
    assert [row.relation for row in rows] == list(found)
    assert rows[0] == ("paper", "z", 0.5, 0.25, 0.125, 0.0625, 30)
    assert math.isnan(rows[2].mrr)
    del tree["relations"]
    assert Results.from_json(tree).by_relation() == []


def test_the_sums_of_a_run() -> None:
    results = made_results()
    assert results.mrr == THREE.final.mrr
    assert results.seconds == 3.0


def test_a_fresh_run_has_both_protocols() -> None:
    fresh = Results("made", "lkge", {})
    assert tuple(fresh.protocols) == PROTOCOLS
    assert fresh.seconds == 0
