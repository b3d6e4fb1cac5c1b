from __future__ import annotations

import logging

import pytest

from lkge.serve.logs import BURST, SECONDS, RateLimit


def test_a_flood_of_one_message_is_cut_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    limit, log = RateLimit(lambda: now[0]), logging.getLogger("lkge.test")
    log.addFilter(limit)
    try:
        for number in range(1000):
            log.warning("bad request %d", number)
        log.warning("another message")
        now[0] = SECONDS
        log.warning("bad request %d", 1000)
    finally:
        log.removeFilter(limit)
    *first, other, last = (record.getMessage() for record in caplog.records)
    assert first == [f"bad request {number}" for number in range(BURST)]
    assert other == "another message"
    assert last == "bad request 1000", "it is another place in the code"


def test_what_was_left_out_is_counted_later(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    limit, log = RateLimit(lambda: now[0]), logging.getLogger("lkge.test")
    log.addFilter(limit)
    try:
        for number in range(10):
            now[0] = SECONDS if number == 9 else 0.0
            log.warning("bad request %d", number)
    finally:
        log.removeFilter(limit)
    assert caplog.records[-1].getMessage() == f"bad request 9 (and {9 - BURST} more before)"
    assert len(caplog.records) == BURST + 1
