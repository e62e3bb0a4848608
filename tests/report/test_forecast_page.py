"""The page of a forecast: each number with its origin, pictures that say in words what they draw, all text escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from chaoskit.report.html import forecast_page
from chaoskit.report.svg.forecast_pictures import (
    WIDTH,
    cause_picture,
    interval_picture,
    month_picture,
    sensitivity_picture,
)
from chaoskit.studies.forecast.answer import Forecast, forecast
from chaoskit.studies.forecast.inputs import ForecastRequest
from chaoskit.studies.forecast.measured import measured
from chaoskit.studies.forecast.sentences import percent
from tests.studies.forecast.suites import killed, suite


@pytest.fixture(scope="module")
def usual() -> Forecast:
    """1,024 GPUs for 30 days; nothing was measured."""
    return forecast(ForecastRequest(1024, 30), trials=100)


class Rows(HTMLParser):
    """The cells of the table of numbers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.origins: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        kind = dict(attrs).get("class", "")
        if tag == "td" and kind.startswith("origin"):
            self.origins.append(kind.split()[1])


def test_every_number_is_there_with_its_origin(usual: Forecast):
    text = forecast_page.render(usual)
    assert Rows(text).origins == [each.origin for each in usual.inputs.figures]
    assert all(each.name in text for each in usual.inputs.figures)
    assert 'class="footing nothing"' in text and "NOTHING WAS MEASURED" in text


def test_what_was_measured_is_marked_so_and_the_warning_is_gone():
    found = forecast(ForecastRequest(1024, 30), measured(suite(killed())), trials=50)
    text = forecast_page.render(found)
    assert {"measured", "extrapolated", "assumed"} == {*Rows(text).origins}
    assert "NOTHING WAS MEASURED" not in text and 'class="footing"' in text


def test_a_hostile_suite_is_text():
    hostile = replace(suite(killed()), id="<script>alert(1)</script>")
    text = forecast_page.render(forecast(ForecastRequest(64, 3), measured(hostile), trials=20))
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text


def test_every_picture_has_its_numbers_in_words_too(usual: Forecast):
    share = {each.seconds: each.goodput for each in usual.intervals.tried}
    told = interval_picture(usual).description
    assert told.count(";") == len(share) - 1 and percent(max(share.values())) in told
    assert all(each.name in cause_picture(usual).description for each in usual.causes)
    assert all(each.name in sensitivity_picture(usual).description for each in usual.sensitivity)
    struck = sum(each.at < usual.month_seconds for each in usual.month)
    assert month_picture(usual).description.startswith(f"{struck} interruptions in the first 30 days")


def numbers(path: str) -> list[float]:
    """Every number of a path."""
    return [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", path)]


@pytest.mark.parametrize("gpus", [1, 64, 4096])
def test_nothing_is_drawn_beside_the_picture(gpus: int):
    found = forecast(ForecastRequest(gpus, 10), trials=30)
    for picture in (each(found) for each in (interval_picture, cause_picture, month_picture, sensitivity_picture)):
        for words in picture.words:
            assert 0 <= words.x <= WIDTH and 0 < words.y <= picture.height, words
        for stroke in picture.strokes:
            for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)", stroke.path):
                assert 0 <= float(x) <= WIDTH and 0 <= float(y) <= picture.height, stroke


def test_the_bars_are_as_long_as_the_money_is(usual: Forecast):
    bars = [numbers(each.path)[2] for each in cause_picture(usual).strokes]
    money = [each.usd for each in usual.causes if each.usd > 0]
    assert bars == sorted(bars, reverse=True)
    assert bars[1] / bars[0] == pytest.approx(money[1] / money[0], abs=0.01)


def test_the_month_shows_the_time_that_did_not_train(usual: Forecast):
    paths = {each.title: each.path for each in month_picture(usual).strokes}
    # A day is as wide as the row; the hours of detection are that share of it.
    wide = max(numbers(each)[2] for each in re.findall(r"M[^z]*z", paths["training"]))
    drawn = sum(numbers(each)[2] for each in re.findall(r"M[^z]*z", paths["detection"]))
    seconds = sum(each.costs[2] for each in usual.month if each.at < usual.month_seconds)
    assert drawn / wide * 86400 == pytest.approx(seconds, rel=0.3)


def test_a_job_shorter_than_a_day_has_one_row():
    found = forecast(ForecastRequest(8, 0.5), trials=20)
    assert [each.text for each in month_picture(found).words if each.text.startswith("day")] == ["day 1"]
