"""The page of a suite: everything that came of it, the failures first, and nothing of a name is taken for markup."""

import html
import re
from html.parser import HTMLParser

import pytest

from chaoskit.errors import CODES
from chaoskit.report.html import suite_page
from tests.studies.nights.made import BASELINE, HOSTILE, result, suite


class Table(HTMLParser):
    """The cells of the tables of experiments, as if they were one: of each row the texts, and where it links to. Links
    to the row itself are left out."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.links, self.values, self.cell = [], [], [], None
        self.skipped = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "thead":
            self.skipped = bool(self.rows)
        elif tag == "tbody":
            self.skipped = False
        if self.skipped:
            return
        if tag == "a" and dict(attributes).get("class") == "anchor":
            self.cell = None
        elif tag == "tr":
            self.rows.append([])
            self.links.append([])
            self.values.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.values[-1].append(dict(attributes).get("data-value"))
            self.cell = True
        elif tag == "a" and self.rows:
            self.links[-1].append(dict(attributes)["href"])

    def handle_endtag(self, tag):
        if self.skipped:
            return
        if tag == "a" and self.rows:
            self.cell = True
        elif tag in ("td", "th"):
            self.rows[-1][-1] = " ".join(self.rows[-1][-1].split())
            self.cell = None

    def handle_data(self, text):
        if self.cell:
            self.rows[-1][-1] += text


def table(one, **options):
    return Table(suite_page.render(one, **options))


def test_the_failures_come_first():
    verdicts = ("skipped", "pass", "inconclusive", "fail", "pass")
    shown = table(suite(*(result(f"test_{n}", verdict) for n, verdict in enumerate(verdicts))))
    assert shown.rows[0] == ["verdict", "experiment", "steps lost", "recovery", "launch", "time"]
    assert [row[0] for row in shown.rows[1:]] == ["✗ fail", "? inconclusive", "✓ pass", "✓ pass", "– skipped"]
    assert [row[1][:6] for row in shown.rows[1:]] == ["test_3", "test_2", "test_1", "test_4", "test_0"]
    assert [row[0] for row in shown.values[1:]] == ["0", "1", "3", "3", "4"]


def test_what_is_accepted_has_a_word_of_its_own():
    one = suite(result("test_a", "pass"), result("test_b", "accepted", accepted=("rng-not-restored",)))
    assert [row[0] for row in table(one).rows[1:]] == ["≈ accepted", "✓ pass"]
    assert suite_page.headline(one) == "1 of 2 experiments lost what is accepted"
    assert ".verdict.accepted { color" in suite_page.render(one)


def test_a_row_has_everything():
    one = result("test_y", "fail", steps_lost=12, recovery_seconds=1.26, launch_seconds=0.4, seconds=21.3)
    (_, row), (_, values) = (table(suite(one)).rows, table(suite(one)).values)
    assert row == [
        "✗ fail", "test_y rng-not-restored The RNG was not restored.", "12", "1.3 s", "0.4 s", "21.3 s",
    ]  # fmt: skip
    assert values == ["0", "test_y", "12", "1.26", "0.4", "21.3"]


def test_what_is_not_known_is_a_dash_and_sorts_last():
    shown = table(suite(result(seconds=None)))
    assert shown.rows[1][2:] == ["–"] * 4
    assert shown.values[1][2:] == [""] * 4


def test_codes_say_what_they_mean():
    assert f'title="{CODES["rng-not-restored"]}"' in suite_page.render(suite(result(verdict="fail")))


def test_links_to_the_pages_of_runs():
    runs = ("/s/runs/a", "/s/runs/b", "/s/runs/c")
    one = result(runs=runs, run="/s/runs/b")
    links = {run: f"runs/{run[-1]}.html" for run in runs[1:]}
    shown = table(suite(one), links=links)
    assert shown.links[1] == ["runs/b.html", "runs/c.html"]
    assert shown.rows[1][1] == "test_x also c"


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ({}, "the run was deleted"),
        ({"/s/runs/a": "the record of this run cannot be read"}, "the record of this run cannot be read"),
    ],
)
def test_a_run_without_a_page_says_so(why, said):
    shown = table(suite(result(runs=("/s/runs/a",), run="/s/runs/a")), why=why)
    assert (shown.links[1], shown.rows[1][1]) == ([], f"test_x {said}")


def test_what_made_no_run_says_nothing_of_one():
    skipped = result(verdict="skipped", sentences=("it needs CanFly",))
    failed = result("test_y", "inconclusive", run="/s/references/ab/control-0")
    shown = table(suite(skipped, failed))
    assert [row[1] for row in shown.rows[1:]] == ["test_y", "test_x it needs CanFly"]


def test_the_last_words_of_a_job_are_folded():
    said = "it ended with exit code 1. It said last:\nTraceback\n  boom"
    text = suite_page.render(suite(result(verdict="inconclusive", sentences=(said,))))
    assert '<p class="found">it ended with exit code 1. It said last:</p>' in text
    assert '<summary>full message</summary><pre tabindex="0">Traceback\n  boom</pre>' in text


def test_experiments_of_one_name_are_told_apart():
    shown = table(suite(result(nodeid="a.py::test_x"), result(nodeid="b.py::test_x"), result("test_y")))
    assert [row[1] for row in shown.rows[1:]] == ["test_x a.py::test_x", "test_x b.py::test_x", "test_y"]


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (("pass",), "The experiment passed"),
        (("pass", "pass", "skipped"), "All 2 experiments passed"),
        (("pass", "fail", "inconclusive", "skipped"), "1 of 3 experiments failed"),
        (("inconclusive",), "1 of 1 experiment could not be decided"),
        (("pass", "accepted"), "1 of 2 experiments lost what is accepted"),
        (("skipped",), "No verdict: every experiment was skipped"),
        ((), "No verdict: no experiment had ended"),
    ],
)
def test_the_headline(verdicts, said):
    one = suite(*(result(f"test_{n}", verdict) for n, verdict in enumerate(verdicts)))
    assert suite_page.headline(one) == said
    text = suite_page.render(one)
    assert f"<h1>{said}</h1>" in text
    assert f"<title>{said} · chaoskit</title>" in text


@pytest.mark.parametrize(
    ("status", "said"),
    [("running", "This suite has no end"), ("interrupted", "This suite was interrupted"), ("finished", None)],
)
def test_how_it_ended(status, said):
    text = suite_page.render(suite(result(), status=status))
    assert (f'<p class="status">{said}' in text) if said else ('class="status"' not in text)


def test_totals_versions_and_machine():
    one = suite(
        result(launched=("warm",)), result("test_y", "fail"),
        created="2026-11-22T10:35:52.193+00:00", command=("chaoskit", "run", "--", "train", "{out}"),
        chaoskit="9.8", machine={"host": "node-7", "python": "3.11.7"},
        baselines={"a": BASELINE, "b": BASELINE},
    )  # fmt: skip
    text = html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", suite_page.render(one))))
    assert "2026-11-22 10:35 UTC · 2 experiments in 10.0 s, launched warm " in text
    assert "✗ 1 failed" in text and "✓ 1 passed" in text
    assert "chaoskit run -- train '{out}'" in text
    assert re.search(r"chaoskit 9.8 host node-7 python 3.11.7 torch 2.13", text)


def test_a_suite_of_unknown_making():
    text = suite_page.render(suite(result(), id="", created="", command=(), chaoskit="", machine={}))
    assert "UTC" not in text and "<dt>" not in text


def test_a_hostile_name_is_text():
    one = result(HOSTILE, "fail", nodeid=HOSTILE, codes=(HOSTILE,), sentences=(HOSTILE,), run=f"/runs/{HOSTILE}")
    shown = suite(one, replaced := result(HOSTILE), command=(HOSTILE,), machine={HOSTILE: HOSTILE}, id=HOSTILE)
    text = suite_page.render(shown, why={one.run: HOSTILE})
    assert replaced.name in html.unescape(text)
    assert text.count("<script>") == 1
    assert "<script>alert" not in text
    assert "a&b" not in text


def test_a_big_one_is_small():
    text = suite_page.render(suite(*(result(f"test_{n}", "fail") for n in range(300))))
    assert len(text) < 500_000
