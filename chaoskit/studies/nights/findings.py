"""`Findings`: the changes over the nights of a store: verdicts, times, and the usual figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from chaoskit.engine.result import Result
from chaoskit.errors import ExitCode
from chaoskit.studies.nights.suite_history import SuiteHistory, Track
from chaoskit.studies.nights.trends import Trends, trends
from chaoskit.studies.nights.verdict_changes import Kind, VerdictTurn, turns

#: The figures of an experiment.
FIGURES: Mapping[str, Callable[[Result], float | None]] = {
    "recovery": lambda result: result.recovery_seconds,
    "lost": lambda result: result.steps_lost,
    "launch": lambda result: result.launch_seconds,
}


@dataclass(frozen=True)
class Figure:
    """The last value, and the usual one: the median of the earlier nights on the same machine on which the experiment
    passed. None if unknown."""

    last: float | None = None
    usual: float | None = None


@dataclass(frozen=True)
class Findings:
    """The findings of a history, made by `Findings.of`."""

    history: SuiteHistory
    turns: tuple[VerdictTurn, ...]
    trends: Trends

    @classmethod
    def of(cls, history: SuiteHistory) -> Findings:
        """Analyze a history."""
        return cls(history, turns(history), trends(history))

    def turned(self, kind: Kind) -> tuple[VerdictTurn, ...]:
        """Return the changes of one kind."""
        return tuple(turn for turn in self.turns if turn.kind == kind)

    def exit_code(self, *, times: bool = False) -> ExitCode:
        """Return 1 if an experiment became red, with `times` also if a time became slower; else 3 if an experiment that
        passed can no longer be decided; else 0."""
        if self.turned("red") or (times and self.trends.slower):
            return ExitCode.FAIL
        return ExitCode.INCONCLUSIVE if self.turned("undecided") else ExitCode.PASS

    def figure(self, track: Track, name: str) -> Figure:
        """Return one of `FIGURES` of an experiment."""
        read, decided = FIGURES[name], track.decided
        if not decided:
            return Figure()
        at, last = decided[-1]
        machine = self.history.nights[at].machine
        earlier = [
            value
            for night, result in decided[:-1]
            if result.verdict == "pass" and self.history.nights[night].machine == machine
            if (value := read(result)) is not None
        ]
        return Figure(read(last), median(earlier) if earlier else None)

    @property
    def sentence(self) -> str:
        """A summary: '1 experiment became red, 2 became green; 1 duration became longer (30 nights)'."""
        words: Mapping[Kind, str] = {
            "red": "became red", "undecided": "can no longer be decided", "flaky": "flaky", "green": "became green",
        }  # fmt: skip
        turned = _listed([(len(self.turned(kind)), word) for kind, word in words.items()], "experiment")
        levels = [(len(self.trends.slower), "became longer"), (len(self.trends.faster), "became shorter")]
        changes = "; ".join(filter(None, (turned, _listed(levels, "duration"))))
        nights = len(self.history.nights)
        return f"{changes or 'Nothing changed'} ({nights} night{'' if nights == 1 else 's'})"


def _listed(counted: Sequence[tuple[int, str]], noun: str) -> str:
    """'1 experiment became red, 2 flaky': the noun once."""
    found = [(count, word) for count, word in counted if count]
    nouns = [f" {noun}{'' if found[0][0] == 1 else 's'}", *[""] * len(found[1:])] if found else []
    return ", ".join(f"{count}{name} {word}" for (count, word), name in zip(found, nouns, strict=True))
