"""Writes the requested output files after the last verdict: JSON, HTML pages, a Markdown summary, a badge.

A file that cannot be written gives one line on standard error, and changes no verdict and no exit code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoskit.engine.run_store import Store
from chaoskit.errors import UsageError
from chaoskit.report.machine import json_report, summary
from chaoskit.report.machine.json_report import check_target, takes_files
from chaoskit.report.svg import badge
from chaoskit.studies.nights.suite import Suite


@dataclass(frozen=True)
class Targets:
    """The requested output files, or None. The paths are absolute, because a test may change the directory. `json` may
    be `-` for standard output."""

    json: str | None = None
    report: Path | None = None
    summary: Path | None = None
    badge: Path | None = None

    @classmethod
    def of(
        cls,
        *,
        json: str | None = None,
        report: str | None = None,
        summary: str | None = None,
        badge: str | None = None,
        flag: str = "--",
    ) -> Targets:
        """Check the paths before anything runs; raises UsageError for one that cannot be written. `flag` is the prefix
        of the options."""
        if json:
            check_target(json, option=f"{flag}json")
        return cls(
            json=os.path.abspath(json) if json and json != "-" else json or None,
            report=directory(report, option=f"{flag}report") if report else None,
            summary=file(summary, option=f"{flag}summary") if summary else None,
            badge=file(badge, option=f"{flag}badge") if badge else None,
        )


def directory(text: str, *, option: str) -> Path:
    """Return the named directory, which need not exist; raises UsageError if it cannot be created or written."""
    path = Path(text).absolute()
    existing = next(each for each in (path, *path.parents) if os.path.exists(each))
    if not existing.is_dir():
        raise UsageError(f"{option}: cannot create {text!r}, because {existing} is a file: name another directory")
    if not takes_files(existing):
        raise UsageError(
            f"{option}: cannot write {text!r}, because {existing} is not writable: name another directory"
        )
    return path


def file(text: str, *, option: str) -> Path:
    """Return the named file; raises UsageError if it cannot be written."""
    if text == "-":
        raise UsageError(f"{option}: '-' (standard output) is not possible here: name a file")
    check_target(text, option=option)
    return Path(text).absolute()


def page(text: str, *, option: str) -> Path:
    """Return the named file of a page, whose directory need not exist; raises UsageError if it cannot be written."""
    path = Path(text).absolute()
    if text == "-" or path.is_dir():
        raise UsageError(f"{option}: {text!r} is no file: name one, such as page.html")
    directory(str(path.parent), option=option)
    return path


def shown(path: Path) -> str:
    """Format a path: relative if it lies below the current directory."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def publish(suite: Suite, targets: Targets, *, store: Store, complain: Callable[[str], None]) -> None:
    """Write the requested files; `complain` gets one line for each problem."""
    for name, write in (("json", _json), ("report", _report), ("summary", _summary), ("badge", _badge)):
        target = getattr(targets, name)
        try:
            for trouble in write(suite, target, store) if target is not None else ():
                complain(trouble)
        except Exception as error:
            reason = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
            complain(f"the {name} could not be written ({reason}); the verdicts stay valid")


def _json(suite: Suite, target: str, store: Store) -> Sequence[str]:
    json_report.write(suite.results, target, suite=suite)
    return ()


def _report(suite: Suite, target: Path, store: Store) -> Sequence[str]:
    from chaoskit.report.html import site

    written = site.write(suite, target, store=store, problems=suite.problems, option="the report")
    return written.troubles(store)


def _summary(suite: Suite, target: Path, store: Store) -> Sequence[str]:
    summary.append(suite, target)
    return ()


def _badge(suite: Suite, target: Path, store: Store) -> Sequence[str]:
    target.write_text(badge.svg(suite))
    return ()
