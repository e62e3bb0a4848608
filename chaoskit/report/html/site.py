"""A report site: the page of a suite as `index.html`, and a page for each of its stored runs in `runs/`."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Run, stored
from chaoskit.errors import StoreError, UsageError
from chaoskit.report.html import page, run_page, suite_page
from chaoskit.studies.nights.suite import Suite


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


def write(suite: Suite, directory: Path, *, store: Store, option: str = "-o") -> ReportSite:
    """Write the pages of a suite, whose runs are at their recorded paths or in `store`.

    If the page of a run cannot be made, the index says why. Raises UsageError, which names the command's option, if a
    file cannot be written.
    """
    links: dict[str, str] = {}
    why: dict[str, str] = {}
    failed: dict[str, str] = {}
    pages, damaged = [], []
    for run in dict.fromkeys(run for result in suite.results for run in suite_page.runs_of(result)):
        run_dir = find(run, store)
        if run_dir is None:
            continue
        target = directory / "runs" / f"{run_dir.name}.html"
        try:
            write_run(run_dir, target, option=option, home="../index.html")
        except StoreError as error:
            why[run] = "the record of this run cannot be read"
            damaged.append(str(error))
        except UsageError:
            raise
        except Exception as error:
            why[run] = "the page of this run could not be rendered"
            failed[f"run {run_dir.name} has no page ({type(error).__name__}: {error})"] = traceback.format_exc()
        else:
            links[run] = f"runs/{quote(target.name)}"
            pages.append(target)
    index = directory / "index.html"
    page.write(suite_page.render(suite, links=links, why=why), index, option=option)
    return ReportSite(index, tuple(pages), tuple(damaged), failed)


def write_run(run_dir: Path, target: Path, *, option: str = "-o", home: str = "") -> None:
    """Write the page of one run, with a link to the page of its suite (`home`). Raises StoreError if the run cannot be
    read, UsageError if the file cannot be written."""
    run = load(run_dir)
    text = run_page.render(run, links=lambda path: quote(os.path.relpath(path, target.parent)), home=home)
    page.write(text, target, option=option)


def load(run_dir: Path) -> Run:
    """Load a stored run with its last verdicts; it has none if chaoskit died before."""
    store = Store(run_dir.parent.parent)
    run = stored(run_dir, store)
    if (run_dir / "verdicts.json").exists():
        run.verdicts = store.read_verdicts(run_dir).verdicts
    return run


def find(run: str, store: Store) -> Path | None:
    """Return the directory of a run of a suite: its recorded path, or the store, which may have been moved. None if the
    run was deleted."""
    candidates = (Path(run).absolute(), store.runs / Path(run).name)
    return next((path for path in candidates if path.is_dir()), None)
