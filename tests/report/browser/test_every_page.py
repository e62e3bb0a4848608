"""What holds for every page: on a phone and on a desktop, light and dark, with a keyboard, on paper, off the net."""

import pytest
from playwright.sync_api import Page

from tests.report.browser.conftest import SCHEMES, SCREENS
from tests.report.browser.pages import NAMES

every_page = pytest.mark.parametrize("name", NAMES)
#: WCAG 2.1, level AA: of text to what it stands on, and of what is drawn.
TEXT, DRAWN = 4.5, 3.0
#: What a picture is about; lines that only help the eye may be paler.
MARKS = (
    ".line, .branch, .fault-window path, .checkpoint path, .resumed-arrow path, .nonfinite path, .first-wrong path, "
    ".death path, .stall path, .life rect, .launch rect, .phase rect, .gap-line, .gap-dot, .time, .level, .shift, .v"
)


@every_page
def test_it_can_be_read_on_every_screen_and_in_both_schemes(pages, look, name):
    for screen in SCREENS:
        page = look(pages[name], screen=screen)
        assert page.title() and page.locator("h1").count() == 1
        assert not wide(page), screen
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert not faint(page), (screen, scheme)
            assert not pale(page), (screen, scheme)


@every_page
def test_pictures_are_told_in_words(pages, look, name):
    page = look(pages[name])
    assert not untold(page)


@every_page
def test_a_keyboard_comes_to_everything(pages, look, name):
    page = look(pages[name])
    open_all(page)
    assert not unreached(page)


@every_page
def test_it_can_be_printed(pages, look, name):
    page = look(pages[name], scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not faint(page)
    assert not folded(page)


def wide(page: Page) -> list[str]:
    """Whatever makes the page scroll sideways."""
    return page.evaluate("measures.wide()")


def faint(page: Page, least: float = TEXT) -> list[dict]:
    """Texts with too little contrast to what they stand on."""
    found = page.evaluate("measures.texts()")
    assert found, "nothing to read"
    return [text for text in found if text["ratio"] < least]


def folded(page: Page) -> list[str]:
    """What does not show because it is folded."""
    return page.evaluate(
        """() => Array.from(document.querySelectorAll("details:not([open]) > :not(summary)"))
            .filter((each) => !each.checkVisibility({ contentVisibilityAuto: true })).map((each) => each.outerHTML)"""
    )


def pale(page: Page) -> list[dict]:
    """Marks with too little contrast to what they stand on: neither their area nor their edge can be seen."""
    return [mark for mark in page.evaluate("marks => measures.marks(marks)", MARKS) if mark["ratio"] < DRAWN]


def untold(page: Page) -> list[str]:
    """Pictures without words for those who cannot see them."""
    return page.evaluate(
        """() => Array.from(document.querySelectorAll("svg:not([aria-hidden=true])"), (svg) => {
            const [title, desc] = ["title", "desc"].map((name) => svg.querySelector(`:scope > ${name}`));
            const named = svg.getAttribute("aria-labelledby") || svg.getAttribute("aria-label") || title;
            const words = [title, desc].every((each) => each?.textContent.trim());
            const told = svg.getAttribute("role") === "img" && named && words;
            return told ? null : svg.outerHTML.slice(0, 200);
        }).filter(Boolean)"""
    )


def open_all(page: Page) -> None:
    """Unfold all that is folded, as a reader would."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


def unreached(page: Page) -> list[str]:
    """What Tab never comes to, or what does not show that it has come."""
    stops = page.evaluate("measures.stops()")
    seen = {}
    for _ in range(len(stops) + 1):
        page.keyboard.press("Tab")
        now = page.evaluate("measures.focused()")
        if now["at"] in seen:
            break
        seen[now["at"]] = now
    blind = [now["where"] for now in seen.values() if now["at"] >= 0 and not now["ring"]]
    return [where for at, where in enumerate(stops) if at not in seen] + blind


# Each of these must be seen to speak, on a page that is as it should not be.


def test_what_is_wrong_with_a_page_is_seen(look, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><title>bad</title><style>:focus { outline: none } p { color: #aaa }</style><h1>Bad</h1>"
        "<p>pale</p><div style='width: 2000px'>wide</div><button>no ring</button>"
        "<svg role='img' width='99' height='20'><title>no description</title><text y='9' fill='#999'>grey</text>"
        "<path class='line' d='M0 9H99' stroke='#ddd' fill='none'/></svg>"
    )
    page = look(bad, screen="phone")
    assert wide(page)[1:] == ["div"]
    assert {text["text"] for text in faint(page)} == {"pale", "grey"}
    assert [mark["where"] for mark in pale(page)] == ["path.line"]
    assert len(untold(page)) == 1
    assert unreached(page) == ["button"]


@pytest.mark.parametrize(
    "body",
    [
        "<script>throw new Error('raised')</script>",
        "<script>console.error('written')</script>",
        "<img src='https://example.invalid/a.png'>",
        "<link rel=stylesheet href='http://example.invalid/a.css'>",
    ],
)
def test_what_a_page_must_not_do_is_heard(look, heard, tmp_path, body):
    bad = tmp_path / "bad.html"
    bad.write_text(f"<!doctype html><title>bad</title>{body}")
    look(bad).wait_for_timeout(50)
    assert heard
    heard.clear()
