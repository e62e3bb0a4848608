"""What the pages cost: one of a run of 5,000 steps on 8 ranks, and those of a suite of 300 runs.

The runs are written by hand; their records are as long as real ones. One run is timed as a user would, from the command
to the page, with the start of Python and the reading of the record. In Chromium (where it is installed), on a window of
1280 x 900: how long its page takes to load, and the longest task while it is scrolled to its end and the pointer is
moved all over its pictures.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from subprocess import DEVNULL
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

from playwright.sync_api import Page  # noqa: E402
from table import Figure, parser, show  # noqa: E402

from chaoskit.engine.result import Result, of_runs  # noqa: E402
from chaoskit.engine.run_store import Store  # noqa: E402
from chaoskit.engine.runner import Run, stored  # noqa: E402
from chaoskit.protocol.fingerprint import of_bytes  # noqa: E402
from chaoskit.report.html import run_page, site  # noqa: E402
from chaoskit.studies.nights.suite import Suite  # noqa: E402
from tests.history_writer import truth  # noqa: E402
from tests.report.browser import chromium  # noqa: E402
from tests.report.browser.stored import long, stories  # noqa: E402
from tests.report.browser.stored import stored as write  # noqa: E402

STEPS, RANKS, RUNS = 5000, 8, 300
WATCH = """
window.tasks = []; window.frames = [];
new PerformanceObserver((list) => list.getEntries().forEach((each) => tasks.push([each.startTime, each.duration])))
    .observe({ type: "longtask", buffered: true });
(function frame(now) { frames.push(now); requestAnimationFrame(frame); })(performance.now());
"""


def timed(do: Callable[[], Any], *, times: int = 3) -> float:
    """The median of so many tries, in seconds."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        do()
        found.append(time.perf_counter() - begun)
    return median(found)


def fingerprint(name: str, rank: int, position: int) -> str:
    """What a component is at a position: as many letters as the probe writes."""
    return of_bytes(truth(name, rank, position).encode())


def samples(rank: int, position: int) -> list[str]:
    """Four samples a step."""
    return [of_bytes(f"{rank} {position} {number}".encode())[:16] for number in range(4)]


def of_one(scratch: Path, steps: int) -> tuple[list[Figure], Path]:
    """The figures of the long run, and its page."""
    store = Store(scratch / "long")
    run = write(store, long(steps=steps, ranks=RANKS, tell=fingerprint, samples=samples), experiment="test_long")
    target = scratch / "long.html"
    words = [sys.executable, "-m", "chaoskit", "report", str(run.dir), "-o", str(target)]
    loaded = stored(run.dir, store)
    run_page.render(loaded)
    figures = [
        Figure(
            "one run: 'chaoskit report'",
            timed(lambda: subprocess.run(words, check=True, stdout=DEVNULL)),
            "s",
            "<= 3",
        ),
        Figure("one run: its page, the record read", timed(lambda: run_page.render(loaded)), "s"),
        Figure("one run: size of its page", target.stat().st_size / 1e6, "MB", "<= 2"),
    ]
    return figures, target


def of_many(scratch: Path, runs: int) -> list[Figure]:
    """The figures of the suite: copies of a few runs, each of 60 steps on 2 ranks."""
    store = Store(scratch / "suite")
    made = list(stories(store).values())
    results = [of_runs(run.experiment, [run]).to_json() for run in made]
    told = []
    for number in range(runs):
        run, result = made[number % len(made)], results[number % len(made)]
        copy = copied(run, f"{run.id[:-4]}{number:04d}", store)
        text = json.dumps({**result, "name": f"{result['name']}_{number}"})
        told.append(text.replace(json.dumps(str(run.dir))[1:-1], str(copy)))
    results = tuple(Result.from_json(json.loads(text)) for text in told)
    suite = Suite("20260101-020304-000abcd", "2026-01-01T02:03:04.000+00:00", ("chaoskit", "run"), results)
    done = timed(lambda: site.write(suite, scratch / "site", store=store), times=1)
    written = sum(path.stat().st_size for path in (scratch / "site").rglob("*.html"))
    return [
        Figure(f"{runs} runs: index and pages", done, "s", "<= 10"),
        Figure(f"{runs} runs: size of all", written / 1e6, "MB"),
    ]


def copied(run: Run, name: str, store: Store) -> Path:
    """The same run once more."""
    target = store.runs / name
    shutil.copytree(run.dir, target)
    store.update(target, id=name)
    return target


def in_browser(target: Path) -> list[Figure]:
    """How the long page behaves."""
    with chromium.started() as browser:
        window = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        window.add_init_script(WATCH)
        window.goto(target.as_uri())
        loaded = window.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        window.wait_for_timeout(500)
        since = window.evaluate("performance.now()")
        use(window)
        window.wait_for_timeout(200)
        tasks = window.evaluate("tasks")
        frames = [at for at in window.evaluate("frames") if at >= since]
    late = [length for at, length in tasks if at >= since]
    gaps = [later - at for at, later in pairwise(frames)]
    return [
        Figure("one run: its page loads", loaded / 1000, "s", "<= 1"),
        # The browser tells of none below 50 ms.
        Figure("longest task, scrolling and pointing", max(late, default=0.0), "ms", "<= 50"),
        Figure("longest frame, scrolling and pointing", max(gaps), "ms"),
    ]


def use(window: Page) -> None:
    """Scroll through all of it, and move the pointer over every picture, row after row."""
    height = window.evaluate("document.documentElement.scrollHeight")
    for _ in range(0, height, 120):
        window.mouse.wheel(0, 120)
        window.wait_for_timeout(16)
    for picture in window.locator("svg[role=img]").all():
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        if box is None:
            continue
        for row in (0.25, 0.5, 0.75):
            for part in range(60):
                window.mouse.move(box["x"] + box["width"] * part / 60, box["y"] + box["height"] * row)


def main() -> None:
    """All of it, and the table."""
    made = parser(__doc__ or "")
    made.add_argument("--steps", type=int, default=STEPS, help=f"of the long run ({STEPS})")
    made.add_argument("--runs", type=int, default=RUNS, help=f"of the suite ({RUNS})")
    args = made.parse_args()
    with tempfile.TemporaryDirectory(prefix="report-") as scratch:
        figures, target = of_one(Path(scratch), args.steps)
        if chromium.missing() is None:
            figures += in_browser(target)
        figures += of_many(Path(scratch), args.runs)
    show("Reports", figures, json_file=args.json)


if __name__ == "__main__":
    main()
