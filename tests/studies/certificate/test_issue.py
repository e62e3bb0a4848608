"""Which suites give a certificate, and the sentence of each that does not."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaoskit.engine.run_store import Store
from chaoskit.errors import Inconclusive, UsageError
from chaoskit.studies.certificate.issue import issue
from chaoskit.studies.nights.conditions import Conditions
from tests.studies.certificate.by_hand import project, stored


@pytest.fixture
def kept(tmp_path):
    return Store(tmp_path / "store"), stored(tmp_path / "store", tmp_path / "home")


def test_a_certificate_says_what_it_is_of(kept, tmp_path):
    store, suite = kept
    made = issue([suite], store)
    assert made.job == suite.results[0].job and made.suites == (suite.id,)
    assert made.answer == "not-proven" and made.exit_code == 3
    assert set(made.evidence) == {Path(suite.results[0].runs[0]).name}
    assert list(made.basis.files) == [str(tmp_path / "home" / "train.py")]
    assert made.basis.versions["chaoskit"] == suite.chaoskit and made.environments == ("local, nodes: 1",)
    until = datetime.fromisoformat(made.valid_until) - datetime.fromisoformat(made.evidence_since)
    assert until == timedelta(days=30)


def test_no_suite_gives_no_certificate(kept):
    with pytest.raises(UsageError, match="needs a suite"):
        issue([], kept[0])


def test_an_old_suite_proves_nothing(kept):
    store, suite = kept
    with pytest.raises(Inconclusive, match=r"31 days old.*no row can be ticked"):
        issue([suite], store, now=datetime.now(UTC) + timedelta(days=31, hours=1))
    assert issue([suite], store, now=datetime.now(UTC) + timedelta(days=29))


@pytest.mark.parametrize(
    ("created", "said"), [("2999-01-01T00:00:00+00:00", "begins in the future"), ("x", "no date")]
)
def test_a_suite_of_an_impossible_date_is_refused(kept, created, said):
    store, suite = kept
    with pytest.raises(UsageError, match=said):
        issue([replace(suite, created=created)], store)


def test_the_oldest_suite_decides_how_long_it_is_valid(kept, tmp_path):
    store, suite = kept
    before = datetime.now(UTC) - timedelta(days=10)
    old = stored(tmp_path / "store", tmp_path / "home", ("test_control.py::test_control",), created=before)
    assert issue([suite, old], store).evidence_since[:10] == f"{before:%Y-%m-%d}"


def test_sources_that_changed_since_prove_nothing(kept, tmp_path):
    store, suite = kept
    (tmp_path / "home" / "train.py").write_text("print('another job')\n")
    with pytest.raises(Inconclusive, match=r"train.py has changed.*no row can be ticked"):
        issue([suite], store)
    (tmp_path / "home" / "train.py").unlink()
    with pytest.raises(Inconclusive, match=r"train.py is gone"):
        issue([suite], store)


def test_evidence_of_several_versions_of_the_sources_is_refused(kept, tmp_path):
    store, suite = kept
    other = Conditions({}, {"train.py": "12345678"})
    more = stored(tmp_path / "store", tmp_path / "home", ("test_control.py::test_control",), conditions=other)
    with pytest.raises(UsageError, match=r"several versions of the sources .train.py was .* and 12345678"):
        issue([suite, more], store)


def test_evidence_of_a_package_that_is_not_here_is_refused(tmp_path):
    home = tmp_path / "home"
    known = Conditions({}, {**project(home).sources, "torch": "9.9.9"})
    suite = stored(tmp_path / "store", home, conditions=known)
    with pytest.raises(Inconclusive, match=r"the package torch is .* and was 9.9.9"):
        issue([suite], Store(tmp_path / "store"))


@pytest.mark.parametrize(
    ("change", "said"),
    [({"chaoskit": "0.0.1"}, "2 versions of chaoskit"), ({"machine": {"host": "other"}}, "of 2 machines")],
)
def test_suites_of_several_versions_or_machines_are_refused(kept, change, said):
    store, suite = kept
    with pytest.raises(UsageError, match=said):
        issue([suite, replace(suite, **change)], store)


def test_a_suite_of_another_chaoskit_or_python_is_no_evidence_here(kept):
    store, suite = kept
    with pytest.raises(Inconclusive, match=r"chaoskit is .* here, and was 0.0.1"):
        issue([replace(suite, chaoskit="0.0.1")], store)
    with pytest.raises(Inconclusive, match=r"python is .* here, and was 3.0.0"):
        issue([replace(suite, machine={**suite.machine, "python": "3.0.0"})], store)


def test_what_is_missing_of_a_suite_is_said(kept, tmp_path):
    store, suite = kept
    assert "did not end" in issue([replace(suite, status="running")], store).notes[0]
    assert "was interrupted" in issue([replace(suite, status="interrupted")], store).notes[0]
    unrun = replace(suite.results[0], verdict="skipped", sentences=("not run: budget: it takes about 9 s",))
    (note,) = issue([replace(suite, results=(unrun, *suite.results))], store).notes
    assert note.endswith("had no time for 1 of 2 experiments")


def test_a_run_that_is_gone_leaves_its_rows_untested(kept, tmp_path):
    store, suite = kept
    more = stored(tmp_path / "store", tmp_path / "home", ("test_control.py::test_control",))
    shutil.rmtree(suite.results[0].runs[0])
    made = issue([suite, more], store)
    assert {row.state for row in made.rows if row.id not in ("rules", "rest")} == {"not-tested"}
    assert len(made.evidence) == 1
    shutil.rmtree(more.results[0].runs[0])
    with pytest.raises(Inconclusive, match="no run of these 2 suites is stored"):
        issue([suite, more], store)
