"""A site: the page of a suite as `index.html`, and one page for each of its runs that is still kept, in `runs/`."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from chaoskit.errors import StoreError, UsageError
from chaoskit.report import page, run_page, suite_page
from chaoskit.runner import Run, stored
from chaoskit.store import Store
from chaoskit.suites.suite import Suite


@dataclass(frozen=True)
class Site:
    """What was written. Some runs have no page: `damaged` says which record cannot be read and why, `failed` which
    could not be drawn, with the traceback. Runs that are gone are in neither."""

    index: Path
    pages: tuple[Path, ...] = ()
    damaged: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)

    def troubles(self, store: Store) -> list[str]:
        """Both in lines for a person; the tracebacks go to a file in the store, if it takes one."""
        lines = [*self.damaged, *self.failed]
        if self.failed:
            with suppress(StoreError, OSError):
                path = store.keep_crash("\n\n".join(self.failed.values()))
                lines[-1] += f"; please report it with {path}"
        return lines


def write(suite: Suite, directory: Path, *, store: Store, option: str = "-o") -> Site:
    """Write the pages of a suite, whose runs are where it says or in `store`.

    A run whose page cannot be made has none, and the index says why. Raises UsageError, naming the option, where
    nothing can be written.
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
            why[run] = "its record cannot be read"
            damaged.append(str(error))
        except UsageError:
            raise
        except Exception as error:
            why[run] = "its page could not be drawn"
            failed[f"run {run_dir.name} has no page ({type(error).__name__}: {error})"] = traceback.format_exc()
        else:
            links[run] = f"runs/{quote(target.name)}"
            pages.append(target)
    index = directory / "index.html"
    page.write(suite_page.render(suite, links=links, why=why), index, option=option)
    return Site(index, tuple(pages), tuple(damaged), failed)


def write_run(run_dir: Path, target: Path, *, option: str = "-o", home: str = "") -> None:
    """Write the page of one run, with a link to that of its suite (`home`). Raises StoreError for what cannot be read,
    UsageError for what cannot be written."""
    run = load(run_dir)
    text = run_page.render(run, links=lambda path: quote(os.path.relpath(path, target.parent)), home=home)
    page.write(text, target, option=option)


def load(run_dir: Path) -> Run:
    """A stored run and what was last judged of it: nothing, where its harness died before it came to that."""
    store = Store(run_dir.parent.parent)
    run = stored(run_dir, store)
    if (run_dir / "verdicts.json").exists():
        run.verdicts = store.read_verdicts(run_dir).verdicts
    return run


def find(run: str, store: Store) -> Path | None:
    """Where a run lies that a suite names: where it was made, or in the store, which may have been carried elsewhere;
    None where it is gone."""
    places = (Path(run).absolute(), store.runs / Path(run).name)
    return next((place for place in places if place.is_dir()), None)
