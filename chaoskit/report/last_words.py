"""`last_words`: what the ranks that died wrote last: their traceback, and the lines before it, from the stored logs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.history import Incarnation
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.engine.log_reason import reason
from chaoskit.protocol.stored_files import open_stored
from chaoskit.report.svg.lanes import End, ending

#: Limits: deaths of a run and of a launch, lines before a traceback and of a traceback, letters of a line, bytes of a
#: log, counted from its end.
DEATHS, OF_A_LAUNCH, LINES, TRACEBACK, LETTERS, BYTES = 6, 2, 12, 60, 400, 64 * 1024
#: Whose death is told first: beside a rank that a fault killed, others die of its absence.
_FIRST: Sequence[End] = ("struck", "raised", "gone")
_START = "Traceback (most recent call last):"
#: Between two tracebacks of one exception.
_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
#: What torchrun and torch put before a line of a rank.
_PREFIX = re.compile(r"^(?:\[(?:default|rank)\d+\]: ?)+")
_LAUNCHER = re.compile(r"^(?:[WEIF]\d{4} |=+$|-+$)")
#: Colours of a terminal, and control characters but for tab and line end.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class LastWords:
    """Of a rank that died in these `launches` (`rank` is None where no rank began): how, what it wrote last, and its
    `traceback`, "" if it wrote none. Deaths with the same words stand together."""

    launches: tuple[int, ...]
    rank: int | None
    how: str
    lines: str
    traceback: str = ""

    @property
    def reason(self) -> str:
        """The line that says why; empty if none looks like it."""
        return reason(self.traceback or self.lines)

    @property
    def who(self) -> str:
        """'rank 1 in launch 0', 'rank 0 in launches 1, 2, 3'."""
        which = f"launch{'' if len(self.launches) == 1 else 'es'} {', '.join(map(str, self.launches))}"
        return f"{'no rank' if self.rank is None else f'rank {self.rank}'} in {which}"


def last_words(case: Case, run_dir: Path) -> list[LastWords]:
    """What each rank that died wrote last, the launches in their order; empty if no log has a word of it."""
    found: dict[tuple[object, ...], LastWords] = {}
    for one in _deaths(case, run_dir / "logs"):
        if not one.lines and not one.traceback:
            continue
        key = (one.rank, one.how, one.traceback or one.lines)
        known = found.get(key)
        found[key] = replace(known, launches=(*known.launches, *one.launches)) if known else one
    return list(found.values())[:DEATHS]


def _deaths(case: Case, logs: Path) -> Iterator[LastWords]:
    for launch in case.history.launches:
        lives = [inc for inc in case.history.incarnations if inc.launch == launch.index]
        if not lives and launch.code:
            said = [line for line in _tail(logs / f"launch-{launch.index}.log") if not _LAUNCHER.match(line)]
            yield LastWords(
                (launch.index,), None, f"began, and it ended with exit code {launch.code}", *split(said)
            )
        ends = [(inc, own, *ending(case.history, inc, own)) for inc in lives for own in inc.ranks.values()]
        dead = [each for each in ends if each[2] in _FIRST]
        if not dead and launch.code:
            # They decided to end, and said why.
            how = f"ended by itself; the launch ended with exit code {launch.code}"
            dead = [(inc, own, "gone", how) for inc, own, *_ in ends if inc is lives[-1]]
        dead.sort(key=lambda each: (_FIRST.index(each[2]), each[1].left or each[1].start))
        for inc, own, _, how in dead[:OF_A_LAUNCH]:
            said, marked = _said_by(logs, inc, own)
            lines, traceback = split(said)
            if marked:
                yield LastWords((launch.index,), own.rank, how, lines, traceback or own.uncaught)
            else:
                how += "; the log of the launch does not say which rank wrote what"
                yield LastWords((launch.index,), own.rank, how, lines, traceback or own.uncaught)
                break  # the others would have the same words


def _said_by(logs: Path, inc: Incarnation, own: RankLifetime) -> tuple[list[str], bool]:
    """The last lines of a rank: from its own files, which torchrun keeps, else those in the log of the launch that are
    marked as its own. If the log has no marks (False): all its lines."""
    local = sorted(rank for rank, other in inc.ranks.items() if other.node == own.node).index(own.rank)
    place = logs / "ranks" / f"launch-{inc.launch}" / own.node
    files = [*place.glob(f"*/attempt_{inc.restart}/{local}/std*.log")]
    if files:
        # Errors last.
        return [line for path in sorted(files, reverse=True) for line in _tail(path)], True
    text = _tail(logs / f"launch-{inc.launch}.log", bare=False)
    own_mark = re.compile(rf"\[(?:default{local}|rank{own.rank})\]:")
    marked = any(_PREFIX.match(line) for line in text)
    mine = [line for line in text if own_mark.match(line)] if marked else text
    return [_PREFIX.sub("", line) for line in mine if not _LAUNCHER.match(line)], marked or inc.world_size == 1


def _tail(path: Path, *, bare: bool = True) -> list[str]:
    """The last lines of a file, without control characters and, if `bare`, without prefixes; [] if it is not there."""
    try:
        with open_stored(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = [_CONTROL.sub("", line.rpartition("\r")[2]) for line in text.replace("\r\n", "\n").split("\n")]
    return [_PREFIX.sub("", line) if bare else line for line in lines if line.strip()]


def split(lines: Sequence[str]) -> tuple[str, str]:
    """The lines before the last traceback, and that traceback with those that it followed from; both bounded."""
    starts = [at for at, line in enumerate(lines) if line.strip() == _START]
    if not starts:
        return _text(lines[-LINES:]), ""
    start = starts.pop()
    while starts and any(map(_CHAINED.search, lines[starts[-1] : start])):
        start = starts.pop()
    block = lines[start:]
    # The frames where it was raised, and the exception, are at the end.
    if len(block) > TRACEBACK:
        block = [*block[:6], f"… {len(block) - TRACEBACK} lines …", *block[len(block) - TRACEBACK + 6 :]]
    return _text(lines[max(0, start - LINES) : start]), _text(block)


def _text(lines: Sequence[str]) -> str:
    return "\n".join(line if len(line) <= LETTERS else f"{line[:LETTERS]}…" for line in lines)
