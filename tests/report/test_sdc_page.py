"""The page of a map of silent corruption: every cell that was tested, and none surer than it is."""

import re
from html.parser import HTMLParser

from chaoskit.cli import sdc_map
from chaoskit.report.html import sdc_page
from tests.report.test_sdc_report import PLACES, result, the_map


class Cells(HTMLParser):
    """The cells of the map: what they say of themselves, and whether they are vague."""

    def __init__(self, text):
        super().__init__()
        self.found = {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        if tag == "td" and "data-silent" in told:
            self.found.setdefault(told["data-change"], []).append(
                (told["data-silent"], told.get("class") == "vague")
            )


def test_every_tested_cell_is_there_and_few_corruptions_are_vague():
    cells = Cells(sdc_page.render(the_map())).found
    assert cells == {
        "nan": [("0/1", True)], "sign": [("1/1", True), ("0/1", True)], "exponent high": [("1/1", True)],
        "zero": [("0/1", True)],
    }  # fmt: skip
    many = tuple(result(n, PLACES[0], "sign", "silent", worst=0.2) for n in range(1, 21))
    assert Cells(sdc_page.render(the_map(results=many))).found == {"sign": [("20/20", False)]}


def test_it_says_the_intervals_and_what_was_measured():
    text = sdc_page.render(the_map())
    assert "<small>21-100 %</small>" in text and "silent 1 of 1" in text
    assert "The worst silent corruptions" in text and "How it was measured" in text
    assert "seed 3" in text


def test_nothing_runs_and_nothing_is_fetched():
    hostile = "<script>alert(1)</script><img src=x>"
    text = sdc_page.render(the_map(apart=hostile, run=hostile))
    assert text.count("<script>") == 1 and "<img" not in text
    assert not re.search(r"https?://|url\((?!#)|@import|<link|\bsrc=\"", text)


def test_a_map_of_nothing():
    assert "0 corruptions" in sdc_page.render(the_map(results=()))


def test_the_name_of_the_file_says_whether_it_is_a_page_or_a_picture():
    assert sdc_map.picture(the_map(), "map.html").startswith("<!doctype html>")
    assert sdc_map.picture(the_map(), "map.svg").startswith("<svg")
