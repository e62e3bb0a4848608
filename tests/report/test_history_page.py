"""The page of many nights: whole in itself, true to the nights, and deaf to what names and sentences try."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from chaoskit.report.html import history_page
from chaoskit.report.svg.night_picture import BOTTOM, TOP, WIDTH, picture
from chaoskit.studies.nights.findings import Findings
from chaoskit.studies.nights.suite_history import SuiteHistory
from tests.studies.nights.made import HOSTILE
from tests.studies.nights.nights import night, result, timed, verdicts

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Nesting(HTMLParser):
    """Every element is closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        self.ids += [told["id"]] if "id" in told else []
        self.links += [told["href"]] if "href" in told else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def rendered(suites):
    text = history_page.render(Findings.of(SuiteHistory.of(suites)))
    parsed = Nesting(text)
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert {link[1:] for link in parsed.links} <= set(parsed.ids)
    return text


def test_it_says_what_became_of_what():
    suites = [
        night(at, *(result(letters[at], name) for name, letters in
                    (("test_a", "ppff"), ("test_b", "pfpp"), ("test_c", "ppii"), ("test_d", "ffpp"))),
              settings={"torch": "2.14.1" if at > 1 else "2.13.0"})
        for at in range(4)
    ]  # fmt: skip
    text = rendered(suites)
    for word in ("became red", "can no longer be decided", "became green"):
        assert text.count(word) >= 2
    assert "torch 2.13.0 -&gt; 2.14.1" in text and "rng-not-restored" in text
    assert text.count('class="change"') == 4


def test_the_grid_has_a_cell_for_each_experiment_and_night():
    letters = {"test_a": "pf s", "test_b": "ppip"}
    suites = [
        night(at, *(result(told[at], name) for name, told in letters.items() if told[at] != " "))
        for at in range(4)
    ]
    text = rendered(suites)
    grid = re.search(r'<table class="grid">(.*?)</table>', text, re.S)[1]
    assert re.findall(r'<span title="([^"]+)">([^<]+)', grid) == [
        (f"2026-01-0{day} 02:30", f"01-0{day}") for day in range(1, 5)
    ]
    rows = [row for row in re.findall(r"<tr>(.*?)</tr>", grid, re.S) if 'scope="row"' in row]
    cells = [re.findall(r'<td(?: class="(\w+)" title="([^"]+)")?>(.*?)</td>', row, re.S) for row in rows]
    assert [[cell[0] for cell in row] for row in cells] == [
        ["pass", "fail", "", "skipped"],
        ["pass", "pass", "inconclusive", "pass"],
    ]
    # A mark and a word, besides the colour; and a link to the row of that night.
    _, title, content = cells[0][1]
    assert title == "2026-01-02 02:30: fail, rng-not-restored"
    assert '<a href="#e0-0-n1" aria-label="fail">✗</a>' in content and 'id="e0-0-n1"' in text
    assert cells[0][0][2] == "✓"


def test_the_grid_has_the_last_nights_only():
    text = rendered(verdicts("p" * 100 + "f" * 3))
    grid = re.search(r'<table class="grid">(.*?)</table>', text, re.S)[1]
    assert grid.count("<td") == history_page.COLUMNS and grid.count("✗") == 3


def test_what_is_accepted_has_a_mark_of_its_own():
    night_of = [night(0, result()), night(1, replace(result(), verdict="accepted"))]
    text = rendered(night_of)
    assert '<td class="accepted"' in text and "≈" in text and 'class="v accepted"' in text


def test_where_nothing_changed_it_says_so():
    text = rendered([night(at, result(recovery_seconds=1.0)) for at in range(5)])
    assert "<h1>Nothing changed (5 nights)</h1>" in text
    assert not any(
        sign in text for sign in ('class="finding', 'class="change"', 'class="shift"', 'class="v fail"')
    )


def test_a_time_that_became_longer_is_marked():
    text = rendered(timed(30, experiments=6, step=(2.0, 20)))
    assert text.count('path class="shift"') == 1 and text.count('class="level"') == 2
    assert "slower since 2026-01-21 02:30" in text
    assert "recovery, all experiments together" in text


def test_every_picture_has_words():
    text = rendered(timed(14, experiments=6))
    assert (
        text.count("<svg") == text.count('role="img"') == text.count("<title id=") == text.count("<desc id=") == 9
    )
    assert "14 nights: 14 passed" in text
    assert text.count("the last 14 nights as a table") == 6


def test_nothing_runs_and_nothing_is_fetched():
    hostile = "</title></svg><script>alert(1)</script><img src=x onerror=alert(1)>"
    suites = [
        night(at, *(result(letter, name, job=HOSTILE, sentences=(hostile,), codes=()) for name in (HOSTILE, hostile)),
              settings={"torch": f"{hostile}{at}"})
        for at, letter in enumerate("pf")
    ]  # fmt: skip
    text = rendered(suites)
    assert text.count("<script>") == 1 and "<img" not in text
    assert not re.search(r"(?:src|href)=\"(?!#)", text)


@pytest.mark.parametrize("suites", [[night(0)], verdicts("s"), verdicts("  "), [night(0, result("i", job=""))]])
def test_next_to_nothing(suites):
    assert "Nothing changed" in rendered(suites)


def test_a_year_of_sixty_experiments_is_small():
    letters = ("ppppppfppi" * 37)[:365]
    suites = [
        night(at, *(result(letters[at - n % 7], f"test_{n}", recovery_seconds=1 + at % 7 / 10) for n in range(60)))
        for at in range(365)
    ]
    text = rendered(suites)
    assert len(text.encode()) < 2_000_000
    assert text.count("<svg") >= 60


def test_the_picture_has_each_night_where_it_belongs():
    values = [1.0, 2.0, None, 2.0, 50.0, *[1.5] * 10]
    one = picture(values, ["pass", "fail", None, "inconclusive", "skipped", *["pass"] * 10], home=[True] * 15)
    points = [tuple(map(float, pair)) for pair in re.findall(r"[ML]([\d.]+) ([\d.]+)", one.line)]
    assert len(points) == 14
    assert all(0 < x < WIDTH and TOP <= y <= BOTTOM for x, y in points)
    assert points[0][1] > points[1][1] == points[2][1] > points[3][1] == TOP
    assert one.off.count("M") == 1
    assert {kind: path.count("M") for kind, path in one.verdicts.items()} == {"pass": 11, "fail": 1, "skipped": 1}
    assert len(one.unsure) == 1


def test_other_machines_are_not_on_the_line():
    one = picture([1.0, 2.0, 1.0], ["pass"] * 3, home=[True, False, True])
    assert one.line.count("L") == 1 and one.other.count("M") == 1


def test_a_picture_of_nothing():
    one = picture([], [], home=[])
    assert one.line == one.off == one.other == "" and one.highest is None


def test_a_single_night_is_seen_too():
    assert picture([1.0], ["pass"], home=[True]).line.endswith("h4")
    assert picture([None, 1.0, 2.0], [None, "pass", "pass"], home=[True] * 3).line.count("L") == 1
