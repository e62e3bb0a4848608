"""The script that serves the pages, and the dashboard that Prometheus makes of them: here both run for real."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.studies.nights.nights import keep, night, result
from tests.users import must_have

STAGING = Path(__file__).resolve().parents[2] / "staging"
NIGHTS = [night(at, result("f" if at > 2 else "p", recovery_seconds=1.5)) for at in range(4)]
#: Seconds until a page must be there, on a machine that does much else.
LIMIT = 120.0


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def get(port: int, path: str) -> str:
    """A page; empty while there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return ""


def once(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert process.poll() is None, "it has ended"
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.2)


@contextmanager
def running(words: list[str], place: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "TMPDIR": str(place), **variables}
    process = subprocess.Popen(words, cwd=place, env=env, start_new_session=True)
    try:
        yield process
        process.terminate()
        process.wait(30)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[tuple[int, subprocess.Popen[bytes], Path]]:
    """The script on an empty store; its port, its process, and the store."""
    port, store = free_port(), tmp_path / "store"
    with running(["sh", str(STAGING / "pages.sh"), str(store), str(port)], tmp_path, INTERVAL="1") as process:
        once(lambda: get(port, "") != "", process)
        yield port, process, store


def test_pages_follow_the_suites_of_the_store(pages):
    port, process, store = pages
    assert "Nothing has run yet" in get(port, "")
    keep(store, NIGHTS[:2])
    once(lambda: "chaoskit_nights 2" in get(port, "metrics.txt"), process)
    before = sorted(store.rglob("*"))
    assert "test_kill" in get(port, "history.html") and "test_kill" in get(port, "index.html")
    assert sorted(store.rglob("*")) == before
    keep(store, NIGHTS[2:])
    once(lambda: 'kind="red"} 1' in get(port, "metrics.txt"), process)


def test_the_server_ends_with_the_script(pages):
    port, process, _ = pages
    process.terminate()
    assert process.wait(30) == 0
    assert get(port, "") == ""


def test_prometheus_shows_the_nights(pages, tmp_path, request):
    must_have(request, None if shutil.which("prometheus") else "needs prometheus: apt-get install prometheus")
    port, process, store = pages
    keep(store, NIGHTS)
    once(lambda: "chaoskit_nights" in get(port, "metrics.txt"), process)
    settings = (STAGING / "prometheus.yml").read_text()
    assert "pages:8000" in settings
    changed = settings.replace("pages:8000", f"127.0.0.1:{port}").replace("interval: 1m", "interval: 1s")
    (tmp_path / "prometheus.yml").write_text(changed)
    own, consoles = free_port(), STAGING / "consoles"
    options = [
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.console.templates={consoles}",
        f"--web.console.libraries={consoles}",
        f"--web.listen-address=127.0.0.1:{own}",
    ]
    with running(["prometheus", *options], tmp_path) as prometheus:
        once(lambda: "4 suites are in the store" in get(own, "consoles/nights.html"), prometheus)
        page = get(own, "consoles/nights.html")
    assert '<td class="red">red</td><td>test_kill</td>' in page
    assert '<td>test_kill</td><td class="number">1.5s</td>' in page
