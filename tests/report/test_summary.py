"""The summary for CI: Markdown in which every name and sentence is text, and which a CI system does not refuse."""

import re

import pytest

from chaoskit.report.machine import summary
from tests.studies.nights.made import HOSTILE, result, suite


def rows(text):
    return [line for line in text.splitlines() if re.match(r"\| [✓✗?–] ", line)]


def test_the_failures_are_first_and_in_full():
    sentence = "incarnation 1, rank 0: " + "RNG not restored; " * 20
    bad = result("test_bad", "fail", sentences=(sentence, "Another."), steps_lost=12, recovery_seconds=1.26)
    text = summary.markdown(suite(result("test_good"), result("test_open", "inconclusive"), bad))
    assert text.startswith(
        "### chaoskit: 1 problem in your job (3 experiments: 1 failed, 1 inconclusive, 1 passed)\n\n"
        "3 experiments in 10.0 s: 1 passed, 1 failed, "
    )
    assert text.index("1. <code>rng-not-restored</code> ") < text.index("| verdict |")
    first, second, third = rows(text)
    told = f"<code>rng-not-restored</code><br>{sentence.strip()}<br>Another."
    assert first == f"| ✗ fail | test_bad | {told} | 12 | 1.3 s | 2.0 s |"
    assert second == "| ? inconclusive | test_open |  | – | – | 2.0 s |"
    assert third.startswith("| ✓ pass | test_good |")
    assert (
        text.index(second) < text.index("<details><summary>1 passed</summary>\n\n| verdict |") < text.index(third)
    )


def test_when_all_passed_there_is_no_empty_table():
    text = summary.markdown(suite(result(), result("test_y", "skipped")))
    assert text.count("| verdict |") == 1
    assert "<details><summary>1 passed, 1 skipped</summary>" in text


def test_a_suite_without_experiments():
    assert summary.markdown(suite()).startswith(
        "### chaoskit: Nothing was tested (no experiment: none ran)\n\n0 experiments"
    )


def test_hostile_text_is_text():
    one = result(HOSTILE, "fail", codes=(HOSTILE,), sentences=(HOSTILE,))
    (row,) = rows(summary.markdown(suite(one)))
    assert row.count("|") == 7
    told = re.sub(r"<br>|</?code>", "", row)
    assert not re.search(r"[<>`*\[$\\]|\b_c_\b", told)
    assert "&#60;script&#62;alert(1)&#60;/script&#62;&#124;a&#38;b<br>&#35; &#95;c&#95; &#96;d&#96;" in row
    assert "&#92;x1b&#91;31mred" in row


@pytest.mark.parametrize("text", ["a\r\nb", "a\nb", " a \n b "])
def test_lines_become_breaks(text):
    assert "| a<br>b |" in summary.markdown(suite(result(verdict="fail", codes=(), sentences=(text,))))


def test_names_with_underscores_stay_readable():
    assert "| test_one_rank[a_b] |".replace("[", "&#91;") in summary.markdown(suite(result("test_one_rank[a_b]")))


def test_one_that_is_too_long_says_how_many_are_left_out():
    many = [result(f"test_{n}", "fail", sentences=("x" * 1000,)) for n in range(300)]
    text = summary.markdown(suite(*many, *(result(f"test_ok_{n}") for n in range(300))), limit=100_000)
    assert len(text.encode()) <= 100_000
    for symbol, least in (("✗", 80), ("✓", 0)):
        shown = sum(row.startswith(f"| {symbol}") for row in rows(text))
        assert shown >= least
        assert f"{300 - shown} more omitted, because the summary would be too long" in text
    assert "more: " not in summary.markdown(suite(*many))


def test_it_is_added_to_what_other_steps_wrote(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    for _ in range(2):
        summary.append(suite(result("\ud800", "fail")), path)
    text = path.read_text()
    assert text.startswith("before\n### chaoskit: ")
    assert text.count("### chaoskit: ") == 2


def test_what_others_wrote_counts(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("x" * (summary.LIMIT - 10_000))
    summary.append(suite(*(result(f"test_{n}", "fail", sentences=("x" * 500,)) for n in range(100))), path)
    assert path.stat().st_size <= summary.LIMIT
    assert "more omitted, because the summary would be too long" in path.read_text()
