"""Tables that sort: under the pointer and with a keyboard, and told to those who cannot see it."""

import pytest


@pytest.fixture
def table(pages, look):
    return look(pages["suite"]).locator("table.sortable").first


def column(table, number):
    """The texts of a column, from the top."""
    return [cell.inner_text().strip() for cell in table.locator(f"tbody tr > :nth-child({number + 1})").all()]


def heads(table):
    return table.locator("thead th").all()


def test_failures_come_first(pages, look):
    page = look(pages["suite"])
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    verdicts = [text.split()[1] for text in page.locator(".experiments tbody .verdict").all_inner_texts()]
    assert verdicts == sorted(verdicts, key=["fail", "inconclusive", "pass", "skipped"].index)
    assert {"fail", "pass"} <= set(verdicts)


def test_numbers_are_told_for_people(table):
    said = " ".join(column(table, 1))
    assert "first wrong loss at step" in said and "0x1" not in said


def test_the_keyboard_sorts_both_ways(table):
    page = table.page
    for number, head in enumerate(heads(table)):
        button = head.get_by_role("button")
        if not button.count():
            continue
        button.focus()
        before = len(column(table, number))
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        up = column(table, number)
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        down = column(table, number)
        assert sorted(up) == sorted(down) and len(up) == before
        assert [other.get_attribute("aria-sort") for other in heads(table)].count(None) == len(heads(table)) - 1


def test_numbers_are_sorted_as_numbers(look, tmp_path):
    from chaoskit.report.html import page

    template = page.environment().from_string(
        '{% extends "base.html.j2" %}{% block main %}<table class="sortable"><thead><tr><th>n</th></tr></thead><tbody>'
        '{% for n in [10, 9, 100] %}<tr><td data-value="{{ n }}">{{ n }} s</td></tr>{% endfor %}'
        '<tr><td data-value="">–</td></tr></tbody></table>{% endblock %}'
    )
    target = tmp_path / "numbers.html"
    target.write_text(template.render())
    found = look(target).locator("table")
    found.get_by_role("button").click()
    assert column(found, 0) == ["9 s", "10 s", "100 s", "–"]
    found.get_by_role("button").click()
    assert column(found, 0) == ["100 s", "10 s", "9 s", "–"]


def test_a_wide_table_scrolls_in_its_box_with_the_arrows(pages, look):
    page = look(pages["passed"], screen="phone")
    box = page.locator("#picture .scroll").first
    assert box.evaluate("box => box.scrollWidth > box.clientWidth") and box.get_attribute("aria-label")
    box.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('#picture .scroll').scrollLeft > 0")


def test_what_is_folded_unfolds_with_a_key(pages, look):
    page = look(pages["passed"])
    fold = page.locator("details").first
    fold.locator("summary").focus()
    page.keyboard.press("Enter")
    assert fold.get_attribute("open") is not None
