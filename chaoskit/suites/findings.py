"""`Findings`: what the nights of a store come to: which verdicts turned, which times, and what is usual."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from chaoskit.errors import ExitCode
from chaoskit.results import Result
from chaoskit.suites.chronicle import Chronicle, Track
from chaoskit.suites.trends import Trends, trends
from chaoskit.suites.turns import Kind, Turn, turns

#: What is told of an experiment, beside its verdict.
FIGURES: Mapping[str, Callable[[Result], float | None]] = {
    "recovery": lambda result: result.recovery_seconds,
    "lost": lambda result: result.steps_lost,
    "launch": lambda result: result.launch_seconds,
}


@dataclass(frozen=True)
class Figure:
    """What it was the last time, and what is usual: the median of the earlier nights on that machine on which the
    experiment passed. None where it is not known."""

    last: float | None = None
    usual: float | None = None


@dataclass(frozen=True)
class Findings:
    """Of a chronicle. Make it by `Findings.of`."""

    chronicle: Chronicle
    turns: tuple[Turn, ...]
    trends: Trends

    @classmethod
    def of(cls, chronicle: Chronicle) -> Findings:
        """Everything that is judged here."""
        return cls(chronicle, turns(chronicle), trends(chronicle))

    def turned(self, kind: Kind) -> tuple[Turn, ...]:
        """The experiments that became so."""
        return tuple(turn for turn in self.turns if turn.kind == kind)

    def exit_code(self, *, times: bool = False) -> ExitCode:
        """1 if something became red, with `times` also if something became slow; else 3 if something that passed cannot
        be decided any more; else 0."""
        if self.turned("red") or (times and self.trends.slower):
            return ExitCode.FAIL
        return ExitCode.INCONCLUSIVE if self.turned("undecided") else ExitCode.PASS

    def figure(self, track: Track, name: str) -> Figure:
        """One of `FIGURES`."""
        read, decided = FIGURES[name], track.decided
        if not decided:
            return Figure()
        at, last = decided[-1]
        machine = self.chronicle.nights[at].machine
        earlier = [
            value
            for night, result in decided[:-1]
            if result.verdict == "pass" and self.chronicle.nights[night].machine == machine
            if (value := read(result)) is not None
        ]
        return Figure(read(last), median(earlier) if earlier else None)

    @property
    def sentence(self) -> str:
        """All of it in one: '1 experiment became red, 2 became green; 1 time became longer (30 nights)'."""
        words: Mapping[Kind, str] = {
            "red": "became red", "undecided": "cannot be decided any more", "flaky": "flaky", "green": "became green",
        }  # fmt: skip
        turned = _listed([(len(self.turned(kind)), word) for kind, word in words.items()], "experiment")
        levels = [(len(self.trends.slower), "became longer"), (len(self.trends.faster), "became shorter")]
        told = "; ".join(filter(None, (turned, _listed(levels, "duration"))))
        nights = len(self.chronicle.nights)
        return f"{told or 'Nothing changed'} ({nights} night{'' if nights == 1 else 's'})"


def _listed(counted: Sequence[tuple[int, str]], noun: str) -> str:
    """'1 experiment became red, 2 flaky': the noun once."""
    told = [(count, word) for count, word in counted if count]
    nouns = [f" {noun}{'' if told[0][0] == 1 else 's'}", *[""] * len(told[1:])] if told else []
    return ", ".join(f"{count}{name} {word}" for (count, word), name in zip(told, nouns, strict=True))
