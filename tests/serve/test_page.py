"""The page in a real browser: type, choose, read the answer, post facts, see a version arrive."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.browser import DESK, PHONE, barriers, chromium, page_at
from tests.serve.helpers import IDLE_LEARNER, TOKEN, running_client, set_reliability, threaded

from lkge import living


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def url(learned: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that is only queried."""
    folder = shutil.copytree(learned, tmp_path_factory.mktemp("asked") / "world")
    set_reliability(folder)
    with threaded(folder, learner_command=IDLE_LEARNER) as address:
        yield address


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    with service_page(browser, url, viewport=DESK) as one:
        yield one


@contextmanager
def service_page(browser: Browser, url: str, **options: Any) -> Iterator[Page]:
    """The page of a service, once it knows which version it shows."""
    with page_at(browser, url, **options) as page:
        expect(page.locator("#version")).not_to_be_empty()
        yield page


def ask(page: Page, entity: str = "city 03", relation: str = "lies") -> None:
    """Type and choose with the keyboard alone."""
    for field, text in (("Entity", entity), ("Relation", relation)):
        box = page.get_by_role("combobox", name=field, exact=True)
        box.press_sequentially(text)
        options = page.get_by_role("listbox", name={"Entity": "Entities"}.get(field, "Relations"))
        expect(options.get_by_role("option")).to_have_count(1)
        box.press("ArrowDown")
        expect(box).to_have_attribute("aria-activedescendant", f"{field.lower()}-options-0")
        box.press("Enter")
        expect(options).to_be_hidden()


def answers(page: Page) -> Any:
    return page.locator(".answers li")


def test_type_choose_and_read_the_answer(page: Page) -> None:
    ask(page)
    expect(answers(page)).to_have_count(10)
    known = answers(page).filter(has_text="Country 3")
    expect(known.locator(".mark")).to_have_text("known")
    expect(answers(page).filter(has_text="City 03")).to_have_count(0)
    city = answers(page).filter(has_text="City").first
    expect(city.locator(".mark")).to_have_text("out of range")
    new = answers(page).filter(has_not_text="known").locator(".track i")
    widths = [bar.bounding_box()["width"] for bar in new.all()]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 0
    expect(page.locator(".question")).to_contain_text("City 03 → lies in → ?")

    page.get_by_label("Only what is in range").check()
    expect(answers(page).filter(has_text="City")).to_have_count(0)
    expect(answers(page).first.locator(".mark")).to_have_text(re.compile("known|new"))
    page.get_by_label("Only what is in range").uncheck()

    page.get_by_label("Only what is not known yet").check()
    expect(answers(page).filter(has_text="Country 3")).to_have_count(0)
    page.get_by_role("radio", name="? → relation → entity").check()
    expect(page.locator(".question")).to_contain_text("? → lies in → City 03")


def test_why_an_answer(page: Page) -> None:
    ask(page, "city 07")
    row = answers(page).filter(has_text="Country 1")
    why = row.get_by_role("button", name="Why?")
    why.click()
    expect(why).to_have_attribute("aria-expanded", "true")
    reasons = row.locator(".reasons li")
    expect(reasons).to_have_count(6)
    weights = [float(text) for text in reasons.locator(".weight").all_inner_texts()]
    assert weights == sorted(weights, reverse=True)
    expect(row.locator(".reasons")).to_contain_text("same relation and object, subjects alike by")
    reasons.first.get_by_role("link").first.click()
    around = page.get_by_role("region", name="Neighbourhood")
    expect(around.locator("strong")).not_to_have_text("City 07")
    why.click()
    expect(row.locator(".reasons")).to_be_hidden()


def test_the_relation_between_two_entities(page: Page) -> None:
    ask(page)
    page.get_by_role("radio", name="Entity → ? → entity").check()
    expect(page.get_by_label("Relation", exact=True)).to_be_hidden()
    expect(page.get_by_text("More limits")).to_be_hidden()
    box = page.get_by_role("combobox", name="Other entity")
    box.press_sequentially("try 3")
    expect(page.get_by_role("listbox", name="Other entities").get_by_role("option")).to_have_count(
        1
    )
    box.press("ArrowDown")
    box.press("Enter")
    expect(page.locator(".question")).to_contain_text("City 03 → ? → Country 3")
    expect(answers(page)).to_have_count(3)
    expect(answers(page).filter(has_text="lies in").locator(".mark")).to_have_text("known")
    page.get_by_label("Only what is not known yet").check()
    expect(answers(page)).to_have_count(1)
    page.reload()
    expect(answers(page)).to_have_count(3)


def test_answers_within_limits(page: Page) -> None:
    ask(page)
    page.get_by_text("More limits").click()
    page.get_by_label("Only these entities").fill("City 09, Country 1,Country 3")
    page.get_by_label("Only these entities").press("Tab")
    expect(answers(page)).to_have_count(3)
    page.get_by_label("Only what no known fact links").check()
    expect(answers(page)).to_have_count(1)
    expect(page.locator("#limits-set")).to_have_text(" · 2 set")
    page.get_by_label("Only these entities").fill("")
    page.get_by_label("Only what no known fact links").uncheck()
    for name, text in (("Its relation", "near"), ("Its object", "city 09")):
        box = page.get_by_role("combobox", name=name)
        box.press_sequentially(text)
        options = page.get_by_role("listbox", name=f"{name[4:].title()}s of the fact")
        expect(options.get_by_role("option")).to_have_count(1)
        box.press("ArrowDown")
        box.press("Enter")
    expect(page.locator("#limits-set")).to_have_text(" · 1 set")
    expect(answers(page)).to_have_count(0)  # only City 03 itself is near to City 09
    page.get_by_role("radio", name="? → relation → entity").check()
    expect(answers(page)).to_have_count(0)


def test_facts_that_may_be_missing(page: Page) -> None:
    page.get_by_role("radio", name="New facts").check()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".question")).to_contain_text("New facts of the graph")
    expect(answers(page)).to_have_count(10)
    expect(answers(page).first.locator(".mark")).to_have_text("new")
    ask(page, relation="near")
    expect(page.locator(".question")).to_contain_text("New facts of City 03 with near to")
    expect(page.locator(".question")).to_contain_text("no other has a better fact")
    for fact in answers(page).locator(".fact").all_inner_texts():
        assert "City 03" in fact
        assert "→ near to →" in fact


def test_labels_are_set_and_read(browser: Browser, learned: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(learned, tmp_path / "world")
    with (
        threaded(folder, learner_command=IDLE_LEARNER) as url,
        service_page(browser, url, viewport=DESK) as page,
    ):
        ask(page)
        page.get_by_role("radio", name="Label").check()
        page.get_by_label("Facts, one a line").fill("City 03 | Third town\nCountry 3 | Land")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Send").click()
        expect(page.locator("#facts-result")).to_have_text("Stored on disk: 2 labels.")
        expect(page.locator(".question")).to_contain_text("Third town City 03 → lies in")
        expect(answers(page).filter(has_text="Land Country 3")).to_have_count(1)
        around = page.get_by_role("region", name="Neighbourhood")
        expect(around.locator("strong")).to_have_text("Third town City 03")
        expect(around.locator("svg")).to_contain_text("Third town")
        page.get_by_label("Entity", exact=True).fill("third")
        option = page.get_by_role("listbox", name="Entities").get_by_role("option")
        expect(option).to_have_text("Third town City 03")
        option.click()
        expect(page.get_by_label("Entity", exact=True)).to_have_value("City 03")


def test_escape_closes_the_completion_and_then_empties_the_field(page: Page) -> None:
    box = page.get_by_role("combobox", name="Entity", exact=True)
    box.press_sequentially("city")
    options = page.get_by_role("listbox", name="Entities").get_by_role("option")
    expect(options).to_have_count(8)
    expect(box).to_have_attribute("aria-expanded", "true")
    box.press("ArrowUp")
    expect(options.nth(7)).to_have_attribute("aria-selected", "true")
    box.press("Escape")
    expect(box).to_have_attribute("aria-expanded", "false")
    expect(box).to_have_value("city")
    box.press("Escape")
    expect(box).to_have_value("")


def test_what_escape_has_closed_does_not_open_again_by_what_was_typed_before(page: Page) -> None:
    box = page.get_by_role("combobox", name="Entity", exact=True)
    box.press_sequentially("cit")
    expect(page.get_by_role("listbox", name="Entities").get_by_role("option")).to_have_count(8)
    box.evaluate("""input => {
        input.value = "city";
        input.dispatchEvent(new Event("input", { bubbles: true }));
        input.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    }""")
    page.wait_for_timeout(500)
    expect(box).to_have_attribute("aria-expanded", "false")
    expect(box).to_have_value("city")


def test_an_unknown_name_gets_spellings_to_choose_from(browser: Browser, url: str) -> None:
    with browser.new_context(viewport=DESK) as context:
        page = context.new_page()
        page.goto(url)
        page.get_by_label("Entity", exact=True).fill("Citi 03")
        page.get_by_label("Relation", exact=True).fill("lies in")
        page.get_by_role("button", name="Ask").click()
        expect(page.locator("#answers")).to_contain_text("there is no entity named 'Citi 03'")
        page.get_by_role("region", name="Answers").get_by_role("button", name="City 03").click()
        expect(answers(page)).to_have_count(10)
        expect(page.get_by_label("Entity", exact=True)).to_have_value("City 03")


def test_one_can_walk_from_neighbour_to_neighbour(page: Page) -> None:
    ask(page)
    around = page.get_by_role("region", name="Neighbourhood")
    expect(around).to_contain_text("4 facts")
    around.get_by_role("button", name="City 09").first.click()
    expect(around.locator("strong")).to_have_text("City 09")
    expect(page.get_by_label("Entity", exact=True)).to_have_value("City 09")
    expect(page.locator(".question")).to_contain_text("City 03 → lies in")
    around.locator("svg g.other", has_text="City 15").click()
    expect(around.locator("strong")).to_have_text("City 15")
    expect(around.get_by_role("heading", name="Similar entities")).to_be_visible()
    assert "entity=City+15" in page.url
    page.reload()
    expect(around.locator("strong")).to_have_text("City 15")


def test_what_one_is_about_to_click_is_not_drawn_again_unless_there_is_other_room(
    page: Page,
) -> None:
    ask(page)
    around = page.get_by_role("region", name="Neighbourhood")
    around.get_by_role("button", name="City 09").first.click()
    expect(around.locator("strong")).to_have_text("City 09")
    node = around.locator("svg g.other").first.element_handle()
    page.wait_for_timeout(400)
    assert node.evaluate("node => node.isConnected")
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_function("node => !node.isConnected", arg=node)


def test_names_in_the_neighbourhood_are_whole(page: Page) -> None:
    read = "(given) => import('/static/around.js').then((part) => part.broken(...given))"
    for name, letters, lines in [
        ("Country 3", 12, ["Country 3"]),
        ("Hot_Water_Booster_Pump", 12, ["Hot_Water_", "Booster_Pump"]),
        ("a" * 25, 10, ["a" * 10, "a" * 10, "a" * 5]),
        ("one two three four five six", 9, ["one two ", "three ", "four fiv…"]),
    ]:
        assert page.evaluate(read, [name, letters]) == lines


LABELS = """
() => {
  const drawn = CanvasRenderingContext2D.prototype.fillText;
  window.labels = new Map();
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    window.labels.set(text, [x, x + this.measureText(text).width]);
    drawn.call(this, text, x, y);
  };
}
"""
RIGHTMOST = """
() => fetch("/map?limit=2000").then((one) => one.json())
  .then(({ entities, x }) => entities[x.indexOf(Math.max(...x))])
"""
CHOOSE = "(name) => import('/static/state.js').then((part) => part.choose(name))"


def test_no_name_on_the_map_is_cut_at_its_edge(page: Page) -> None:
    page.set_viewport_size({"width": 320, "height": 700})
    page.locator("#map-canvas").scroll_into_view_if_needed()
    expect(page.locator("#ramp-high")).to_have_text("6 facts")
    page.evaluate(LABELS)
    last = page.evaluate(RIGHTMOST)
    page.evaluate(CHOOSE, last)
    page.wait_for_function("name => window.labels.has(name)", arg=last)
    width = page.locator("#map-canvas").evaluate("one => one.clientWidth")
    ends = page.evaluate("[...window.labels.values()]")
    assert all(left >= 0 and right <= width for left, right in ends)


def test_the_map_zooms_moves_and_chooses(page: Page) -> None:
    canvas = page.locator("#map-canvas")
    canvas.scroll_into_view_if_needed()
    expect(canvas).to_have_attribute("aria-label", "Map of 36 points")
    expect(page.locator("#ramp-high")).to_have_text("6 facts")

    def shot() -> bytes:
        page.wait_for_timeout(100)
        return canvas.screenshot()

    whole = shot()
    page.get_by_role("button", name="Zoom in").click()
    zoomed = shot()
    assert zoomed != whole
    page.get_by_role("button", name="All", exact=True).click()
    assert shot() == whole
    canvas.focus()
    canvas.press("+")
    canvas.press("ArrowLeft")
    assert shot() != whole
    expect(page.locator("#map-near")).to_contain_text("Nearest to the middle: C")
    named = page.locator("#map-near").inner_text().removeprefix("Nearest to the middle: ")
    canvas.press("Enter")
    expect(page.get_by_role("region", name="Neighbourhood").locator("strong")).to_have_text(named)
    canvas.press("0")
    before = shot()
    box = canvas.bounding_box()
    assert box
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.mouse.wheel(0, -400)
    assert shot() != before
    page.get_by_label("Colour").select_option("version it came in")
    expect(page.locator("#ramp-high")).to_have_text("version 1")


def test_history_is_drawn_and_told(page: Page) -> None:
    expect(
        page.get_by_role("img", name="Known facts over versions. Known facts: 0, 66")
    ).to_be_visible()
    table = page.get_by_role("table", name="MRR after each version")
    expect(table.get_by_role("rowheader")).to_have_text(["after 1"])
    expect(table.get_by_role("columnheader")).to_have_text(["new facts"])
    health = page.get_by_role("region", name="Health")
    older = "MRR of held-out facts over versions. older facts: not measured, not measured"
    chart = health.get_by_role("img", name=older)
    expect(chart.locator(".point.kind-0")).to_have_count(1)
    expect(health).to_contain_text("Not known yet: 0 older held-out facts are too few to judge")
    page.get_by_text("All versions as a table").click()
    expect(page.get_by_role("region", name="All versions").locator("tbody tr")).to_have_count(2)


def test_the_reliability_of_plausibility_is_drawn_and_told(page: Page) -> None:
    health = page.get_by_role("region", name="Health")
    told = (
        "3 answers with plausibility 10 %: 33 % true. 2 answers with plausibility 50 %: 100 % true"
    )
    plot = health.get_by_role("img", name=f"Plausibility and share of true answers. {told}")
    expect(plot.locator(".point")).to_have_count(2)
    (x, y), (last_x, last_y) = (
        (float(point.get_attribute("cx") or 0), float(point.get_attribute("cy") or 0))
        for point in plot.locator(".point").all()
    )
    ideal = plot.locator(".ideal")
    left, right, bottom, top = (
        float(ideal.get_attribute(at) or 0) for at in ("x1", "x2", "y1", "y2")
    )
    assert (x - left) / (right - left) == pytest.approx(0.1)
    assert (bottom - y) / (bottom - top) == pytest.approx(1 / 3)
    assert (last_x - left) / (right - left) == pytest.approx(0.5)
    assert last_y == pytest.approx(top)
    expect(health).to_contain_text("Off by 0.340 on average, and by 0.340 where it is above 10 %")
    expect(health).to_contain_text("5 answers to 5 queries of held-out facts")


def test_nothing_is_wider_than_a_phone(browser: Browser, url: str) -> None:
    options: dict[str, Any] = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
    with service_page(browser, url, **options) as page:
        ask(page)
        expect(answers(page)).to_have_count(10)
        page.locator("#history").scroll_into_view_if_needed()
        page.get_by_text("All versions as a table").click()
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        small = page.evaluate(
            "[...document.querySelectorAll('button.main, .buttons button, input[type=text]')]"
            ".filter((one) => one.checkVisibility())"
            ".map((one) => one.getBoundingClientRect().height).filter((height) => height < 36)"
        )
        assert small == []


CONTRAST = """
() => {
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (text) => rgb(text).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour) && !/color/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const seen = (one) => one.checkVisibility() && one.textContent.trim();
  return [...document.querySelectorAll("p, label, button, a, h1, h2, h3, summary, .mark, .share")]
    .filter((one) => seen(one) && !one.closest(".unseen, .skip"))
    .map((one) => {
      const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((x, y) => y - x);
      return [one.textContent.slice(0, 30), (a + 0.05) / (b + 0.05)];
    })
    .filter(([, ratio]) => ratio < 4.5);
}
"""


@pytest.mark.parametrize(
    ("scheme", "viewport"), [("light", DESK), ("dark", DESK), ("light", PHONE)]
)
def test_every_text_can_be_read_and_nothing_is_a_barrier(
    browser: Browser, url: str, scheme: Any, viewport: Any
) -> None:
    with service_page(browser, url, viewport=viewport, color_scheme=scheme) as page:
        ask(page)
        expect(answers(page)).to_have_count(10)
        answers(page).first.get_by_role("button", name="Why?").click()
        expect(answers(page).first.locator(".reasons li").first).to_be_visible()
        page.locator("#map-canvas").scroll_into_view_if_needed()
        expect(page.locator("#ramp-high")).to_have_text("6 facts")
        for closed in ("More limits", "All versions as a table", "Or a file"):
            page.get_by_text(closed).click()
        assert page.evaluate(CONTRAST) == []
        assert barriers(page) == []


def test_every_field_has_a_name_and_the_tab_key_reaches_all(page: Page) -> None:
    nameless = page.evaluate(
        "[...document.querySelectorAll('input, select, textarea')]"
        ".filter((one) => !one.labels.length).map((one) => one.outerHTML)"
    )
    assert nameless == []
    reached = []
    for _ in range(32):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    order = [
        "entity",
        "relation",
        "count",
        "new-only",
        "in-range",
        "limits-summary",
        "map-colour",
        "map-canvas",
        "relearn",
        "facts",
        "token",
    ]
    assert [one for one in reached if one in order] == order


def test_lines_of_text_become_facts(page: Page) -> None:
    read = "(text) => import('/static/grow.js').then((part) => part.factsOf(text))"
    assert page.evaluate(read, "a\tb c\td|e\n\n x | y | z \n") == [
        ["a", "b c", "d|e"],
        ["x", "y", "z"],
    ]
    page.get_by_label("Facts, one a line").fill("a | b | c\nonly two | names")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#facts-result")).to_contain_text("Line 2")


def test_post_facts_and_see_the_new_version_arrive(
    browser: Browser, learned: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(learned, tmp_path / "world")
    with threaded(folder) as url, service_page(browser, url, viewport=DESK) as page:
        ask(page, "country 1", "lies")
        page.get_by_role("radio", name="? → relation → entity").check()
        page.get_by_label("How many answers").select_option("50")
        expect(page.locator(".question")).to_contain_text("version 1")
        page.get_by_label("Facts, one a line").fill(
            "Rome\tlies in\tCountry 1\nOstia | near to | Rome"
        )
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Send").click()
        expect(page.locator("#facts-result")).to_contain_text("Stored on disk as batch 2")
        expect(page.locator("#live")).to_contain_text("Learning. Batch 2", timeout=20_000)
        expect(page.locator("#version")).to_have_text("version 2", timeout=90_000)
        expect(page.locator("#live")).to_be_hidden()
        expect(page.locator("#facts-result")).to_have_text("Version 2 is active.")
        expect(page.locator("#jobs li").first).to_contain_text("became version 2")
        expect(page.locator("#sizes")).to_contain_text("38 entities")
        expect(page.locator(".question")).to_contain_text("version 2")
        expect(answers(page).filter(has_text="Rome").locator(".mark")).to_have_text("known")
        expect(page.get_by_role("img", name="Entities over versions")).to_have_attribute(
            "aria-label", "Entities over versions. Entities: 0, 36, 38"
        )


def test_facts_that_are_known_and_tags_are_shown(
    browser: Browser, learned: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(learned, tmp_path / "world")
    living.open(folder).tag("first-import")
    with threaded(folder) as url, service_page(browser, url, viewport=DESK) as page:
        expect(page.locator("#log")).to_contain_text("first-import")
        expect(page.locator("#reliability")).to_contain_text("Not measured for this version")
        page.get_by_label("Facts, one a line").fill("City 03 | lies in | Country 3")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Send").click()
        nothing = "nothing new: the fact is known"
        expect(page.locator("#facts-result")).to_have_text(nothing, timeout=60_000)
        expect(page.locator("#jobs li").first).to_contain_text("no new version")
        expect(page.locator("#jobs li").first).to_contain_text(nothing)
        expect(page.locator("#version")).to_have_text("version 1")


def test_learn_all_known_facts_again(browser: Browser, learned: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(learned, tmp_path / "world")
    with threaded(folder) as url, browser.new_context(viewport=DESK) as context:
        page = context.new_page()
        page.goto(url)
        health, again = page.get_by_role("region", name="Health"), "Learn all known facts again"
        health.get_by_role("button", name=again).click()
        needs = "This needs the token of the service. Write it into the field “Token”."
        expect(page.locator("#relearn-state")).to_have_text(needs)
        page.get_by_label("Token").fill(TOKEN)
        health.get_by_role("button", name=again).click()
        expect(health.get_by_role("button", name=again)).to_be_disabled()
        expect(page.locator("#version")).to_have_text("version 2", timeout=90_000)
        expect(page.locator("#relearn-state")).to_have_text("Became version 2.")
        expect(health.get_by_role("button", name=again)).to_be_enabled()


def test_a_wrong_token_is_told(browser: Browser, url: str) -> None:
    with browser.new_context(viewport=DESK) as context:
        page = context.new_page()
        page.goto(url)
        page.get_by_label("Facts, one a line").fill("a | b | c")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Send").click()
        unknown = "The service does not know this token. It is the one that the service was started"
        expect(page.locator("#facts-result")).to_contain_text(unknown)
        expect(page.get_by_label("Facts, one a line")).to_have_value("a | b | c")
        expect(page.get_by_label("Token")).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_label("Token")).to_be_focused()


SAID = "(said) => import('/static/api.js').then((part) => new part.Problem(said, 'x').message)"


def test_a_token_for_reading_is_told_from_one_for_writing(page: Page, learned: Path) -> None:
    header = {"Authorization": "Bearer reading"}
    with running_client(learned, read_token="reading", learner_command=IDLE_LEARNER) as client:
        refusal = client.post("/facts", json={"facts": [["a", "b", "c"]]}, headers=header)
    assert refusal.status_code == 403
    told = "a token for reading, or a password, allows no writing; send that for writing"
    assert page.evaluate(SAID, refusal.json()) == told


def test_a_file_is_looked_at_and_sent(browser: Browser, learned: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(learned, tmp_path / "world")
    edges, literal = tmp_path / "edges.csv", tmp_path / "facts.ttl"
    edges.write_text("source,target,type\nRome,Country 1,lies in\n", encoding="utf-8")
    literal.write_text('<x:a> <x:r> <x:b> ; <x:l> "text" .', encoding="utf-8")
    with (
        threaded(folder, learner_command=IDLE_LEARNER) as url,
        service_page(browser, url, viewport=DESK) as page,
    ):
        result, look = page.locator("#facts-result"), page.get_by_role("button", name="Look")
        page.get_by_label("Token").fill(TOKEN)
        look.click()
        expect(result).to_have_text("Write facts, one a line, or choose a file.")
        page.get_by_text("Or a file").click()
        page.locator("#facts-file").set_input_files(edges)
        page.locator("#facts-columns").fill("subject=source,relation=type,object=target")
        look.click()
        preview = page.locator("#facts-preview")
        expect(preview).to_contain_text("1 new of 1 fact; new entities: 1; new relations: 0.")
        expect(preview).to_contain_text("subject = source, relation = type, object = target")
        expect(preview.locator("tr")).to_have_text(["Romelies inCountry 1"])
        page.get_by_role("button", name="Send").click()
        expect(result).to_contain_text("Stored on disk as batch 2")
        expect(preview).to_be_empty()
        page.locator("#facts-columns").fill("")
        page.locator("#facts-file").set_input_files(literal)
        page.get_by_role("button", name="Send").click()
        expect(result).to_contain_text("left out 1 facts: 1 with literals")
        page.get_by_label("Facts, one a line").fill("city 01 | near to | Rome")
        look.click()
        expect(preview).to_contain_text("differs from 'City 01' in case only")
