"""What is written for others once the verdicts are there: JSON, pages for a browser, a summary for CI, a badge.

Verdicts and exit codes stand by then. What cannot be written is one line on standard error, and changes neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoskit.errors import UsageError
from chaoskit.report import badge, json_report, summary
from chaoskit.report.json_report import check_target
from chaoskit.store import Store
from chaoskit.suites.suite import Suite


@dataclass(frozen=True)
class Targets:
    """Where to write; None for what nobody asked for. The paths are absolute: a test may change the directory. `json`
    may be `-`, which is standard output."""

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
        """Raises UsageError, before anything runs, for a place that cannot be written; `flag` begins its options."""
        if json:
            check_target(json, option=f"{flag}json")
        return cls(
            json=os.path.abspath(json) if json and json != "-" else json or None,
            report=directory(report, option=f"{flag}report") if report else None,
            summary=file(summary, option=f"{flag}summary") if summary else None,
            badge=file(badge, option=f"{flag}badge") if badge else None,
        )


def directory(text: str, *, option: str) -> Path:
    """The directory that was named, which may still have to be made; raises UsageError where it cannot be."""
    path = Path(text).absolute()
    there = next(place for place in (path, *path.parents) if os.path.exists(place))
    if not there.is_dir():
        raise UsageError(f"{option}: {text!r} needs a directory where {there} is a file: name another place")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{option}: {there} cannot be written: name another place than {text!r}")
    return path


def file(text: str, *, option: str) -> Path:
    """The file that was named; raises UsageError where it could not be written."""
    if text == "-":
        raise UsageError(f"{option}: name a file, standard output is taken")
    check_target(text, option=option)
    return Path(text).absolute()


def shown(path: Path) -> str:
    """A path as it is told: from the current directory where it lies below."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def publish(suite: Suite, targets: Targets, *, store: Store, complain: Callable[[str], None]) -> None:
    """Write what was asked for; `complain` is told, in one line each, of what could not be."""
    for name, write in (("json", _json), ("report", _report), ("summary", _summary), ("badge", _badge)):
        target = getattr(targets, name)
        try:
            for trouble in write(suite, target, store) if target is not None else ():
                complain(trouble)
        except Exception as error:
            said = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
            complain(f"the {name} is not written ({said})")


def _json(suite: Suite, target: str, store: Store) -> Sequence[str]:
    json_report.write(suite.results, target, suite=suite)
    return ()


def _report(suite: Suite, target: Path, store: Store) -> Sequence[str]:
    from chaoskit.report import site

    written = site.write(suite, target, store=store, option="the report")
    return written.troubles(store)


def _summary(suite: Suite, target: Path, store: Store) -> Sequence[str]:
    summary.append(suite, target)
    return ()


def _badge(suite: Suite, target: Path, store: Store) -> Sequence[str]:
    target.write_text(badge.svg(suite))
    return ()
