"""`contrast`: two suites beside each other: verdicts that changed, references that part, settings, times.

`docs/compare.md` says what counts as worse, and what the answer is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from chaoskit.errors import ExitCode, UsageError
from chaoskit.results import Result
from chaoskit.suites.baseline import Baseline
from chaoskit.suites.drift import Drift, drift
from chaoskit.suites.pacing import Times, times
from chaoskit.suites.suite import Suite

Direction = Literal["worse", "better", "unknown"]
Source = Literal["chaoskit", "ranks", "machine", "job"]
Pair = tuple[Result, Result]


@dataclass(frozen=True)
class Change:
    """An experiment whose verdict or codes are not what they were."""

    name: str
    old: Result
    new: Result

    @property
    def direction(self) -> Direction:
        """A failure that is new, or has a new code, is worse; what cannot be decided any more is unknown."""
        if self.new.verdict == "pass":
            return "better"
        if self.new.verdict != "fail":
            return "unknown"
        return "better" if self.old.verdict == "fail" and set(self.new.codes) < set(self.old.codes) else "worse"


@dataclass(frozen=True)
class Setting:
    """A version, a flag, a trait of the machine (its `source`) or a job's words that differ; None where one does not
    say."""

    source: Source
    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class Contrast:
    """Two suites, `old` and `new`. `pairs` are the experiments of both; `gone` are those that the old one alone has,
    `added` the new one's; `drifts` every pair of references; `unkept` the experiments whose references cannot be
    compared since one is missing. Make it by `contrast`."""

    old: Suite
    new: Suite
    pairs: Mapping[str, Pair]
    changes: tuple[Change, ...]
    gone: tuple[str, ...]
    added: tuple[str, ...]
    drifts: tuple[Drift, ...]
    unkept: tuple[str, ...]
    settings: tuple[Setting, ...]
    times: tuple[Times, ...]

    def changed(self, direction: Direction) -> tuple[Change, ...]:
        """The changes for the worse, for the better, or to what nobody knows."""
        return tuple(one for one in self.changes if one.direction == direction)

    @property
    def parted(self) -> tuple[Drift, ...]:
        """The references that part."""
        return tuple(one for one in self.drifts if one.apart)

    @property
    def void(self) -> tuple[Drift, ...]:
        """The references that are no evidence."""
        return tuple(one for one in self.drifts if one.void)

    @property
    def slower(self) -> tuple[Times, ...]:
        """What takes longer, the machine's pace and noise aside."""
        return tuple(one for one in self.times if one.judged == "slower")

    def both(self, verdict: str) -> int:
        """How many experiments came to this verdict in both."""
        return sum(old.verdict == new.verdict == verdict for old, new in self.pairs.values())

    @property
    def gaps(self) -> tuple[str, ...]:
        """Why it is not the whole answer; empty where it is."""
        unfinished = [
            (word, one) for word, one in (("old", self.old), ("new", self.new)) if one.status != "finished"
        ]
        told = [f"the {word} suite did not finish ({one.status})" for word, one in unfinished]
        if self.gone:
            told.append(f"the new suite lacks {counted(len(self.gone), 'experiment')} of the old one")
        if unknown := self.changed("unknown"):
            told.append(f"{counted(len(unknown), 'experiment')} {_are(unknown)} not decided any more")
        elif not any(_decided(new) for _, new in self.pairs.values()):
            told.append("no experiment was decided in the new one")
        if not self.drifts and not (self.old.chaoskit and self.new.chaoskit):
            told.append("one was written by a chaoskit that kept no references")
        if self.unkept:
            told.append(f"the references of {counted(len(self.unkept), 'experiment')} are not kept in both")
        if self.void:
            told.append(f"{counted(len(self.void), 'pair')} of references {_are(self.void)} no evidence")
        return tuple(told)

    def exit_code(self, *, times: bool = False) -> ExitCode:
        """For the shell: something is worse, or could not be compared, or neither; with `times` slower is worse,
        too."""
        if self.changed("worse") or self.parted or (times and self.slower):
            return ExitCode.FAIL
        return ExitCode.INCONCLUSIVE if self.gaps else ExitCode.PASS


def contrast(old: Suite, new: Suite) -> Contrast:
    """Compare two suites; raises UsageError for one without experiments, and for two that have none in common."""
    for word, one in (("old", old), ("new", new)):
        if not one.results:
            raise UsageError(f"the {word} suite ({one.id}) has no experiment: there is nothing to compare")
    first, second = _named(old, new)
    pairs = {name: (first[name], second[name]) for name in first if name in second}
    if not pairs:
        raise UsageError(
            f"the suites have no experiment in common (the old one has {_some(first)}, the new one {_some(second)}): "
            "compare two runs of the same experiments"
        )
    references, unkept = _references(old, new, pairs)
    return Contrast(
        old,
        new,
        pairs,
        tuple(Change(name, a, b) for name, (a, b) in pairs.items() if _state(a) != _state(b)),
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
    return result.verdict in ("pass", "fail")


def _state(result: Result) -> tuple[str, frozenset[str]]:
    return result.verdict, frozenset(result.codes)


def _named(old: Suite, new: Suite) -> tuple[Mapping[str, Result], Mapping[str, Result]]:
    """The results by names that can be paired: pytest's own, unless a suite of other making does not have them."""
    if all(result.nodeid for one in (old, new) for result in one.results):
        return old.experiments, new.experiments
    first, second = ({result.name: result for result in one.results} for one in (old, new))
    return first, second


def _some(names: Iterable[str]) -> str:
    told = list(names)
    return ", ".join(told[:2]) + (f" and {len(told) - 2} more" if len(told) > 2 else "")


def _references(
    old: Suite, new: Suite, pairs: Mapping[str, Pair]
) -> tuple[list[tuple[tuple[Baseline, Baseline], list[str]]], tuple[str, ...]]:
    """Each pair of references with the experiments that were held to it, and those where one is missing."""
    found: dict[tuple[str, str], tuple[tuple[Baseline, Baseline], list[str]]] = {}
    unkept = []
    for name, (a, b) in pairs.items():
        if not a.references and not b.references:
            continue  # it needs none
        own, other = old.baseline(a), new.baseline(b)
        if own is not None and other is not None:
            found.setdefault((own.digest, other.digest), ((own, other), []))[1].append(name)
        elif _decided(a) and _decided(b):
            unkept.append(name)
    return list(found.values()), tuple(unkept)


def _settings(
    old: Suite, new: Suite, pairs: Mapping[str, Pair], references: Iterable[tuple[Baseline, Baseline]]
) -> Iterator[Setting]:
    """Whatever both suites say differently."""
    yield from _differing("chaoskit", {"chaoskit": old.chaoskit}, {"chaoskit": new.chaoskit})
    for one, other in references:
        yield from _differing("ranks", one.settings, other.settings)
    yield from _differing("machine", old.machine, new.machine)
    for a, b in pairs.values():
        if a.job and b.job:
            yield from _differing("job", {"command": a.job}, {"command": b.job})


def _differing(source: Source, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Setting]:
    for name in dict.fromkeys([*old, *new]):
        if (pair := (old.get(name), new.get(name)))[0] != pair[1]:
            yield Setting(source, name, *pair)
