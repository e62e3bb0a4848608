"""`SuiteHistory`: the suites of a store over time: a night for each suite, a track for each experiment of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from chaoskit.engine.result import SKIPPED, Result
from chaoskit.probe.settings import apart
from chaoskit.studies.nights.conditions import Conditions, differing
from chaoskit.studies.nights.suite import Suite, key_of

#: The properties of a machine that affect times, besides a host name that occurs more than once.
MACHINE = ("processor", "cores")
#: The setting that every rank with recorded settings has.
TORCH = "torch"


@dataclass(frozen=True)
class Night:
    """One suite. `settings` maps each job to the versions and flags of its ranks, `files` to what its ranks read; times
    are compared only among nights with the same `machine`; `status` is that of the suite."""

    id: str
    created: str
    status: str
    machine: str
    settings: Mapping[str, Mapping[str, str]]
    files: Mapping[str, Conditions] = field(default_factory=dict)

    @property
    def when(self) -> str:
        """'2026-11-22 02:10' (UTC); the id if the time is unknown."""
        return self.created[:16].replace("T", " ") or self.id


@dataclass(frozen=True)
class Track:
    """One experiment of a job, with its result each night; None if the suite does not have it. `conditions` are those
    of each result; None if they are unknown."""

    job: str
    name: str
    results: tuple[Result | None, ...]
    conditions: tuple[Conditions | None, ...]

    @property
    def decided(self) -> tuple[tuple[int, Result], ...]:
        """The nights on which it ran, with the results; nights on which it was skipped are omitted."""
        known = [(at, one) for at, one in enumerate(self.results) if one is not None and one.verdict != SKIPPED]
        return tuple(known)

    @property
    def last(self) -> Result | None:
        """The last result."""
        return self.decided[-1][1] if self.decided else None


@dataclass(frozen=True)
class SettingChange:
    """A version, flag, option or file that changed in the night `at`; an empty string if it was not recorded."""

    at: int
    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name} {self.old or 'absent'} -> {self.new or 'absent'}"


@dataclass(frozen=True)
class SuiteHistory:
    """The history, oldest night first, made by `SuiteHistory.of`."""

    nights: tuple[Night, ...]
    tracks: tuple[Track, ...]

    @classmethod
    def of(cls, suites: Iterable[Suite]) -> SuiteHistory:
        """Make a history from suites in chronological order. Their baselines are not kept in memory."""
        kept: list[tuple[Suite, Mapping[str, Mapping[str, str]]]] = []
        for suite in suites:
            kept.append((replace(suite, baselines={}), _settings(suite)))
        bare = [suite for suite, _ in kept]
        machines = _machines(bare)
        nights = [
            Night(suite.id, suite.created, suite.status, machine, settings, _files(suite))
            for (suite, settings), machine in zip(kept, machines, strict=True)
        ]
        return cls(tuple(nights), tuple(_tracks(bare)))

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs in order of appearance; empty for experiments that never started a run."""
        return tuple(dict.fromkeys(track.job for track in self.tracks))

    def of_job(self, job: str) -> tuple[Track, ...]:
        """Return the experiments of a job, in the order of the last suite that has them."""
        return tuple(track for track in self.tracks if track.job == job)

    def only(self, names: Iterable[str]) -> SuiteHistory:
        """Select experiments by name; all nights stay."""
        wanted = frozenset(names)
        return replace(self, tracks=tuple(track for track in self.tracks if track.name in wanted))

    def changes(self, job: str) -> tuple[SettingChange, ...]:
        """Return the settings of a job that changed between nights on the same machine."""
        return self._changes.get(job, ())

    def changed(self, job: str, *, after: int, until: int) -> tuple[SettingChange, ...]:
        """Return the settings that changed after one night, up to another."""
        return tuple(change for change in self.changes(job) if after < change.at <= until)

    def apart(self, track: Track, one: int, other: int) -> tuple[SettingChange, ...]:
        """Return what differs between two nights of an experiment, of all that its verdict may rest on. Empty if they
        are alike."""
        old, new = self.nights[one], self.nights[other]
        found = [SettingChange(other, "machine", old.machine, new.machine)] if old.machine != new.machine else []
        before, after = (night.settings.get(track.job, {}) for night in (old, new))
        found += [
            SettingChange(other, name, before.get(name, ""), after.get(name, ""))
            for name in sorted(apart(before, after))
        ]
        found += _decided(track.results[one], track.results[other], at=other)
        own, its = track.conditions[one], track.conditions[other]
        if own is None or its is None:
            return (*found, SettingChange(other, "sources", "known" if own else "", "known" if its else ""))
        found += [SettingChange(other, *each) for each in differing(own, its)]
        references = [",".join(r.references) if (r := track.results[at]) else "" for at in (one, other)]
        if references[0] != references[1] and not found:
            found.append(SettingChange(other, "reference", *references))
        return tuple(found)

    @cached_property
    def _changes(self) -> Mapping[str, tuple[SettingChange, ...]]:
        found: dict[str, list[SettingChange]] = {}
        before: dict[tuple[str, str], Mapping[str, str]] = {}
        for at, night in enumerate(self.nights):
            for job, new in night.settings.items():
                old = before.get((job, night.machine), new)
                # A night without a stored uninterrupted run lacks settings: that is not a change.
                names = sorted(name for name in apart(old, new) if TORCH in new or name in new)
                found.setdefault(job, []).extend(
                    SettingChange(at, name, old.get(name, ""), new.get(name, "")) for name in names
                )
                before[job, night.machine] = new if TORCH in new else {**old, **new}
        files: dict[tuple[str, str], Conditions] = {}
        for at, night in enumerate(self.nights):
            for job, read in night.files.items():
                last = files.get((job, night.machine), read)
                found.setdefault(job, []).extend(SettingChange(at, *each) for each in differing(last, read))
                files[job, night.machine] = read
        for changes in found.values():
            changes.sort(key=lambda change: change.at)
        return {job: tuple(changes) for job, changes in found.items()}


def _decided(old: Result | None, new: Result | None, *, at: int) -> Iterator[SettingChange]:
    """Yield the change of what the team accepts, if an experiment lost the same on two nights and all that differs is
    which of it was accepted: another list, or `--strict`."""
    if old is None or new is None or {*old.codes, *old.accepted} != {*new.codes, *new.accepted}:
        return
    accepted = [", ".join(sorted(result.accepted)) for result in (old, new)]
    if accepted[0] != accepted[1]:
        yield SettingChange(at, "accepted", *accepted)


def _settings(suite: Suite) -> dict[str, Mapping[str, str]]:
    """Return the settings by job: versions of chaoskit and Python, launch mode, and those of the uninterrupted runs."""
    found: dict[str, dict[str, str]] = {}
    for result in suite.results:
        if not result.job:
            continue
        settings = found.setdefault(
            result.job, {"chaoskit": suite.chaoskit, "python": suite.machine.get("python", "")}
        )
        baseline = suite.baseline(result)
        if baseline is not None:
            settings.update(baseline.settings)
        if result.launched:
            settings.setdefault("launch", result.launched[-1].partition(":")[0])
    return {job: {name: value for name, value in settings.items() if value} for job, settings in found.items()}


def _files(suite: Suite) -> dict[str, Conditions]:
    """Return by job what its ranks read in any experiment."""
    found: dict[str, list[Conditions]] = {}
    for result in suite.results:
        if result.job and (one := suite.conditions.get(key_of(result))) is not None:
            found.setdefault(result.job, []).append(one)
    return {job: Conditions.merged(several) for job, several in found.items()}


def _machines(suites: Sequence[Suite]) -> list[str]:
    """Identify the machine of each suite, for the comparison of times. A host name that occurs only once is probably
    that of a container, and is ignored."""
    hosts = Counter(suite.machine.get("host", "") for suite in suites)
    machines = []
    for suite in suites:
        host = suite.machine.get("host", "")
        traits = [f"{suite.machine[name]} {name}" for name in MACHINE if suite.machine.get(name)]
        machines.append(", ".join([host, *traits] if host and hosts[host] > 1 else traits))
    return machines


def _tracks(suites: Sequence[Suite]) -> Iterator[Track]:
    """Yield the tracks, jobs in order of appearance, experiments of a job as in the last suite."""
    named = [{_title(result, suite): result for result in suite.results} for suite in suites]
    jobs = list(dict.fromkeys(result.job for night in named for result in night.values() if result.job))
    columns: dict[tuple[str, str], list[Result | None]] = {}
    rests: dict[tuple[str, str], list[Conditions | None]] = {}
    for at, night in enumerate(named):
        for name, result in night.items():
            job = result.job or _job(name, at, named)
            columns.setdefault((job, name), [None] * len(suites))[at] = result
            rests.setdefault((job, name), [None] * len(suites))[at] = suites[at].conditions.get(key_of(result))
    order = {name: index for night in named for index, name in enumerate(night)}
    job_order = {job: index for index, job in enumerate(jobs)}
    for job, name in sorted(columns, key=lambda key: (job_order.get(key[0], len(job_order)), order[key[1]])):
        yield Track(job, name, tuple(columns[job, name]), tuple(rests[job, name]))


def _title(result: Result, suite: Suite) -> str:
    """Return the name of an experiment; its node id if the suite has several with that name."""
    alike = [one for one in suite.results if one.name == result.name]
    return result.name if len(alike) == 1 else result.nodeid or result.name


def _job(name: str, at: int, named: Sequence[Mapping[str, Result]]) -> str:
    """Return the job of an experiment that never started a run: its job on the nearest earlier night, else later
    night."""
    nights = [*range(at - 1, -1, -1), *range(at + 1, len(named))]
    return next((named[n][name].job for n in nights if name in named[n] and named[n][name].job), "")
