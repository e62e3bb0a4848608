"""The HTML page of a map of silent corruption: a cell for each target and change, then the shares and the worst ones.

For tests and style sheets: the map is `table#map`, its cells `td[data-silent]` (`.vague` where too few corruptions were
tested to tell); a bar is `.bar` with a part `.OUTCOME` for each outcome.
"""

from __future__ import annotations

from chaoskit.report.html import page
from chaoskit.report.svg.sdc_picture import interval
from chaoskit.report.terminal import sdc_report
from chaoskit.studies.sdc.changes import CHANGES
from chaoskit.studies.sdc.map import SdcMap
from chaoskit.studies.sdc.trace import CLASSES

#: Maximum number of silent corruptions in the list; the JSON has all of them.
WORST = 20


def render(one: SdcMap) -> str:
    """Render the page."""
    rows = [(place, [(change, one.cell(place, change)) for change in CHANGES]) for place in one.places]
    silent = sorted(
        (each for each in one.results if each.outcome.becomes == "silent"), key=lambda r: -r.outcome.worst
    )
    tables = {
        "target": {sdc_report.text(place): shares for place, shares in one.by_place().items()},
        "change": one.by_change(),
        "injected in": {f"step {step}": shares for step, shares in one.by_step().items()},
    }
    return page.render(
        "sdc.html.j2",
        total=sdc_report.total(one),
        classes=CLASSES,
        changes=CHANGES,
        rows=[(sdc_report.text(place), cells) for place, cells in rows if any(c["silent"].of for _, c in cells)],
        interval=interval,
        percent=sdc_report.percent,
        tables=tables,
        worst=[sdc_report.sentence(each) for each in silent[:WORST]],
        more=max(0, len(silent) - WORST),
        measured=sdc_report.measured(one),
    )
