"""Remedies: what to change stands with what failed, once each, in the terminal."""

import io

from rich.console import Console

from chaoskit.engine import result
from chaoskit.engine.result import Result
from chaoskit.errors import CODES
from chaoskit.remedies import REMEDIES, remedies
from chaoskit.report.terminal import table
from chaoskit.verdict import failed, inconclusive, passed


def changes(*found):
    """The lines that say what to change, of results, or of the verdicts of one."""
    found = [result.of_verdicts("x", one) if isinstance(one, list) else one for one in found]
    console = Console(file=io.StringIO(), width=80, color_system=None)
    table.show(found, console)
    return [line.strip() for line in console.file.getvalue().splitlines() if line.startswith("  remedy")]


def test_each_code_of_what_failed_has_its_remedy():
    bad = failed("state_restored", "Lost.", "rng-not-restored", "lr-schedule-off")
    assert changes([bad]) == [f"remedy  {REMEDIES[code]}" for code in ("rng-not-restored", "lr-schedule-off")]
    assert changes([inconclusive("x", "Not seen.", "probe-blind")]) == [f"remedy  {REMEDIES['probe-blind']}"]


def test_a_remedy_is_shown_once_where_two_codes_or_two_checks_ask_for_it():
    both = [failed("same_data", "Twice.", "data-replayed"), failed("state_restored", "Off.", "data-replayed")]
    assert changes(both) == [f"remedy  {REMEDIES['data-replayed']}"]
    same = [code for code in REMEDIES if list(REMEDIES.values()).count(REMEDIES[code]) > 1] or ["hang", "hang"]
    assert list(remedies([*same, *same])) == [(same[0], REMEDIES[same[0]])]


def test_what_passed_and_what_has_a_code_of_a_later_chaoskit_has_none():
    assert changes([passed("completed", "It ended.")]) == []
    found = Result("x", "fail", codes=("gone-to-the-moon", "hang"), sentences=("Odd.",))
    assert changes(found) == [f"remedy  {REMEDIES['hang']}"]


def test_remedies_are_clauses_that_a_sentence_can_end_with():
    for code, remedy in REMEDIES.items():
        assert code in CODES and not remedy.endswith(".") and remedy.isprintable() and remedy[0].islower(), code
