"""The badge: how many survived, in words and in a colour, in a picture that is whole in itself."""

import xml.etree.ElementTree as ET

import pytest

from chaoskit.report.svg import badge
from tests.studies.nights.made import HOSTILE, result, suite

SVG = "{http://www.w3.org/2000/svg}"


def of(*verdicts, **fields):
    return suite(*(result(f"test_{n}", verdict) for n, verdict in enumerate(verdicts)), **fields)


@pytest.mark.parametrize(
    ("verdicts", "status", "words", "colour"),
    [
        (("pass",) * 28, "finished", "28 of 28", "pass"),
        (("pass",) * 27 + ("fail",), "finished", "27 of 28, 1 problem", "fail"),
        (("pass", "fail", "inconclusive"), "finished", "1 of 3, 1 problem, 1 inconclusive", "fail"),
        (("pass", "inconclusive"), "finished", "1 of 2, 1 inconclusive", "inconclusive"),
        (("pass", "skipped"), "finished", "1 of 1", "pass"),
        (("pass", "accepted"), "finished", "1 of 2, 1 accepted", "accepted"),
        (("fail", "accepted"), "finished", "0 of 2, 1 accepted, 1 problem", "fail"),
        (("pass", "pass"), "interrupted", "2 of 2, interrupted", "inconclusive"),
        (("skipped",), "finished", "nothing was tested", "skipped"),
        ((), "finished", "nothing was tested", "skipped"),
    ],
)
def test_words_and_colour(verdicts, status, words, colour):
    drawn = ET.fromstring(badge.svg(of(*verdicts, status=status)))
    assert [text.text for text in drawn.iter(f"{SVG}text")] == ["survives", words]
    assert badge.COLOURS[colour] in [rect.get("fill") for rect in drawn.iter(f"{SVG}rect")]
    assert drawn.find(f"{SVG}title").text == drawn.get("aria-label") == f"chaoskit: survives {words}"


def test_it_needs_nothing_else_and_says_nothing_that_came_from_names():
    drawn = badge.svg(suite(result(HOSTILE, "fail", codes=(HOSTILE,), sentences=(HOSTILE,)), command=(HOSTILE,)))
    assert "alert" not in drawn and "href" not in drawn and "url(#r)" in drawn
    assert len(drawn) < 1500


def test_the_words_have_room():
    one = ET.fromstring(badge.svg(of("pass", "inconclusive")))
    for rect, text in zip(list(one.iter(f"{SVG}rect"))[1:], one.iter(f"{SVG}text"), strict=True):
        assert int(text.get("textLength")) + 2 * badge.MARGIN == int(rect.get("width"))
