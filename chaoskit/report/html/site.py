"""A report site: the page of a suite as `index.html`, and a page for each of its stored runs in `runs/`."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from chaoskit.engine.result import Result
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Run, stored
from chaoskit.errors import StoreError, UsageError
from chaoskit.report.html import page, run_page, suite_page
from chaoskit.report.html.run_page import Neighbour
from chaoskit.studies.nights.suite import Suite
from chaoskit.studies.problems.problem import Problem


@dataclass(frozen=True)
class ReportSite:
    """The written pages. Some runs have no page: `damaged` lists records that cannot be read, `failed` runs whose page
    could not be rendered, with the traceback. Deleted runs are in neither."""

    index: Path
    pages: tuple[Path, ...] = ()
    damaged: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)

    def troubles(self, store: Store) -> list[str]:
        """Return the problems as lines; the tracebacks are written to a file in the store if possible."""
        lines = [*self.damaged, *self.failed]
        if self.failed:
            with suppress(StoreError, OSError):
                path = store.keep_crash("\n\n".join(self.failed.values()))
                lines[-1] += f"; please report it with {path}"
        return lines


def write(
    suite: Suite, directory: Path, *, store: Store, problems: Sequence[Problem] = (), option: str = "-o"
) -> ReportSite:
    """Write the pages of a suite and its `problems`; its runs are at their recorded paths or in `store`.

    If the page of a run cannot be made, the index says why. Raises UsageError, which names the command's option, if a
    file cannot be written.
    """
    why: dict[str, str] = {}
    failed: dict[str, str] = {}
    damaged: list[str] = []
    results = {run: one for one in suite_page.run_order(suite, problems) for run in suite_page.runs_of(one)}
    places = {run: address for one, address in suite_page.addresses(suite) for run in suite_page.runs_of(one)}
    found = {run: run_dir for run in results if (run_dir := find(run, store)) is not None}
    targets = {run: directory / "runs" / f"{run_dir.name}.html" for run, run_dir in found.items()}

    def neighbour(run: str | None) -> Neighbour | None:
        return None if run is None else Neighbour(results[run].name, quote(targets[run].name))

    def attempt(run: str) -> bool:
        """Write the page of a run, which links to those before and after it; False if that is not possible."""
        others = list(targets)
        at = others.index(run)
        previous, following = ([*others[at - 1 : at], None][0], [*others[at + 1 : at + 2], None][0])
        try:
            write_run(
                found[run], targets[run], option=option, home=f"../index.html#{places[run]}",
                previous=neighbour(previous), next_one=neighbour(following), result=results[run],
            )  # fmt: skip
        except StoreError as error:
            why[run] = "the record of this run cannot be read"
            damaged.append(str(error))
        except UsageError:
            raise
        except Exception as error:
            why[run] = "the page of this run could not be rendered"
            about = f"run {found[run].name} has no page ({type(error).__name__}: {error})"
            failed[about] = traceback.format_exc()
        return run not in why

    for run in found:
        if not attempt(run):
            # The one before it leads to the one after it.
            before = list(targets)[: list(targets).index(run)]
            del targets[run]
            for one in before[-1:]:
                attempt(one)
    links = {run: f"runs/{quote(target.name)}" for run, target in targets.items()}
    index = directory / "index.html"
    page.write(suite_page.render(suite, links=links, why=why, problems=problems), index, option=option)
    return ReportSite(index, tuple(targets.values()), tuple(damaged), failed)


def write_run(
    run_dir: Path,
    target: Path,
    *,
    option: str = "-o",
    home: str = "",
    previous: Neighbour | None = None,
    next_one: Neighbour | None = None,
    result: Result | None = None,
) -> None:
    """Write the page of one run, with links to the page of its suite (`home`) and to other runs; `result` is that of
    its experiment. Raises StoreError if the run cannot be read, UsageError if the file cannot be written."""
    run = load(run_dir)
    text = run_page.render(
        run,
        links=lambda path: quote(os.path.relpath(path, target.parent)),
        home=home,
        previous=previous,
        next_one=next_one,
        result=result,
    )
    page.write(text, target, option=option)


def load(run_dir: Path) -> Run:
    """Load a stored run with its last verdicts; it has none if chaoskit died before."""
    store = Store(run_dir.parent.parent)
    run = stored(run_dir, store)
    if store.is_judged(run_dir):
        run.verdicts = store.read_verdicts(run_dir).verdicts
    return run


def find(run: str, store: Store) -> Path | None:
    """Return the directory of a run of a suite: its recorded path, or the store, which may have been moved. None if the
    run was deleted."""
    candidates = (Path(run).absolute(), store.runs / Path(run).name)
    return next((path for path in candidates if path.is_dir()), None)
