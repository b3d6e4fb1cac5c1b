"""Tests of settings that follow from the size of a graph."""

import pytest

from lkge import sizing
from lkge.configure import PRESETS, configure
from lkge.sizing import LARGE, PRESET_VALUES, Size, describe, estimate, sized

BASE = Size(155_493, 702_008)


@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_changes_up_to_a_size(preset: str) -> None:
    config = configure({}, preset)
    assert configure({}, preset, size=Size(LARGE, 10**7)) == config


def test_settings_of_a_large_graph_follow_from_its_size() -> None:
    config = configure({}, living=True, size=BASE)
    chosen = {name: config.get(name) for name in PRESET_VALUES}
    assert all(chosen[name] != value for name, value in PRESET_VALUES.items())
    assert sized(config, BASE) == config
    larger = configure({}, living=True, size=Size(10 * BASE.entities, BASE.facts))
    assert larger.training.max_candidates <= config.training.max_candidates


def test_just_above_the_bound_candidates_are_about_as_many_as_below() -> None:
    config = configure({}, living=True, size=Size(LARGE + 1, 10**5))
    below = config.training.candidate_fraction * LARGE
    assert config.training.max_candidates == pytest.approx(below, rel=0.01)


@pytest.mark.parametrize("name", PRESET_VALUES)
def test_a_given_setting_stays(name: str) -> None:
    for value in (PRESET_VALUES[name], 77):
        config = configure({name: value}, living=True, size=BASE)
        assert config.get(name) == value
        short = configure({name.removeprefix("training."): value}, living=True, size=BASE)
        assert short == config


def test_a_softmax_over_all_entities_stays() -> None:
    config = configure({"candidate_fraction": 1.0}, living=True, size=BASE)
    assert config.training.max_candidates == 0


def test_other_losses_only_validate_among_a_sample() -> None:
    config = configure({"loss": "sampled", "negatives": 20}, living=True, size=BASE)
    assert config.training.validation_candidates > 0
    assert config.training.batch_size == PRESET_VALUES["training.batch_size"]


def test_time_and_memory_grow_with_the_graph() -> None:
    config = configure({}, living=True, size=BASE)
    small, large = estimate(config, BASE), estimate(config, Size(10**6, 10**8))
    assert 0 < small.seconds < large.seconds
    assert small.memory < large.memory
    line = describe(config, BASE)
    assert line.startswith("155,493 entities, 702,008 facts; batches of ")
    assert "minutes an epoch" in line
    assert "GiB" in line


def test_too_little_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure({}, living=True, size=BASE)
    monkeypatch.setattr(sizing, "memory_of_machine", lambda: 2**30)
    assert describe(config, BASE).endswith("this machine has 1.0 GiB: choose a smaller --dim")
    monkeypatch.setattr(sizing, "memory_of_machine", lambda: 2**36)
    assert "--dim" not in describe(config, BASE)


def test_partitions_are_said_and_need_no_smaller_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "memory_of_machine", lambda: 2**30)
    line = describe(configure({"partitions": 6}, size=BASE), BASE)
    assert line.endswith("; 6 partitions, two at a time")
