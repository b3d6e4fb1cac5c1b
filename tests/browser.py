"""A real browser for the tests, and an eye on what it asks for and complains about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

expect.set_options(timeout=20_000)  # machines that test are often busy
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def require_chromium() -> None:
    """Skip where there is no browser; fail where the environment demands one."""
    if not os.path.exists(CHROMIUM):
        _lack("there is no chromium; on Debian: apt-get install chromium")


def _lack(reason: str) -> None:
    if os.environ.get("LKGE_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def barriers(page: Page) -> list[str]:
    """What axe-core calls a serious or critical violation on a page, and where."""
    if find_spec("axe_playwright_python") is None:
        _lack("axe-playwright-python is not installed; it is in the extra `dev`")
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in violations
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, headless."""
    require_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_at(browser: Browser, url: str, **options: Any) -> Iterator[Page]:
    """A page; at its end nothing went wrong on it, and no other host was asked."""
    complaints, asked = list[str](), list[str]()
    with browser.new_context(**options) as context:
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else 0)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        yield page
    assert complaints == []
    assert [one for one in asked if not one.startswith((url, "data:"))] == []
