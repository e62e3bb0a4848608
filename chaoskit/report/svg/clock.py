"""`Clock`: the timeline of a run in seconds: launches, lifetimes, faults, and each recovery by phases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.harness_record import BEFORE_WINDOW
from chaoskit.analysis.record.history import History
from chaoskit.analysis.recovery.phases import PHASES, Phases, phases
from chaoskit.analysis.recovery.recovery import Recovery
from chaoskit.report.svg.axes import Scale, counted, show
from chaoskit.report.svg.fault_windows import active_time
from chaoskit.report.svg.loss_picture import LEFT, LETTER, RIGHT

#: In pixels: a row, and the bar in it.
ROW, BAR = 22, 12
#: More rows of a kind than this are not drawn.
MOST = 24


@dataclass(frozen=True)
class Span:
    """A bar of a row: its `kind` (a class of the style sheet), its time, its description `text`, and its `label`."""

    kind: str
    number: int
    begun: float
    ended: float
    text: str
    label: str = ""


@dataclass(frozen=True)
class ClockRow:
    """A row of the picture."""

    name: str
    y: float
    spans: Sequence[Span]


@dataclass(frozen=True)
class Stack:
    """A recovery: its phases in seconds since the fault; a single bar if the job did not restart."""

    recovery: Recovery
    phases: Phases | None
    y: float
    parts: Sequence[tuple[str, float, float]]


@dataclass(frozen=True)
class Clock:
    """The layout; times are in seconds since the start of the run. `x` is the axis of the rows, `since` that of the
    recoveries."""

    x: Scale
    since: Scale
    rows: Sequence[ClockRow]
    stacks: Sequence[Stack]
    middle: float
    height: float
    x_ticks: Sequence[tuple[float, str]]
    since_ticks: Sequence[tuple[float, str]]

    @property
    def description(self) -> str:
        """Describe the picture in words."""
        return (
            ". ".join([*(span.text for row in self.rows for span in row.spans), *map(in_words, self.stacks)]) + "."
        )


def in_words(stack: Stack) -> str:
    """Describe a recovery: 'kill rank 1: recovered in 3.2 s: detection 0.2 s, ...'."""
    one = stack.recovery
    if one.recovery_seconds is None:
        return f"{one.name}: the job took no further step"
    if stack.phases is None:
        return f"{one.name}: no restart, next step after {one.recovery_seconds:.1f} s"
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in stack.phases.seconds.items())
    return f"{one.name}: recovered in {one.recovery_seconds:.1f} s: {parts}"


def clock(case: Case) -> Clock:
    """Lay out the timeline of a run."""
    history = case.history
    begun, end = bounds(history)
    x = counted(end - begun, LEFT, RIGHT)
    found = [
        ("launches", _launches(history, end)),
        ("lifetimes", _lifetimes(history, end)),
        ("faults", _faults(history)),
    ]
    rows: list[ClockRow] = []
    for name, spans in found:
        rows += _rows(name, [_since(span, begun) for span in spans], 8.0 + ROW * len(rows))
    middle = 8.0 + ROW * len(rows)
    by_fault = {one.fault: one for one in phases(history, case.recoveries)}
    longest = max((one.recovery_seconds or 0.0 for one in case.recoveries), default=0.0)
    since = counted(longest, LEFT, RIGHT)
    top = middle + 62
    stacks = [_stack(one, by_fault.get(one.fault), top + n * 38) for n, one in enumerate(case.recoveries[:MOST])]
    height = top + 38 * len(stacks) + 14 if stacks else middle + 26
    return Clock(x, since, rows, stacks, middle, height, _ticks(x), _ticks(since) if longest else [])


def bounds(history: History) -> tuple[float, float]:
    """Return the first and the last time in the record."""
    times = [launch.begun for launch in history.launches]
    times += [launch.ended for launch in history.launches if launch.ended is not None]
    for inc in history.incarnations:
        for own in inc.ranks.values():
            times += [own.start, *own.steps.times[-1:], *([own.left] if own.left is not None else [])]
    times += [t for fault in history.faults for t in active_time(fault) or ()]
    return min(times, default=0.0), max(times, default=1.0)


def _launches(history: History, end: float) -> Iterator[Span]:
    causes = {"fault": " because of a fault", "hang": " because the job hung",
              "deadline": " at the deadline", "interrupted": " by an interrupt",
              "too-few-nodes": ": too few nodes remained",
              "supervisor": ": its controller starts nothing again"}  # fmt: skip
    for one in history.launches:
        how = f" ({one.how.partition(':')[0]})" if one.how else ""
        if one.cause == BEFORE_WINDOW:
            yield Span("launch", one.index, one.begun, one.ended or end, "an uninterrupted run, up to the window", "")
            continue
        ended = "did not end" if one.ended is None else f"ended with {one.code}{causes.get(one.cause or '', '')}"
        label = "" if one.ended is None else f"exit {one.code}"
        stop = end if one.ended is None else one.ended
        yield Span("launch", one.index, one.begun, stop, f"launch {one.index}{how} {ended}", label)


def _lifetimes(history: History, end: float) -> Iterator[Span]:
    for inc in history.incarnations:
        last = [own.left if own.left is not None else max([own.start, *own.steps.times[-1:]])
                for own in inc.ranks.values()]  # fmt: skip
        steps = max((len(own.steps) for own in inc.ranks.values()), default=0)
        took = f"{steps} steps" if steps else "no step"
        text = f"incarnation {inc.index}: {len(inc.ranks)} of {inc.world_size} ranks, {took}"
        yield Span("life" if steps else "life stepless", inc.index, inc.start, max(last, default=end), text)


def _faults(history: History) -> Iterator[Span]:
    for fault in history.faults:
        if (active := active_time(fault)) is not None:
            seen = "" if fault.observed is not None else ", not observed to take effect"
            healed = f", healed after {active[1] - active[0]:.1f} s" if fault.healed is not None else ""
            yield Span("fault-time", fault.index, *active, f"{fault.name}{seen}{healed}")


def _since(span: Span, begun: float) -> Span:
    return Span(span.kind, span.number, span.begun - begun, span.ended - begun, span.text, span.label)


def _rows(name: str, spans: Sequence[Span], y: float) -> list[ClockRow]:
    """Distribute the bars over rows so that none overlap."""
    lines: list[list[Span]] = []
    for span in spans:
        line = next((line for line in lines if line[-1].ended <= span.begun), None)
        if line is None:
            lines.append(line := [])
        line.append(span)
    return [ClockRow(name if n == 0 else "", y + ROW * n, line) for n, line in enumerate(lines[:MOST])]


def _stack(one: Recovery, own: Phases | None, y: float) -> Stack:
    if own is None:
        waited = one.recovery_seconds
        return Stack(one, None, y, [] if waited is None else [("ridden-out", 0.0, waited)])
    parts, at = [], 0.0
    for name in PHASES:
        if name in own.seconds:
            parts.append((name, at, at + own.seconds[name]))
            at += own.seconds[name]
    return Stack(one, own, y, parts)


def _ticks(x: Scale) -> list[tuple[float, str]]:
    return [(x(tick), f"{show(tick)} s") for tick in x.ticks(8)]


def room(text: str, width: float) -> bool:
    """Return whether a label fits into a bar."""
    return len(text) * LETTER + 6 <= width
