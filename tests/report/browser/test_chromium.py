"""The browser of the tests itself: it leaves nothing behind, and where it is missing the tests say so."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.report.browser import chromium
from tests.users import REPOSITORY, must_have


@pytest.fixture(autouse=True)
def here(request):
    must_have(request, chromium.missing())


#: Looks at a page, and ends as a test does that fails.
SESSION = """
import pathlib, sys
from tests.report.browser import chromium

with chromium.started() as browser:
    page = browser.new_page()
    page.set_content("<p>hello")
    print(page.inner_text("p"), *pathlib.Path(sys.argv[1]).glob("chaoskit-browser-*"))
    raise SystemExit(7)
"""


def test_nothing_is_left_behind_not_even_by_one_that_fails():
    # Not in tmp_path, which is too long for the path of a socket; and in a process of its own: a driver has one.
    with tempfile.TemporaryDirectory() as place:
        env = {**os.environ, "TMPDIR": place, "PYTHONPATH": str(REPOSITORY)}
        words = [sys.executable, "-c", SESSION, place]
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 7, done.stderr
        hello, home = done.stdout.split()
        assert hello == "hello" and not chromium.living(home)
        assert not os.listdir(place)


def test_a_process_that_is_left_is_seen(tmp_path):
    with subprocess.Popen(["sleep", "60"], env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]}) as left:
        try:
            assert chromium.living(str(tmp_path)) == [left.pid]
        finally:
            left.kill()
    assert not chromium.living(str(tmp_path))


@pytest.mark.parametrize(("options", "outcome"), [([], "1 skipped"), (["--chaos-require"], "1 error")])
def test_without_a_browser_the_tests_are_skipped_unless_they_must_not(tmp_path, options, outcome):
    path = f"{tmp_path}{os.pathsep}{Path(sys.executable).parent}"
    words = [
        "tests/report/browser/test_every_page.py",
        "-k",
        "what_is_wrong",
        "-p",
        "no:cacheprovider",
        "-q",
        *options,
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "--basetemp", str(tmp_path / "base")],
        cwd=REPOSITORY, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert outcome in done.stdout and "apt-get install chromium" in done.stdout, done.stdout
