"""The report in a real browser, at a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect
from tests.browser import DESK, PHONE, chromium, page_at

from lkge.evaluation.results import PROTOCOLS, Accuracy, Results
from lkge.reports.page import write_report

METHODS = ("lkge", "fine-tune", "evergreen")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def address(make_run: Callable[..., Results], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of three systems on two datasets, as a file; two seeds, relations with long
    names."""
    relations = {
        f"http://a.place/{k}/{'long' * 20}": Accuracy(k / 30, 0, 0, 0, 40) for k in range(30)
    }
    runs = [
        replace(
            make_run(dataset, method, 0.1 + 0.05 * place, snapshots=3, seed=seed),
            relations=dict.fromkeys(PROTOCOLS, relations),
        )
        for dataset in ("ENTITY", "FACT")
        for place, method in enumerate(METHODS)
        for seed in (1, 2)
    ]
    return write_report(runs, tmp_path_factory.mktemp("report")).as_uri()


@pytest.fixture(params=[DESK, PHONE], ids=["desk", "phone"])
def report(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    with page_at(browser, address, viewport=request.param) as page:
        yield page


def shown(page: Page) -> int:
    """How many systems show their matrix."""
    return page.locator("details[open] table.heat").count()


def test_a_click_on_a_system_shows_its_matrix_and_settings(report: Page) -> None:
    assert shown(report) == 0
    row = report.locator("tr[data-panel]").filter(has_text="fine-tune").first
    panel = report.locator(f"details[id='{row.get_attribute('data-panel')}']")
    row.click()
    expect(panel).to_have_attribute("open", "")
    expect(panel.locator("table.heat").first).to_be_visible()
    expect(panel.locator("dt").filter(has_text="learning_rate")).to_be_visible()
    expect(panel.locator("summary")).to_be_focused()
    assert report.locator("details[open]").count() == 1


def test_nothing_is_wider_than_the_screen(report: Page) -> None:
    for panel in report.locator("details").all():
        panel.locator("summary").click()
    assert shown(report) == 2 * 2 * len(METHODS)
    size: ViewportSize | None = report.viewport_size
    assert size is not None
    assert report.evaluate("document.documentElement.scrollWidth") == size["width"]
    for figure in report.locator("svg").all():
        box = figure.bounding_box()
        assert box is not None
        assert box["width"] > 100
