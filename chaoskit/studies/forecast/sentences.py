"""The forecast in sentences, as a leader reads it."""

from __future__ import annotations

from collections.abc import Mapping

from chaoskit.studies.forecast.answer import Forecast
from chaoskit.studies.forecast.assumptions import duration

#: How a cause of loss follows '71 % of it'.
_LOST: Mapping[str, str] = {
    "saves": "in saves",
    "lost work": "as work that is done again",
    "detection": "in detection",
    "silent corruption": "until silent corruption is found",
    "waiting for nodes": "in waiting for nodes",
    "failed recoveries": "in failed recoveries",
    "relaunch": "in relaunches",
    "load": "in loads",
    "repeated recoveries": "in recoveries that a failure interrupts",
}


def summary(found: Forecast) -> str:
    """The interruptions, what they cost today, and what another checkpoint interval gains."""
    request = found.request
    count = found.interruptions.mean
    expected = "no interruption" if count < 0.05 else _interruptions(count)
    days = "1 day" if request.days == 1 else f"{request.days:g} days"
    gpus = "1 GPU" if request.gpus == 1 else f"{request.gpus:,} GPUs"
    parts = [f"On {gpus} for {days} expect {expected}."]
    share = f"{percent(found.goodput.mean)} of the time trains"
    worst = found.causes[0]
    lost = f"{money(found.lost_usd)} are lost, {worst.share * 100:.0f} % of it {_LOST[worst.name]}"
    each = f"each costs {duration(found.each_seconds)}; " if count >= 0.05 else ""
    parts.append(f"Today {each}{share}; {lost}." if found.lost_usd else f"Today {share}; nothing is lost.")
    gain = found.intervals.gain
    if gain is not None and found.usd(gain.seconds) >= 1:
        best, present = (minutes(each) for each in (found.intervals.best, found.intervals.present))
        parts.append(f"Saving every {best} instead of {present} gains {money(found.usd(gain.seconds))}.")
    else:
        parts.append("No other checkpoint interval is certain to gain money.")
    return " ".join(parts)


def footing(found: Forecast) -> str:
    """What the numbers rest on."""
    figures = found.inputs.figures
    counted = {
        origin: sum(each.origin == origin for each in figures)
        for origin in ("stated", "measured", "extrapolated", "assumed")
    }
    if found.measured is None:
        stated = f" but {counted['stated']}" if counted["stated"] else ""
        return (
            f"NOTHING WAS MEASURED: all of {len(figures)} numbers{stated} are assumed. Measure your job with 'chaoskit "
            "run', then forecast again."
        )
    return (
        f"Of {len(figures)} numbers {_are(counted['measured'], 'measured')} (suite {found.measured.suite}), "
        f"{_are(counted['extrapolated'], 'extrapolated')} from a smaller job, "
        f"{_are(counted['stated'], 'yours')}, and {_are(counted['assumed'], 'ASSUMED')}."
    )


def _are(count: int, what: str) -> str:
    return f"{count} {'is' if count == 1 else 'are'} {what}"


def percent(share: float) -> str:
    """A share from 0 to 1, with one digit behind the point, and more where it is nearly all or nothing."""
    if 0 < share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.999 or share == 1 else f"{100 * share:.2f} %"


def money(usd: float, digits: int = 2) -> str:
    """Dollars, with so many digits that count."""
    if abs(usd) < 10**digits:
        return f"USD {usd:,.0f}"
    return f"USD {round(usd, digits - len(f'{abs(usd):.0f}')):,.0f}"


def minutes(seconds: float) -> str:
    """A checkpoint interval: minutes, seconds if it is short, hours if it is long."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:,.0f} min" if seconds < 3 * 3600 else f"{seconds / 3600:,.3g} h"


def _interruptions(count: float) -> str:
    shown = f"{count:.1f}" if count < 10 else f"{count:,.0f}"
    return f"{shown} interruption{'' if shown == '1.0' else 's'}"
