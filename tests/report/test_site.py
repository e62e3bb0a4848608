"""The pages of a suite lead from one run to the next, past those that have no page."""

import re

import pytest

from chaoskit.engine.result import of_runs
from chaoskit.engine.run_store import Store
from chaoskit.report.html import site
from chaoskit.studies.problems.problem import Problem
from tests.report.browser.stored import optimizer, passed, stored
from tests.studies.nights.made import suite


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / ".chaoskit")


def steps(page):
    text = page.read_text()
    return dict(re.findall(r'<a rel="(prev|next)" href="([^"]+)"', text))


def runs_of(store):
    told = {"test_a": passed, "test_b": optimizer, "test_c": passed, "test_d": optimizer}
    return {name: stored(store, tell(), experiment=name) for name, tell in told.items()}


def results(runs):
    return [of_runs(name, [run]) for name, run in runs.items()]


def test_the_pages_are_in_the_order_of_the_index(store, tmp_path):
    runs = runs_of(store)
    made = site.write(suite(*results(runs)), tmp_path / "pages", store=store)
    # Failures first.
    order = [runs[name].id for name in ("test_b", "test_d", "test_a", "test_c")]
    assert [page.stem for page in made.pages] == order
    first, second, third, last = made.pages
    assert steps(first) == {"next": f"{order[1]}.html"}
    assert steps(second) == {"prev": f"{order[0]}.html", "next": f"{order[2]}.html"}
    assert steps(last) == {"prev": f"{order[2]}.html"}
    assert "← test_d" in third.read_text() and "test_c →" in third.read_text()


def test_a_run_that_cannot_be_read_is_stepped_over(store, tmp_path):
    runs = runs_of(store)
    told = results(runs)
    (runs["test_d"].dir / "run.json").write_text("{")
    made = site.write(suite(*told), tmp_path / "pages", store=store)
    assert len(made.pages) == 3 and len(made.damaged) == 1
    names = {page.name for page in made.pages}
    assert {link for page in made.pages for link in steps(page).values()} <= names
    assert steps(made.pages[0]) == {"next": made.pages[1].name}
    assert steps(made.pages[1])["prev"] == made.pages[0].name


def test_the_problems_are_handed_on(store, tmp_path):
    runs = runs_of(store)
    one = Problem("optimizer-not-restored", "The optimizer begins anew.", "save it", ("test_d", "test_b"))
    made = site.write(suite(*results(runs)), tmp_path / "pages", store=store, problems=[one])
    assert "<h1>1 problem in your job</h1>" in made.index.read_text()
    assert [page.stem for page in made.pages][:2] == [runs["test_d"].id, runs["test_b"].id]
    # And back: from a run to its row.
    assert 'href="../index.html#experiment-test_d"' in made.pages[0].read_text()
    assert 'id="experiment-test_d"' in made.index.read_text()
