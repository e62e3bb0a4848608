"""`VerdictTurn`: a change of an experiment's verdict over the nights: it became red or green, or it is flaky.

- *red*: it passed before and has not passed since; at least one of the nights since then failed. (All that it lost is
  accepted: that is no red.)
- *undecided*: the same, without a failure.
- *green*: it did not pass before, and passes now.
- *flaky*: its verdict changed at least twice on nights that are alike: the same sources that the ranks imported, the
  same options, versions, machine and chaoskit. Where the sources of a night are unknown, it is like no other. A flaky
  experiment becomes red only after `STREAK` failed nights in a row, if that is its longest streak.

Nights on which it was skipped or did not run do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

from chaoskit.engine.result import ACCEPTED, Result
from chaoskit.studies.nights.suite_history import SettingChange, SuiteHistory, Track

Kind = Literal["red", "undecided", "green", "flaky"]
#: Number of failures in a row from which a flaky experiment counts as red.
STREAK = 3


@dataclass(frozen=True)
class VerdictTurn:
    """`since` is the night of the change (flaky: the last bad night); `bad` of `of` nights did not pass (flaky: of the
    alike nights). `result` is the newest bad result; `changes` is what changed since the previous night; `same`: the
    two nights are alike."""

    kind: Kind
    track: Track
    since: int
    bad: int
    of: int
    result: Result
    changes: tuple[SettingChange, ...] = ()
    same: bool = False


def turns(history: SuiteHistory) -> tuple[VerdictTurn, ...]:
    """Return the changes of all experiments, red ones first."""
    order: tuple[Kind, ...] = ("red", "undecided", "flaky", "green")
    found = [turn for track in history.tracks for turn in _of(track, history)]
    return tuple(sorted(found, key=lambda turn: order.index(turn.kind)))


def _of(track: Track, history: SuiteHistory) -> Iterator[VerdictTurn]:
    decided = track.decided
    streaks = [list(group) for _, group in groupby(decided, key=lambda pair: is_good(pair[1]))]
    if len(streaks) < 2:
        return
    flaky = _flaky(track, history)
    if flaky is not None:
        yield flaky
    now, (before, _), (since, latest) = streaks[-1], streaks[-2][-1], streaks[-1][0]
    good = is_good(latest)
    if flaky is not None and (good or not _lasting([len(one) for one in streaks if not is_good(one[0][1])])):
        return
    bad = [result for _, result in decided if not is_good(result)]
    failed = [result for _, result in now if result.verdict == "fail"]
    kind: Kind = "green" if good else "red" if failed else "undecided"
    apart = history.apart(track, before, since)
    # A version may have changed more than once in between.
    named = dict.fromkeys(change.name for change in apart if change.old or change.new)
    between = [c for c in history.changed(track.job, after=before, until=since) if c.name not in named]
    changes = (*between, *(change for change in apart if change.name in named))
    yield VerdictTurn(kind, track, since, len(bad), len(decided), (failed or bad)[-1], changes, same=not apart)


def is_good(result: Result) -> bool:
    """Whether it passed, or lost nothing but what is accepted."""
    return result.verdict in ("pass", ACCEPTED)


def _lasting(streaks: Sequence[int]) -> bool:
    *earlier, now = streaks
    return now >= STREAK and now > max(earlier, default=0)


def _flaky(track: Track, history: SuiteHistory) -> VerdictTurn | None:
    alike: list[list[tuple[int, Result]]] = []
    for at, result in track.decided:
        group = next((group for group in alike if not history.apart(track, group[-1][0], at)), None)
        if group is None:
            alike.append(group := [])
        group.append((at, result))
    turning = [group for group in alike if _turned(group) >= 2]
    if not turning:
        return None
    known = [pair for group in turning for pair in group]
    bad = [(at, result) for at, result in known if not is_good(result)]
    since, result = max(bad, key=lambda pair: pair[0])
    return VerdictTurn("flaky", track, since, len(bad), len(known), result, same=True)


def _turned(group: Sequence[tuple[int, Result]]) -> int:
    return sum(is_good(a) != is_good(b) for (_, a), (_, b) in pairwise(group))
