"""The HTML page of a forecast: the sentence, what it rests on, four pictures, and every number with its origin."""

from __future__ import annotations

from collections.abc import Iterator

from chaoskit.report.html import page
from chaoskit.report.svg.forecast_marks import kind_of
from chaoskit.report.svg.forecast_pictures import (
    cause_picture,
    interval_picture,
    month_picture,
    sensitivity_picture,
)
from chaoskit.report.terminal.forecast_report import facts, gain_rows, interval_lines
from chaoskit.studies.forecast.answer import Forecast
from chaoskit.studies.forecast.assumptions import duration, size
from chaoskit.studies.forecast.sentences import footing, money, percent, summary
from chaoskit.studies.forecast.simulation import CAUSES, DETECTION, LOST


def render(found: Forecast) -> str:
    """Render the page."""
    return page.render(
        "forecast.html.j2",
        headline=_together(summary(found)),
        footing=footing(found),
        nothing=found.measured is None,
        facts=list(map(_together, facts(found))),
        intervals=interval_lines(found),
        gains=gain_rows(found),
        causes=[(each.name, duration(each.seconds), percent(each.share), money(each.usd, 3)) for each in found.causes],
        interval=interval_picture(found),
        bars=cause_picture(found),
        month=month_picture(found),
        sensitivity=sensitivity_picture(found),
        keys=[(kind_of(each), each) for each in (CAUSES[LOST], *CAUSES[DETECTION:])],
        retention=list(_retention(found)),
        figures=found.inputs.figures,
        tornado=[(one.name, percent(one.half), percent(one.double)) for one in found.sensitivity],
        tried=[(duration(one.seconds), percent(one.goodput)) for one in found.intervals.tried],
    )


def _together(text: str) -> str:
    """The text, with no line break between a number and what it counts in."""
    return text.replace(" %", "\u00a0%").replace("USD ", "USD\u00a0").replace(" min", "\u00a0min")


def _retention(found: Forecast) -> Iterator[tuple[str, ...]]:
    for each in found.retention:
        damaged = "everything" if each.damaged == float("inf") else duration(each.damaged)
        yield (
            each.policy.name, size(each.held_bytes), size(each.written_bytes), money(each.month_usd),
            duration(each.crash), damaged, duration(each.reach_seconds), percent(each.out_of_reach),
        )  # fmt: skip
