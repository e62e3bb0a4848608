"""The page of a run, as a browser draws it: the picture has what it must have, and where it must be."""

import pytest
from playwright.sync_api import Page

from tests.report.browser.stored import HOSTILE, STORIES

#: How often something is drawn.
PARTS = {
    "faults": "svg.losses .fault-window", "arrows": "svg.losses .resumed-arrow",
    "branches": "svg.losses .branch.rolled-back", "valid": "svg.losses .checkpoint.valid",
    "refused": "svg.losses .checkpoint.refused", "resumed": "svg.losses .checkpoint.resumed",
    "poisoned": "svg.losses .checkpoint.poisoned", "nonfinite": "svg.losses .nonfinite",
    "deaths": "svg.lanes .death", "stalls": "svg.lanes .stall", "wrong": "#alignment td.wrong", "stacks": "#stacks pre",
}  # fmt: skip
#: What each story must show; whatever is not named is not there.
MUST_SHOW = {
    "passed": {"faults": 1, "arrows": 1, "branches": 1, "valid": 2, "resumed": 1, "deaths": 2},
    "optimizer": {"faults": 1, "arrows": 1, "branches": 1, "valid": 2, "resumed": 1, "deaths": 2, "wrong": 1},
    # Of the life that was killed neither the torn checkpoint nor the damaged one is taken.
    "fallback": {
        "faults": 3, "arrows": 1, "branches": 1, "valid": 2, "refused": 2, "resumed": 1, "deaths": 2, "stalls": 2,
    },
    "numbers": {
        "faults": 1, "arrows": 1, "branches": 1, "valid": 1, "resumed": 1, "poisoned": 1, "nonfinite": 2, "deaths": 2,
    },
    "hang": {"faults": 1, "valid": 1, "deaths": 2, "stalls": 2, "stacks": 2},
    "gone": {"faults": 1, "valid": 1, "deaths": 2},
    "unjudged": {"faults": 1, "arrows": 1, "branches": 1, "valid": 2, "resumed": 1, "deaths": 2},
}  # fmt: skip
#: In pixels of the screen.
NEAR = 2.0


def parts(page: Page) -> dict[str, int]:
    """What is drawn, by how often."""
    found = {name: page.locator(selector).count() for name, selector in PARTS.items()}
    return {name: count for name, count in found.items() if count}


@pytest.mark.parametrize("story", [name for name in STORIES if name != "hostile"])
def test_the_page_shows_what_happened(pages, look, story):
    assert parts(look(pages[story])) == MUST_SHOW[story]


def test_what_is_not_drawn_is_missed(pages, look):
    page = look(pages["optimizer"])
    for selector in (".fault-window", ".resumed-arrow", "#alignment td.wrong"):
        before = parts(page)
        page.evaluate("selector => document.querySelector(selector).remove()", selector)
        assert parts(page) != before


def test_the_verdict_comes_first(pages, look):
    for screen, height in ("desktop", 900), ("phone", 844):
        page = look(pages["optimizer"], screen=screen)
        sentence = page.locator(".sentence").first
        assert "optimizer" in sentence.inner_text()
        box = sentence.bounding_box()
        assert box["y"] + box["height"] < height, "not on the first screen"
        assert page.locator("h1 .code", has_text="optimizer-not-restored").is_visible()


def middle(page: Page, selector: str) -> float:
    """Where the middle of something is on the screen, from the left."""
    box = page.locator(selector).first.bounding_box()
    return box["x"] + box["width"] / 2


def ends(page: Page, selector: str) -> tuple[float, float]:
    """Where a line begins and ends on the screen, from the left."""
    return tuple(
        page.locator(selector).first.evaluate(
            """line => [0, line.getTotalLength()].map((at) => {
                const point = line.getPointAtLength(at);
                return new DOMPoint(point.x, point.y).matrixTransform(line.getScreenCTM()).x;
            })"""
        )
    )


def test_the_arrow_leads_from_where_the_job_was_to_the_checkpoint(pages, look):
    page = look(pages["passed"])
    arrow = page.locator(".resumed-arrow")
    assert (arrow.get_attribute("data-from"), arrow.get_attribute("data-to")) == ("25", "20")
    start, end = ends(page, ".resumed-arrow path")
    struck = page.locator("svg.losses .fault-window rect").bounding_box()
    assert start == pytest.approx(struck["x"], abs=NEAR)
    assert end == pytest.approx(middle(page, '.checkpoint.resumed[data-position="20"] circle'), abs=NEAR)


def test_every_fault_has_its_window_and_its_name(pages, look):
    page = look(pages["fallback"])
    assert page.locator("svg.losses .fault-name").all_text_contents() == [
        "pause rank 1",
        "kill rank 1 at step 46",
        "flip a bit of step 40",
    ]
    pause, kill = (page.locator("svg.losses .fault-window rect").nth(n).bounding_box() for n in (0, 1))
    assert pause["x"] < kill["x"] and min(pause["width"], kill["width"]) > 2


def test_the_lanes_stand_under_the_picture_on_the_same_axis(pages, look):
    page = look(pages["passed"])
    losses, lanes = (page.locator(f"svg.{name}").bounding_box() for name in ("losses", "lanes"))
    assert losses["x"] == pytest.approx(lanes["x"], abs=NEAR) and losses["width"] == pytest.approx(lanes["width"])
    assert losses["y"] + losses["height"] <= lanes["y"]


def test_wrong_cells_are_marked_by_more_than_colour(pages, look):
    page = look(pages["optimizer"])
    for cell in page.locator("#alignment td.wrong").all():
        assert "✗" in cell.inner_text() or cell.evaluate("cell => getComputedStyle(cell).fontWeight") >= "600"


def test_lines_and_checkpoints_differ_by_more_than_colour(pages, look):
    page = look(pages["fallback"])
    lines = [".line.reference", ".line.run", ".branch.rolled-back"]
    style = "line => { const own = getComputedStyle(line); return [own.strokeWidth, own.strokeDasharray]; }"
    forms = [page.locator(line).first.evaluate(style) for line in lines]
    assert len({tuple(form) for form in forms}) == len(lines)
    kinds = [f"svg.losses .checkpoint.{kind}" for kind in ("valid", "refused", "resumed")]
    shape = "mark => Array.from(mark.querySelectorAll('path, circle'), (each) => each.outerHTML).join('')"
    assert len({page.locator(kind).first.evaluate(shape) for kind in kinds}) == len(kinds)


def test_verdicts_are_told_by_symbol_and_word(pages, look):
    page = look(pages["optimizer"])
    told = {" ".join(text.split()) for text in page.locator(":is(h1, #checks) .verdict").all_inner_texts()}
    assert told == {"✓ pass", "✗ fail"}


def test_what_a_job_says_is_shown_and_never_run(pages, look):
    page = look(pages["hostile"])
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.wait_for_timeout(50)
    assert page.evaluate("window.hacked") is None
    assert scripts(page) == 1 and page.locator("img").count() == 0
    for place in ("#verdict", "#picture", "#stacks", "#story", "#again"):
        assert HOSTILE[:40] in page.locator(place).text_content(), place


def test_even_if_it_got_into_the_page_it_would_not_run(pages, look, heard, tmp_path):
    poisoned = tmp_path / "poisoned.html"
    poisoned.write_text(pages["passed"].read_text().replace("<main>", f"<main>{HOSTILE}"))
    page = look(poisoned)
    assert scripts(page) == 2 and page.evaluate("window.hacked") is None
    assert heard and all("Content Security Policy" in each for each in heard), heard
    heard.clear()


def scripts(page: Page) -> int:
    return page.locator("script").count()
