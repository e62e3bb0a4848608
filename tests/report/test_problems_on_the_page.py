"""The page of a suite with problems: they come first, each experiment can be found, and all without the script."""

import re
from html.parser import HTMLParser

import pytest

from chaoskit.report.html import suite_page
from chaoskit.studies.problems.problem import Problem, Proof
from tests.report.five_problems import PROBLEMS, suite
from tests.report.test_history_page import Nesting
from tests.studies.nights.made import HOSTILE, result
from tests.studies.nights.made import suite as finished


@pytest.fixture(scope="module")
def text():
    return suite_page.render(suite(), problems=PROBLEMS)


def words(markup):
    return " ".join(re.sub(r"<[^>]+>", " ", markup).split())


class Hidden(HTMLParser):
    """What a browser without scripts does not show."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if "hidden" in dict(attrs):
            self.found.append((tag, dict(attrs).get("id") or dict(attrs).get("class")))


def test_the_problems_come_first(text):
    order = [
        "<h1>3 problems in your job</h1>", 'class="problems"', 'class="weaknesses"', 'class="contents"', 'id="filter"',
        'id="of-problem-data-replayed"',
    ]  # fmt: skip
    places = [text.index(each) for each in order]
    assert places == sorted(places)
    first = words(re.search(r'<li class="problem" id="problem-data-replayed">(.*?)</li>', text, re.S)[1])
    assert first.startswith("1 data-replayed # The position in the data is not restored: resumed from step 30")
    assert "✓ Proven : with the position put back, 22 of 23 experiments pass." in first
    assert "Shown by test_resume and 22 more ." in first
    assert "Change: save the position in the epoch" in first
    assert "chaoskit run -k test_resume -- torchrun" in first
    second, third = (
        words(re.search(rf'id="problem-{code}">(.*?)</li>', text, re.S)[1])
        for code in ("rng-not-restored", "torn-checkpoint")
    )
    assert "✗ More is lost : with the stream put back" in second and "? Not proven : what a file lacks" in third


def test_weaknesses_stand_in_a_line(text):
    line = re.search(r'<p class="weaknesses">(.*?)</p>', text, re.S)[1]
    assert words(line) == "2 weaknesses: no guard against NaN · one failed write ends the run"
    assert re.findall(r'href="#([^"]+)"', line) == ["of-problem-nonfinite-accepted", "of-problem-crash-loop"]


def test_every_link_inside_the_page_leads_somewhere_and_every_id_is_there_once(text):
    parsed = Nesting(text)
    assert len(set(parsed.ids)) == len(parsed.ids)
    inside = [link[1:] for link in parsed.links if link.startswith("#")]
    assert len(inside) > 40 and set(inside) <= set(parsed.ids)
    assert {"problem-data-replayed", "experiment-test_resume", "of-verdict-pass", "command"} <= set(parsed.ids)


def test_experiments_are_folded_under_their_problem(text):
    assert not re.findall(r'<details class="group"[^>]* open', text)
    group = re.search(r'<details class="group" id="of-problem-data-replayed">(.*?)</table>', text, re.S)[1]
    assert words(group).startswith("1 data-replayed : 23 experiments") and group.count("<tr id=") == 23
    assert text.count("<tr id=") == 34


def test_rows_say_what_they_can_be_filtered_by(text):
    row = re.search(r'<tr id="experiment-test_kill-rank-0-at-10"([^>]*)>', text)[1]
    assert 'data-codes="data-replayed rng-not-restored"' in row and 'data-verdict="fail"' in row
    options = re.findall(r'<option value="([^"]*)">([^<]*)', text)
    assert options[0] == ("", "all codes") and ("data-replayed", "data-replayed (25)") in options


def test_without_the_script_nothing_is_missing(text):
    assert set(Hidden(text).found) == {("form", "filter"), ("button", "copy")}


def test_only_weaknesses_are_no_problem():
    text = suite_page.render(suite(), problems=PROBLEMS[3:])
    assert "<h1>No problem, 2 weaknesses in your job</h1>" in text and 'class="problems"' not in text
    assert "<h1>1 problem in your job</h1>" in suite_page.render(suite(), problems=PROBLEMS[:1])


def test_a_problem_of_experiments_that_are_not_there():
    text = suite_page.render(finished(result()), problems=[Problem("hang", "It hung.", "", ("test_gone", "b"))])
    parsed = Nesting(text)
    assert "Shown by test_gone" in words(text)
    assert {link[1:] for link in parsed.links if link.startswith("#")} <= set(parsed.ids)


def test_what_is_accepted_has_a_place_a_word_and_a_mark():
    text = suite_page.render(suite(), problems=PROBLEMS)
    assert '<span class="verdict accepted"><span aria-hidden="true">≈</span> 1 accepted</span>' in text
    group = re.search(r'<details class="group" id="of-verdict-accepted">(.*?)</details>', text, re.S)[1]
    assert "test_dropout" in group and 'data-codes="rng-not-restored"' in group
    assert "rng-not-restored : dropout masks may differ after a resume" in words(group)


def test_losses_in_a_problem_are_decimals():
    proof = Proof("proven", f"It was {(0.5).hex()}.")
    one = Problem("loss-diverged", f"The loss is {(3.0).hex()}.", "", (), proof=proof)
    text = suite_page.render(suite(), problems=[one])
    assert "The loss is 3." in text and "It was 0.5." in text and "0x1." not in text


def test_a_hostile_problem_is_text():
    proof = Proof("more-lost", HOSTILE, (HOSTILE,), (HOSTILE,))
    one = Problem(
        HOSTILE, HOSTILE, HOSTILE, (HOSTILE, HOSTILE), consequences=(HOSTILE,), repeat=HOSTILE, proof=proof
    )
    weak = Problem(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), weakness=True)
    text = suite_page.render(finished(result(HOSTILE, "fail", codes=(HOSTILE,))), problems=[one, weak])
    assert text.count("<script>") == 1 and "<script>alert" not in text and "a&b" not in text
    assert all(re.fullmatch(r"[\w.-]+", each) for each in Nesting(text).ids)


def test_the_page_stays_small(text):
    assert len(text.encode()) < 100_000
