"""A headless Chromium, Debian's own, which reaches nothing but files and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from playwright.sync_api import Browser, sync_playwright

#: No name is ever looked up; as root there is no sandbox to be had.
ARGUMENTS = ["--host-resolver-rules=MAP * ~NOTFOUND", *(["--no-sandbox"] if os.getuid() == 0 else [])]


def program() -> str | None:
    """Where Chromium is, if it is here."""
    return shutil.which("chromium")


def missing() -> str | None:
    """Why no page can be looked at here, None where it can."""
    return None if program() else "chromium is needed to look at pages; on Debian: apt-get install chromium"


@contextmanager
def started() -> Iterator[Browser]:
    """A browser. Its profile, and whatever else it keeps, lies in a directory of its own, which goes with it; raises
    AssertionError if a process of it is left then."""
    home = tempfile.mkdtemp(prefix="chaoskit-browser-")
    try:
        with mock.patch.dict(os.environ, TMPDIR=home, HOME=home, XDG_CONFIG_HOME=home, XDG_CACHE_HOME=home):
            driver = sync_playwright().start()
        try:
            browser = driver.chromium.launch(executable_path=program(), args=ARGUMENTS)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.stop()
        assert not _left(home), "chromium has not ended"
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _left(home: str, *, timeout: float = 10.0) -> list[int]:
    """The processes that live in `home`, once they have had their time to end."""
    deadline = time.monotonic() + timeout
    while (left := living(home)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def living(home: str) -> list[int]:
    """The processes that were told to keep their things in `home`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            # Of those that have ended and are only waited for, nothing is to be read.
            if home.encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found
