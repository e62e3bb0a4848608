"""`Chronicle`: the suites of a store beside each other: each a night, with a track for each experiment of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from chaoskit.results import SKIPPED, Result
from chaoskit.suites.suite import Suite

#: What of a machine has a say in times; its name too, where it comes again.
MACHINE = ("processor", "cores")
#: What every rank tells of its settings, if it tells any.
TORCH = "torch"


@dataclass(frozen=True)
class Night:
    """One suite, whenever it ran. `settings` are, by job, the versions and flags that its ranks ran with; `machine` is
    what times are compared within; `status` is the suite's."""

    id: str
    created: str
    status: str
    machine: str
    settings: Mapping[str, Mapping[str, str]]

    @property
    def when(self) -> str:
        """'2026-11-22 02:10' (UTC); its id where that is not known."""
        return self.created[:16].replace("T", " ") or self.id


@dataclass(frozen=True)
class Track:
    """One experiment of a job, with what came of it each night; None where the suite does not have it."""

    job: str
    name: str
    results: tuple[Result | None, ...]

    @property
    def decided(self) -> tuple[tuple[int, Result], ...]:
        """The nights on which it was run, and what came of it: not those on which it was skipped."""
        known = [(at, one) for at, one in enumerate(self.results) if one is not None and one.verdict != SKIPPED]
        return tuple(known)

    @property
    def last(self) -> Result | None:
        """What came of it the last time."""
        return self.decided[-1][1] if self.decided else None


@dataclass(frozen=True)
class Change:
    """A version or flag that is another one from the night `at` on; empty texts where it was not told."""

    at: int
    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name} {self.old or 'not there'} -> {self.new or 'not there'}"


@dataclass(frozen=True)
class Chronicle:
    """All of it, the oldest night first. Make it by `Chronicle.of`."""

    nights: tuple[Night, ...]
    tracks: tuple[Track, ...]

    @classmethod
    def of(cls, suites: Iterable[Suite]) -> Chronicle:
        """Of suites in the order of time. They are read one by one, and their baselines let go."""
        kept: list[tuple[Suite, Mapping[str, Mapping[str, str]]]] = []
        for suite in suites:
            kept.append((replace(suite, baselines={}), _settings(suite)))
        bare = [suite for suite, _ in kept]
        machines = _machines(bare)
        nights = [
            Night(suite.id, suite.created, suite.status, machine, settings)
            for (suite, settings), machine in zip(kept, machines, strict=True)
        ]
        return cls(tuple(nights), tuple(_tracks(bare)))

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs, in the order in which they came; an experiment that never got to a run has none."""
        return tuple(dict.fromkeys(track.job for track in self.tracks))

    def of_job(self, job: str) -> tuple[Track, ...]:
        """The experiments of a job, in the order of its last suite that had them."""
        return tuple(track for track in self.tracks if track.job == job)

    def only(self, names: Iterable[str]) -> Chronicle:
        """Without experiments of other names; the nights stay."""
        wanted = frozenset(names)
        return replace(self, tracks=tuple(track for track in self.tracks if track.name in wanted))

    def changes(self, job: str) -> tuple[Change, ...]:
        """What was changed between nights of a job on the same machine."""
        return self._changes.get(job, ())

    def changed(self, job: str, *, after: int, until: int) -> tuple[Change, ...]:
        """What was changed after one night, until another."""
        return tuple(change for change in self.changes(job) if after < change.at <= until)

    @cached_property
    def _changes(self) -> Mapping[str, tuple[Change, ...]]:
        found: dict[str, list[Change]] = {}
        before: dict[tuple[str, str], Mapping[str, str]] = {}
        for at, night in enumerate(self.nights):
            for job, new in night.settings.items():
                old = before.get((job, night.machine), new)
                # What a night did not tell since no uninterrupted run was kept was not changed by that.
                told = {*old, *new} if TORCH in new else {*new}
                names = sorted(name for name in told if old.get(name) != new.get(name))
                found.setdefault(job, []).extend(
                    Change(at, name, old.get(name, ""), new.get(name, "")) for name in names
                )
                before[job, night.machine] = new if TORCH in new else {**old, **new}
        return {job: tuple(changes) for job, changes in found.items()}


def _settings(suite: Suite) -> dict[str, Mapping[str, str]]:
    """By job; of chaoskit and of the machine's Python too, of how processes were started, and of what the uninterrupted
    runs were told."""
    found: dict[str, dict[str, str]] = {}
    for result in suite.results:
        if not result.job:
            continue
        told = found.setdefault(
            result.job, {"chaoskit": suite.chaoskit, "python": suite.machine.get("python", "")}
        )
        baseline = suite.baseline(result)
        if baseline is not None:
            told.update(baseline.settings)
        if result.launched:
            told.setdefault("launch", result.launched[-1].partition(":")[0])
    return {job: {name: value for name, value in told.items() if value} for job, told in found.items()}


def _machines(suites: Sequence[Suite]) -> list[str]:
    """What a time may be compared within. A host that comes once only is the name of a container, which has another
    one every night, and tells nothing."""
    hosts = Counter(suite.machine.get("host", "") for suite in suites)
    told = []
    for suite in suites:
        host = suite.machine.get("host", "")
        traits = [f"{suite.machine[name]} {name}" for name in MACHINE if suite.machine.get(name)]
        told.append(", ".join([host, *traits] if host and hosts[host] > 1 else traits))
    return told


def _tracks(suites: Sequence[Suite]) -> Iterator[Track]:
    """Sorted by job as they came, within a job as in the last suite."""
    named = [{_title(result, suite): result for result in suite.results} for suite in suites]
    jobs = list(dict.fromkeys(result.job for night in named for result in night.values() if result.job))
    columns: dict[tuple[str, str], list[Result | None]] = {}
    for at, night in enumerate(named):
        for name, result in night.items():
            job = result.job or _job(name, at, named)
            columns.setdefault((job, name), [None] * len(suites))[at] = result
    order = {name: place for night in named for place, name in enumerate(night)}
    places = {job: place for place, job in enumerate(jobs)}
    for job, name in sorted(columns, key=lambda key: (places.get(key[0], len(places)), order[key[1]])):
        yield Track(job, name, tuple(columns[job, name]))


def _title(result: Result, suite: Suite) -> str:
    """Its name; where a suite has several of that name, where it is written too."""
    alike = [one for one in suite.results if one.name == result.name]
    return result.name if len(alike) == 1 else result.nodeid or result.name


def _job(name: str, at: int, named: Sequence[Mapping[str, Result]]) -> str:
    """Whose experiment it is, when it never got to a run: the job that it had on the nearest night, an earlier one
    first."""
    nights = [*range(at - 1, -1, -1), *range(at + 1, len(named))]
    return next((named[n][name].job for n in nights if name in named[n] and named[n][name].job), "")
