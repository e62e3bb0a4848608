"""`Turn`: an experiment whose verdict is another one than it was: it became red or green, or it is flaky.

- *red*: it passed before, and has not passed since: at least one of the nights since then failed.
- *undecided*: the same, without a failure.
- *green*: it did not pass before, and passes now.
- *flaky*: its verdict turned at least twice while nothing was changed that chaoskit knows of: the same uninterrupted
  run (the same sources, versions and machine), the same settings, the same chaoskit. A flaky experiment is red only
  once it has failed `STREAK` nights in a row, and longer than ever before.

Nights on which it was skipped, or not run, say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

from chaoskit.results import Result
from chaoskit.suites.chronicle import Change, Chronicle, Night, Track

Kind = Literal["red", "undecided", "green", "flaky"]
#: So many failures in a row are no longer taken for another mood of a flaky experiment.
STREAK = 3


@dataclass(frozen=True)
class Turn:
    """`since` is the night on which it turned (a flaky one: its last bad night), `bad` of `of` nights did not pass (a
    flaky one: of those that were alike). `result` is the newest that tells what is wrong; `changes` what was changed
    since the night before; `same` is whether nothing was, as far as that can be known."""

    kind: Kind
    track: Track
    since: int
    bad: int
    of: int
    result: Result
    changes: tuple[Change, ...] = ()
    same: bool = False


def turns(chronicle: Chronicle) -> tuple[Turn, ...]:
    """Of all experiments, the red ones first."""
    order: tuple[Kind, ...] = ("red", "undecided", "flaky", "green")
    found = [turn for track in chronicle.tracks for turn in _of(track, chronicle)]
    return tuple(sorted(found, key=lambda turn: order.index(turn.kind)))


def _of(track: Track, chronicle: Chronicle) -> Iterator[Turn]:
    decided = track.decided
    streaks = [list(group) for _, group in groupby(decided, key=lambda pair: _good(pair[1]))]
    if len(streaks) < 2:
        return
    flaky = _flaky(track, chronicle.nights)
    if flaky is not None:
        yield flaky
    now, (before, _), (since, latest) = streaks[-1], streaks[-2][-1], streaks[-1][0]
    good = _good(latest)
    if flaky is not None and (good or not _lasting([len(one) for one in streaks if not _good(one[0][1])])):
        return
    bad = [result for _, result in decided if not _good(result)]
    failed = [result for _, result in now if result.verdict == "fail"]
    kind: Kind = "green" if good else "red" if failed else "undecided"
    yield Turn(
        kind, track, since, len(bad), len(decided), (failed or bad)[-1],
        chronicle.changed(track.job, after=before, until=since),
        same=_conditions(track, chronicle.nights, before) == _conditions(track, chronicle.nights, since),
    )  # fmt: skip


def _good(result: Result) -> bool:
    return result.verdict == "pass"


def _lasting(streaks: Sequence[int]) -> bool:
    *earlier, now = streaks
    return now >= STREAK and now > max(earlier, default=0)


def _flaky(track: Track, nights: Sequence[Night]) -> Turn | None:
    alike: dict[object, list[tuple[int, Result]]] = {}
    for at, result in track.decided:
        alike.setdefault(_conditions(track, nights, at), []).append((at, result))
    turning = [group for group in alike.values() if _turned(group) >= 2]
    if not turning:
        return None
    told = [pair for group in turning for pair in group]
    bad = [(at, result) for at, result in told if not _good(result)]
    since, result = max(bad, key=lambda pair: pair[0])
    return Turn("flaky", track, since, len(bad), len(told), result, same=True)


def _turned(group: Sequence[tuple[int, Result]]) -> int:
    return sum(_good(a) != _good(b) for (_, a), (_, b) in pairwise(group))


def _conditions(track: Track, nights: Sequence[Night], at: int) -> object:
    """What is known of everything that a verdict may depend on."""
    result = track.results[at]
    references = result.references if result is not None else ()
    settings = nights[at].settings.get(track.job, {})
    return references, tuple(sorted(settings.items())), nights[at].machine
