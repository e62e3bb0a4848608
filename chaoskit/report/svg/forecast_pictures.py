"""The layouts of the pictures of a forecast: the interval, the causes, one simulated month, the sensitivity."""

from __future__ import annotations

from collections.abc import Iterator

from chaoskit.report.svg.axes import Scale, counted
from chaoskit.report.svg.forecast_marks import ForecastPicture, Stroke, Words, box, kind_of
from chaoskit.studies.forecast.answer import Forecast
from chaoskit.studies.forecast.assumptions import duration
from chaoskit.studies.forecast.sentences import minutes, money, percent
from chaoskit.studies.forecast.simulation import CAUSES, DETECTION, LOST, REPEATED

#: In pixels: the width of every picture, and the room at its sides.
WIDTH, LEFT, RIGHT = 800.0, 150.0, 30.0
_ROW, _BAR = 30.0, 18.0
_DAY, _HOUR = 86400.0, 3600.0
#: Intervals that may be marked on the axis, in seconds.
_MARKED = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 57600, 86400, 172800, 604800)


def interval_picture(found: Forecast) -> ForecastPicture:
    """Lay out the share of time that trains against the checkpoint interval, with the present one and the best."""
    own = found.intervals
    top, bottom, left = 64.0, 300.0, 70.0
    points = [(each.seconds, each.goodput) for each in own.tried]
    x = Scale(points[0][0] / 1.1, points[-1][0] * 1.1, left, WIDTH - RIGHT, log=True)
    shares = [share for _, share in points]
    room = (max(shares) - min(shares)) / 10 or 0.01
    y = Scale(max(0.0, min(shares) - room), min(1.0, max(shares) + room), bottom, top)
    strokes = [Stroke(f"M{left} {y(tick)}H{WIDTH - RIGHT}", "grid") for tick in y.ticks(5)]
    words = [Words(left - 8, y(tick) + 4, f"{100 * tick:.4g} %", "end", "soft") for tick in y.ticks(5)]
    words += [Words(x(tick), bottom + 20, _short(tick), "middle", "soft") for tick in _ticks(x)]
    words.append(Words((left + WIDTH - RIGHT) / 2, bottom + 42, "training between two checkpoints", "middle", "soft"))
    marks = [("today", own.present), ("Young", own.young), ("Daly", own.daly), ("best", own.best)]
    known = [(name, at) for name, at in marks if at is not None and x.low <= at <= x.high]
    rows = _apart([x(at) for _, at in known])
    for (name, at), row in zip(known, rows, strict=True):
        place = x(at)
        line = f"M{place} {top - 46 + 14 * row}V{bottom}"
        strokes.append(Stroke(line, f"mark {name.lower()}", f"{name}: {minutes(at)}"))
        side = "end" if place > WIDTH - 160 else "start"
        words.append(Words(place + (4 if side == "start" else -4), top - 38 + 14 * row, f"{name} {minutes(at)}", side))
    line = "".join(f"{'L' if at else 'M'}{x(each)} {y(share)}" for at, (each, share) in enumerate(points))
    strokes.append(Stroke(line, "curve"))
    strokes += [
        Stroke(box(x(each) - 3, y(share) - 3, 6, 6), "dot", f"{minutes(each)}: {percent(share)}")
        for each, share in points
    ]
    told = "; ".join(f"{minutes(each)}: {percent(share)}" for each, share in points)
    return ForecastPicture(
        WIDTH, bottom + 54, "Time that trains, by checkpoint interval", told, tuple(strokes), tuple(words)
    )


def cause_picture(found: Forecast) -> ForecastPicture:
    """Lay out the money lost to each cause as bars, the largest first."""
    shown = [each for each in found.causes if each.usd > 0]
    x = counted(max((each.usd for each in shown), default=1.0), LEFT, WIDTH - 170)
    strokes, words = [], []
    for row, each in enumerate(shown):
        y = 8 + _ROW * row
        told = f"{money(each.usd)} ({100 * each.share:.0f} %)"
        title = f"{each.name}: {told}, {duration(each.seconds)} of the whole job"
        strokes.append(Stroke(box(LEFT, y, x(each.usd) - LEFT, _BAR), f"bar {kind_of(each.name)}", title))
        words.append(Words(LEFT - 8, y + 14, each.name, "end"))
        words.append(Words(x(each.usd) + 8, y + 14, told))
    text = "; ".join(f"{each.name}: {money(each.usd)}" for each in shown) or "nothing is lost"
    high = 16 + _ROW * max(1, len(shown))
    return ForecastPicture(WIDTH, high, "Money lost, by cause", text, tuple(strokes), tuple(words))


def month_picture(found: Forecast) -> ForecastPicture:
    """Lay out the first 30 days of one simulated job: a row for each day, and in it what did not train."""
    left, top, row, bar = 70.0, 24.0, 16.0, 11.0
    end = found.month_seconds
    days = max(1, -int(-end // _DAY))
    hours = counted(_DAY, left, WIDTH - RIGHT)

    def place(begin: float, until: float) -> Iterator[str]:
        at = max(0.0, begin)
        while at < min(until, end):
            day = int(at // _DAY)
            stop = min(until, end, (day + 1) * _DAY)
            x = hours(at - day * _DAY)
            yield box(x, top + row * day, max(0.8, hours(stop - day * _DAY) - x), bar)
            at = stop

    paths: dict[str, list[str]] = {"training": list(place(0.0, end))}
    struck = 0
    for cause, begin, until in _spans(found):
        if begin < end:
            struck += cause == CAUSES[DETECTION]
            paths.setdefault(cause, []).extend(place(begin, until))
    strokes = [Stroke("".join(own), f"month {kind_of(cause)}", cause) for cause, own in paths.items()]
    words = [Words(left - 8, top + row * day + 10, f"day {day + 1}", "end", "soft") for day in range(days)]
    words += [Words(hours(each * _HOUR), top - 8, f"{each} h", "middle", "soft") for each in range(0, 25, 4)]
    count = sum(each.at < end for each in found.month)
    text = f"{count} interruptions in the first {duration(end)} of one simulated job"
    high = top + row * days + 6
    return ForecastPicture(WIDTH, high, "One simulated month", text, tuple(strokes), tuple(words))


def _spans(found: Forecast) -> Iterator[tuple[str, float, float]]:
    """What did not become lasting training in the first trial: the cause, from when, until when."""
    up = 0.0
    for each in found.month:
        running = each.at >= up
        if running and each.costs[LOST]:
            yield CAUSES[LOST], max(up, each.at - each.costs[LOST]), each.at
        at = each.at if running else up
        for cause in range(DETECTION, REPEATED + 1):
            if each.costs[cause]:
                yield CAUSES[cause], at, at + each.costs[cause]
                at += each.costs[cause]
        up = max(up, at)


def sensitivity_picture(found: Forecast) -> ForecastPicture:
    """Lay out how far half of each input, and twice, move the share of time that trains."""
    shown = found.sensitivity
    middle = found.goodput.mean
    every = [middle, *(each.half for each in shown), *(each.double for each in shown)]
    x = Scale(min(every), max(max(every), min(every) + 1e-6), LEFT + 100, WIDTH - 90)
    strokes, words = [], []
    for row, each in enumerate(shown):
        y = 30 + _ROW * row
        words.append(Words(LEFT + 40, y + 14, each.name, "end"))
        for kind, value, what in (("half", each.half, "half of it"), ("double", each.double, "twice as much")):
            low, high = sorted((x(middle), x(value)))
            title = f"{each.name}, {what}: {percent(value)}"
            strokes.append(Stroke(box(low, y, high - low, _BAR), f"bar {kind}", title))
        ends = sorted((each.half, each.double))
        words.append(Words(x(min(ends[0], middle)) - 5, y + 14, percent(ends[0]), "end", "soft"))
        words.append(Words(x(max(ends[1], middle)) + 5, y + 14, percent(ends[1]), "start", "soft"))
    high = 34 + _ROW * len(shown)
    strokes.append(Stroke(f"M{x(middle)} 22V{high}", "mark today", "today"))
    words.append(Words(x(middle), 14, f"today {percent(middle)}", "middle"))
    text = "; ".join(f"{one.name}: {percent(one.half)} with half, {percent(one.double)} with twice" for one in shown)
    return ForecastPicture(WIDTH, high + 8, "Sensitivity", text, tuple(strokes), tuple(words))


def _ticks(x: Scale) -> list[int]:
    inside = [each for each in _MARKED if x.low <= each <= x.high]
    return inside[:: 1 + len(inside) // 9]


def _short(seconds: float) -> str:
    for unit, of in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= of:
            return f"{seconds / of:g} {unit}"
    return f"{seconds:g} s"


def _apart(places: list[float]) -> list[int]:
    """A row for each name at the top, so that no two of a row overlap."""
    rows: list[int] = []
    for at, place in enumerate(places):
        taken = {rows[other] for other in range(at) if abs(places[other] - place) < 110}
        rows.append(next(row for row in range(4) if row not in taken))
    return rows
