"""The page and the Markdown of a certificate: each row with its state, and nothing of a job can break out of them."""

from dataclasses import replace

from chaoskit.report import certificate_words as words
from chaoskit.report.html import certificate_page
from chaoskit.report.machine.certificate_markdown import markdown
from chaoskit.studies.certificate.row import STATES
from tests.studies.certificate.test_certificate import made

NASTY = "<script>alert(1)</script> | `x`"


def mixed():
    """A certificate with a row of each state."""
    row = made().rows[0]
    known = {
        "failed": {"codes": ("rng-not-restored",)}, "accepted": {"reasons": {"rng-not-restored": "known"}},
        "not-tested": {"how": "run it"},
    }  # fmt: skip
    rows = tuple(
        replace(row, id=f"row-{state}", state=state, sentence=NASTY, **known.get(state, {})) for state in STATES
    )
    return made(rows=rows, job=NASTY, notes=(NASTY,))


def test_the_page_has_each_row_with_its_state_and_its_runs():
    text = certificate_page.render(mixed())
    for state, word in STATES.items():
        assert f'<tr id="row-{state}" data-state="{state}">' in text and word in text
    assert "chaoskit explain run-test_resume" in text and "chaoskit certify --verify" in text
    assert "How to test it: run it" in text and "not ready" in text
    assert "<script>alert" not in text


def test_the_markdown_has_each_row_on_one_line():
    text = markdown(mixed())
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == len(STATES) + 1 and all(line.count(" | ") == 3 for line in rows)
    assert "<script>" not in text and text.startswith("# ✗ not ready")


def test_the_headline_counts_each_state():
    assert words.headline(mixed()) == (
        "not ready: of 5 rows 1 proven, 1 failed, 1 accepted, 1 not tested, 1 does not apply"
    )
    assert words.figures(replace(made().rows[0], figures={"steps_lost": 4.0, "recovery_seconds": 2.44})) == (
        "steps lost at most (RPO) 4 steps, recovered within (RTO) 2.4 s"
    )
