"""The page of a suite in a browser: it is filtered, commands are copied, links unfold what they lead to."""

import pytest


def seen(page):
    """The experiments that show."""
    return [row.get_attribute("id") for row in page.locator("tr[data-codes]").all() if row.is_visible()]


@pytest.fixture
def page(pages, look):
    return look(pages["problems"])


def test_it_begins_with_the_problems_and_folds_the_experiments(page):
    assert seen(page) == [] and page.locator(".problem").count() == 3
    assert page.locator("details.group[open]").count() == 0
    assert page.evaluate("document.documentElement.scrollHeight") < 2600


def test_a_code_and_words_filter_it(page):
    page.get_by_label("code").select_option("torn-checkpoint")
    assert seen(page) == ["experiment-test_truncated", "experiment-test_torn_write"]
    assert page.locator("#filter output").inner_text() == "2 of 34 experiments"
    assert page.locator("details.group:visible").count() == 1
    page.get_by_label("text").fill("TORN write")
    assert seen(page) == ["experiment-test_torn_write"]
    page.get_by_label("text").fill("no such thing")
    assert seen(page) == [] and page.locator("#filter output").inner_text() == "0 of 34 experiments"
    page.get_by_label("code").select_option("")
    page.get_by_label("text").fill("")
    assert page.locator("details.group:visible").count() == 8 and page.locator("details.group[open]").count() == 0
    assert page.locator("#filter output").inner_text() == ""


def test_what_a_reader_had_unfolded_is_so_again(page):
    page.locator("#of-problem-rng-not-restored > summary").click()
    page.get_by_label("text").fill("truncated")
    page.get_by_label("text").fill("")
    assert [each.get_attribute("id") for each in page.locator("details.group[open]").all()] == [
        "of-problem-rng-not-restored"
    ]


def test_a_link_unfolds_what_it_leads_to(pages, look, page):
    page.get_by_role("link", name="test_resume").first.click()
    page.wait_for_function("document.querySelector('#of-problem-data-replayed').open")
    assert "experiment-test_resume" in seen(page)
    page.goto(f"{pages['problems'].as_uri()}#experiment-test_disk_full")
    page.reload()
    assert "experiment-test_disk_full" in seen(page)


def test_a_command_is_copied(page):
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { window.copied = text; }}})"
    )
    button = page.locator(".problem button.copy").first
    button.click()
    page.wait_for_function("document.querySelector('button.copy').textContent === 'copied'")
    assert (
        page.evaluate("copied")
        == "chaoskit run -k test_resume -- torchrun --nproc-per-node 2 train.py --out {out}"
    )


def test_where_nothing_may_be_copied_the_command_is_selected(page):
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.locator(".problem button.copy").first.click()
    assert page.evaluate("getSelection().toString()").startswith("chaoskit run -k test_resume")


def test_without_scripts_it_is_whole(pages, window):
    context = window.context.browser.new_context(java_script_enabled=False)
    try:
        bare = context.new_page()
        bare.goto(pages["problems"].as_uri())
        assert bare.locator(".problem").count() == 3 and not bare.locator("#filter").is_visible()
        assert not bare.locator("button.copy").first.is_visible()
        bare.locator("#of-problem-data-replayed > summary").click()
        assert bare.locator("#experiment-test_resume").is_visible()
    finally:
        context.close()


def test_the_axes_of_the_pictures_stay_in_sight_on_a_phone(pages, look):
    page = look(pages["passed"], screen="phone")
    for scroll in page.locator("#picture .scroll, #clock .scroll").all():
        if not scroll.locator(".axis").count():
            continue
        scroll.evaluate("box => { box.scrollLeft = 400; }")
        box, left = scroll.locator(".axis").first.bounding_box(), scroll.bounding_box()["x"]
        assert box["x"] == pytest.approx(left, abs=1) and box["width"] > 50
        assert scroll.locator(".axis text").first.is_visible()
    look(pages["passed"], screen="desktop")
    assert not page.locator(".axis").first.is_visible()


def test_the_axis_stands_where_that_of_the_picture_does(pages, look):
    page = look(pages["passed"], screen="phone")
    page.locator("#picture .scroll").first.evaluate("box => { box.scrollLeft = 0; }")
    own, axis = (page.locator(f"svg.{name} text").first.bounding_box() for name in ("losses", "axis"))
    assert own["x"] + own["width"] == pytest.approx(axis["x"] + axis["width"], abs=1)
    assert own["y"] == pytest.approx(axis["y"], abs=1)


def test_the_line_of_the_run_outweighs_that_of_the_reference(pages, look):
    page = look(pages["passed"])
    width = "line => parseFloat(getComputedStyle(line).strokeWidth)"
    run, reference = (page.locator(f".line.{name}").evaluate(width) for name in ("run", "reference"))
    assert run >= 2 * reference
