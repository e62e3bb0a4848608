"""The pages that are looked at: of every story a run's page; of suites, many nights, an upgrade, a map, a forecast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chaoskit.engine.result import of_runs
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Run
from chaoskit.job import Job
from chaoskit.report.html import (
    compare_page,
    forecast_page,
    history_page,
    page,
    sdc_page,
    site,
    suite_page,
    upgrade_page,
)
from chaoskit.studies.forecast.answer import forecast
from chaoskit.studies.forecast.inputs import ForecastRequest
from chaoskit.studies.nights.comparison import compare_suites
from chaoskit.studies.nights.findings import Findings
from chaoskit.studies.nights.suite import Suite
from chaoskit.studies.nights.suite_history import SuiteHistory
from chaoskit.studies.upgrade.band import LossTolerance
from chaoskit.studies.upgrade.crossing import Crossing
from chaoskit.studies.upgrade.interpreter import Interpreter
from chaoskit.studies.upgrade.upgrade import WAYS, Upgrade
from tests.report import five_problems
from tests.report.browser.stored import STORIES, stories
from tests.report.test_sdc_report import the_map
from tests.studies.nights.nights import night, result
from tests.two_suites import SETTINGS, baseline, drifted
from tests.two_suites import result as experiment
from tests.two_suites import suite as session

NAMES = (*STORIES, "suite", "problems", "compare", "history", "upgrade", "sdc", "forecast")


def written(directory: Path) -> dict[str, Path]:
    """Every page, by its name, in a directory of its own."""
    store = Store(directory / ".chaoskit")
    runs = stories(store)
    made = site.write(suite(runs), directory / "suite", store=store)
    assert not made.damaged and not made.failed, made
    found = {name: directory / "suite" / "runs" / f"{run.id}.html" for name, run in runs.items()}
    problems = suite_page.render(five_problems.suite(), problems=five_problems.PROBLEMS)
    others = {
        "compare": compare(), "history": history(), "upgrade": upgrade(), "sdc": sdc_page.render(the_map()),
        "forecast": forecast_page.render(forecast(ForecastRequest(16_384, 54, stated={"interval": 600.0}), trials=40)),
    }  # fmt: skip
    for name, text in {**others, "problems": problems}.items():
        found[name] = directory / f"{name}.html"
        page.write(text, found[name])
    return {**found, "suite": made.index}


def suite(runs: dict[str, Run]) -> Suite:
    """One session with all of these runs."""
    results = tuple(of_runs(run.experiment, [run]) for run in runs.values())
    when = "2026-01-01T02:03:04.000+00:00"
    return Suite("20260101-020304-000abcd", when, ("chaoskit", "run"), results, seconds=61.0)


def two_sessions(count: int = 12) -> tuple[Suite, Suite]:
    """The second under another torch: one experiment fails there, launches take twice as long, the losses drift."""
    old = [experiment(f"test_{number}") for number in range(count)]
    new = [replace(one, launch_seconds=2 + number / 100) for number, one in enumerate(old)]
    new[1] = replace(new[1], verdict="fail", codes=("hang",), sentences=("Rank 1 hung.",))
    apart = drifted(baseline(), since=4, by=lambda step: 4**step, settings={**SETTINGS, "torch": "2.14.1"})
    return session(*old), session(*new, baselines={"ref": apart})


def compare() -> str:
    """Two suites."""
    return compare_page.render(compare_suites(*two_sessions()))


def history(count: int = 24) -> str:
    """Nights on which one experiment turns red, one green, one to and fro, and one becomes slow."""
    letters = {
        "test_red": "p" * 20 + "ffff", "test_green": "f" * 12 + "p" * 12, "test_flaky": "ppfp" * 6,
        "test_slow": "p" * count,
    }  # fmt: skip
    nights = []
    for at in range(count):
        shake = (at * 7919 % 100) / 1000
        seconds = (4.0 if at >= 12 else 2.0) + shake
        results = [
            result(told[at], name, recovery_seconds=seconds if name == "test_slow" else 2.0 + shake)
            for name, told in letters.items()
        ]
        nights.append(night(at, *results, settings={"torch": "2.14.1" if at >= 12 else "2.13.0"}))
    return history_page.render(Findings.of(SuiteHistory.of(nights)))


def upgrade() -> str:
    """From one torch to another: each checkpoint comes to something else."""
    told = [
        ("exact", "every component is that of step 20", ()), ("within", "the losses stay within the band", ()),
        ("wrong", "the optimizer was not restored", ("optimizer-not-restored",)),
        ("no-load", "RuntimeError: unknown version 3", ("crash-loop",)),
    ]  # fmt: skip
    crossings = tuple(
        Crossing(*way, word, sentence, codes=codes, position=20)
        for way, (word, sentence, codes) in zip(WAYS, told, strict=True)
    )
    old, new = (Interpreter(f"/{n}/python", {"python": "3.11.7", "torch": n}, {}) for n in ("2.13.0", "2.14.1"))
    job = Job.from_command(["torchrun", "train.py", "{out}"])
    made = Upgrade.of(old, new, job, band=LossTolerance(0.0, "measured"))
    suites = dict(zip(("old", "new"), two_sessions(), strict=True))
    return upgrade_page.render(replace(made, suites=suites, crossings=crossings))
