"""`compare_suites`: compares two suites: changed verdicts, diverging references, settings, times.

`docs/how-to/compare.md` defines what counts as worse, and the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from chaoskit.engine.result import ACCEPTED, Result
from chaoskit.errors import ExitCode, UsageError
from chaoskit.probe import settings
from chaoskit.studies.nights.baseline import Baseline
from chaoskit.studies.nights.conditions import edited
from chaoskit.studies.nights.drift import Drift, drift
from chaoskit.studies.nights.pacing import Times, times
from chaoskit.studies.nights.suite import Suite, key_of

Direction = Literal["worse", "better", "unknown"]
Source = Literal["chaoskit", "ranks", "machine", "job"]
Pair = tuple[Result, Result]
#: The verdicts on a job that lost something.
LOST = ("fail", ACCEPTED)


@dataclass(frozen=True)
class VerdictChange:
    """An experiment whose verdict or codes changed."""

    name: str
    old: Result
    new: Result

    @property
    def direction(self) -> Direction:
        """`worse` for a new failure or a new code, accepted or not; `unknown` if the new verdict is inconclusive or
        skipped."""
        if self.new.verdict == "pass":
            return "better"
        if self.new.verdict not in LOST:
            return "unknown"
        return "better" if self.old.verdict in LOST and _codes(self.new) < _codes(self.old) else "worse"


@dataclass(frozen=True)
class Setting:
    """A version, a flag, a property of the machine or a command that differs; None if a suite does not record it."""

    source: Source
    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class SuiteComparison:
    """Two suites, `old` and `new`, made by `compare_suites`. `pairs` are the experiments of both, `gone` those only in
    the old suite, `added` those only in the new one; `drifts` has every pair of references; `unkept` are experiments
    whose references cannot be compared because one is not stored."""

    old: Suite
    new: Suite
    pairs: Mapping[str, Pair]
    changes: tuple[VerdictChange, ...]
    gone: tuple[str, ...]
    added: tuple[str, ...]
    drifts: tuple[Drift, ...]
    unkept: tuple[str, ...]
    settings: tuple[Setting, ...]
    times: tuple[Times, ...]

    def changed(self, direction: Direction) -> tuple[VerdictChange, ...]:
        """Return the changes in one direction."""
        return tuple(one for one in self.changes if one.direction == direction)

    @property
    def parted(self) -> tuple[Drift, ...]:
        """The pairs of references that diverge."""
        return tuple(one for one in self.drifts if one.apart)

    @property
    def rewritten(self) -> tuple[str, ...]:
        """The files of the job that were changed, where that alone explains why its uninterrupted runs diverge: some
        experiments became better and none worse, and nothing else that the references rest on differs. A repair may
        change what the job computes; without one, another computation is what a comparison looks for."""
        if not self.parted or not self.changed("better") or self.changed("worse"):
            return ()
        files: dict[str, None] = {}
        for one in self.parted:
            if settings.apart(one.old.settings, one.new.settings) or one.old.job != one.new.job:
                return ()
            for name in one.experiments:
                before, after = (suite.conditions.get(key) for suite, key in self._keys(name))
                found = edited(before, after) if before is not None and after is not None else ()
                if not found:
                    return ()
                files.update(dict.fromkeys(found))
        return tuple(files)

    def _keys(self, name: str) -> tuple[tuple[Suite, str], tuple[Suite, str]]:
        """Where each suite keeps what it knows of an experiment of both."""
        old, new = self.pairs[name]
        return (self.old, key_of(old)), (self.new, key_of(new))

    @property
    def void(self) -> tuple[Drift, ...]:
        """The pairs of references that cannot be compared."""
        return tuple(one for one in self.drifts if one.void)

    @property
    def slower(self) -> tuple[Times, ...]:
        """The times that became slower, beyond noise and the pace of the machine."""
        return tuple(one for one in self.times if one.judged == "slower")

    def both(self, verdict: str) -> int:
        """Count the experiments with this verdict in both suites."""
        return sum(old.verdict == new.verdict == verdict for old, new in self.pairs.values())

    @property
    def gaps(self) -> tuple[str, ...]:
        """Reasons why the comparison is incomplete; empty if it is complete."""
        unfinished = [
            (word, one) for word, one in (("old", self.old), ("new", self.new)) if one.status != "finished"
        ]
        reasons = [f"the {word} suite did not finish ({one.status})" for word, one in unfinished]
        if self.gone:
            reasons.append(f"the new suite lacks {counted(len(self.gone), 'experiment')} of the old one")
        if unknown := self._unconfirmed():
            reasons.append(f"{counted(len(unknown), 'experiment')} {_are(unknown)} no longer decided")
        elif not any(_decided(new) for _, new in self.pairs.values()):
            reasons.append("the new suite has no decided experiment")
        if not self.drifts and not (self.old.chaoskit and self.new.chaoskit):
            reasons.append("a suite was written by a version of chaoskit that stored no references")
        if self.unkept:
            reasons.append(
                f"the references of {counted(len(self.unkept), 'experiment')} are not stored in both suites"
            )
        if void := [one for one in self.void if not (self.changed("better") and one.mended)]:
            reasons.append(f"{counted(len(void), 'pair')} of references cannot be compared")
        return tuple(reasons)

    def _unconfirmed(self) -> tuple[VerdictChange, ...]:
        """Return the experiments that no longer decide something. Where others became better, one that failed and is
        now undecided takes nothing back."""
        better = self.changed("better")
        return tuple(one for one in self.changed("unknown") if not (better and one.old.verdict == "fail"))

    @property
    def better(self) -> bool:
        """Whether something became better, and nothing worse."""
        return bool(self.changed("better")) and self.exit_code() is ExitCode.PASS

    def exit_code(self, *, times: bool = False) -> ExitCode:
        """Return FAIL if something is worse, INCONCLUSIVE if the comparison is incomplete, else PASS; with `times`
        slower times count as worse."""
        if self.changed("worse") or (self.parted and not self.rewritten) or (times and self.slower):
            return ExitCode.FAIL
        return ExitCode.INCONCLUSIVE if self.gaps else ExitCode.PASS


def compare_suites(old: Suite, new: Suite) -> SuiteComparison:
    """Compare two suites; raises UsageError for an empty suite, and for two without a common experiment."""
    for word, one in (("old", old), ("new", new)):
        if not one.results:
            raise UsageError(f"the {word} suite ({one.id}) has no experiment to compare: name another suite")
    first, second = _named(old, new)
    pairs = {name: (first[name], second[name]) for name in first if name in second}
    if not pairs:
        raise UsageError(
            f"the suites have no common experiment (old: {_some(first)}; new: {_some(second)}): "
            "compare two suites of the same experiments"
        )
    references, unkept = _references(old, new, pairs)
    return SuiteComparison(
        old,
        new,
        pairs,
        tuple(VerdictChange(name, a, b) for name, (a, b) in pairs.items() if _state(a) != _state(b)),
        gone=tuple(name for name in first if name not in second),
        added=tuple(name for name in second if name not in first),
        drifts=tuple(drift(names, *both) for both, names in references),
        unkept=unkept,
        settings=tuple(dict.fromkeys(_settings(old, new, pairs, [both for both, _ in references]))),
        times=times(pairs.values()),
    )


def counted(count: int, noun: str) -> str:
    """'1 pair', '2 pairs'."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _are(things: tuple[object, ...]) -> str:
    return "is" if len(things) == 1 else "are"


def _decided(result: Result) -> bool:
    return result.verdict in ("pass", *LOST)


def _state(result: Result) -> tuple[str, frozenset[str]]:
    """What is compared: the job, and not what the team accepts of it."""
    return "fail" if result.verdict in LOST else result.verdict, _codes(result)


def _codes(result: Result) -> frozenset[str]:
    return frozenset((*result.codes, *result.accepted))


def _named(old: Suite, new: Suite) -> tuple[Mapping[str, Result], Mapping[str, Result]]:
    """Return the results by name: pytest's node ids, or plain names if a suite lacks node ids."""
    if all(result.nodeid for one in (old, new) for result in one.results):
        return old.experiments, new.experiments
    first, second = ({result.name: result for result in one.results} for one in (old, new))
    return first, second


def _some(names: Iterable[str]) -> str:
    all_names = list(names)
    return ", ".join(all_names[:2]) + (f" and {len(all_names) - 2} more" if len(all_names) > 2 else "")


def _references(
    old: Suite, new: Suite, pairs: Mapping[str, Pair]
) -> tuple[list[tuple[tuple[Baseline, Baseline], list[str]]], tuple[str, ...]]:
    """Return each pair of references with its experiments, and the experiments that lack a reference."""
    found: dict[tuple[str, str], tuple[tuple[Baseline, Baseline], list[str]]] = {}
    unkept = []
    for name, (a, b) in pairs.items():
        if not a.references and not b.references:
            continue  # this experiment needs no reference
        own, other = old.baseline(a), new.baseline(b)
        if own is not None and other is not None:
            found.setdefault((own.digest, other.digest), ((own, other), []))[1].append(name)
        elif _decided(a) and _decided(b):
            unkept.append(name)
    return list(found.values()), tuple(unkept)


def _settings(
    old: Suite, new: Suite, pairs: Mapping[str, Pair], references: Iterable[tuple[Baseline, Baseline]]
) -> Iterator[Setting]:
    """Yield the settings that differ."""
    yield from _differing("chaoskit", {"chaoskit": old.chaoskit}, {"chaoskit": new.chaoskit})
    for one, other in references:
        for name in settings.apart(one.settings, other.settings):
            yield Setting("ranks", name, one.settings.get(name), other.settings.get(name))
    yield from _differing("machine", old.machine, new.machine)
    for a, b in pairs.values():
        if a.job and b.job:
            yield from _differing("job", {"command": a.job}, {"command": b.job})


def _differing(source: Source, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Setting]:
    for name in dict.fromkeys([*old, *new]):
        if (pair := (old.get(name), new.get(name)))[0] != pair[1]:
            yield Setting(source, name, *pair)
