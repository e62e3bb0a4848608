"""The colours of the pages: told apart also by those who lack one kind of cone, and never the only difference."""

import itertools

import pytest

from tests.report.browser.colours import SIGHTS, distance
from tests.report.browser.conftest import SCHEMES

#: Which ones stand beside one another.
BESIDE = {
    "verdicts": ("good", "bad", "unsure", "accepted"),
    "lines": ("run", "reference", "faded", "fault"),
    "phases": ("phase-1", "phase-2", "phase-3", "phase-4", "phase-5"),
}
#: Seen at a glance.
APART = 10.0


def alike(colours: dict[str, str]) -> list[tuple[str, str, str]]:
    """The pairs that somebody takes for one another, and who."""
    return [
        (one, other, sight)
        for (one, other), sight in itertools.product(itertools.combinations(colours, 2), SIGHTS)
        if distance(colours[one], colours[other], sight) < APART
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("names", BESIDE.values(), ids=BESIDE)
def test_everybody_tells_them_apart(pages, look, scheme, names):
    page = look(pages["suite"], scheme=scheme)
    told = page.evaluate(
        "names => names.map((name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim())",
        names,
    )
    assert not alike(dict(zip(names, told, strict=True)))


def test_red_and_green_that_most_tell_apart_are_seen_to_be_alike():
    both = {"good": "#6a8a00", "bad": "#b07000"}
    assert [sight for *_, sight in alike(both)] == ["protanopia", "deuteranopia"]
