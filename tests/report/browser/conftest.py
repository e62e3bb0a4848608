"""A window for all tests of the package, and `look`, which opens a page in it and hears whatever goes wrong there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, Error, Page, Route

from tests.report.browser import chromium
from tests.report.browser.pages import written
from tests.users import must_have

Look = Callable[..., Page]

#: In CSS pixels: a phone held upright, and a window on a desktop.
SCREENS = {"phone": (390, 844), "desktop": (1280, 900)}
SCHEMES = ("light", "dark")
MEASURES = (Path(__file__).parent / "measures.js").read_text()


# Playwright's event loop runs for as long as the browser is there: tests of other packages shall have their own.
@pytest.fixture(scope="package")
def window(request: pytest.FixtureRequest) -> Iterator[Page]:
    """The one window in which all pages are opened."""
    must_have(request, chromium.missing())
    with chromium.started() as browser:
        page = browser.new_page()
        page.context.add_init_script(MEASURES)
        yield page


@pytest.fixture
def heard(window: Page) -> Iterator[list[str]]:
    """What goes wrong in the pages of a test: written to the console, raised, or asked of a network."""
    heard: list[str] = []

    def route(asked: Route) -> None:
        if asked.request.url.startswith("file:"):
            asked.continue_()
        else:
            heard.append(asked.request.url)
            asked.abort()

    def said(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            heard.append(message.text)

    def raised(error: Error) -> None:
        heard.append(str(error))

    window.route("**/*", route)
    window.on("console", said)
    window.on("pageerror", raised)
    yield heard
    window.goto("about:blank")
    window.remove_listener("console", said)
    window.remove_listener("pageerror", raised)
    window.unroute_all()


@pytest.fixture
def look(window: Page, heard: list[str]) -> Iterator[Look]:
    """Opens a file as on a `screen` ('phone', 'desktop'), in a colour `scheme` ('light', 'dark'); fails the test in
    the end if anything went wrong in it."""

    def opened(path: Path, *, screen: str = "desktop", scheme: str = "light") -> Page:
        width, height = SCREENS[screen]
        window.set_viewport_size({"width": width, "height": height})
        window.emulate_media(color_scheme=scheme, media="screen")
        window.goto(path.as_uri())
        return window

    yield opened
    assert not heard


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of all pages that are looked at, by name."""
    return written(tmp_path_factory.mktemp("pages"))
