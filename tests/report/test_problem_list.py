"""The list of problems in the terminal: short by default, whole with -v."""

import pytest

from chaoskit.engine.result import Result
from chaoskit.remedies import REMEDIES
from chaoskit.report.problem_words import in_short
from chaoskit.report.terminal import problem_list, table
from chaoskit.studies.problems.problem import Problem, Proof

RUN = "/store/runs/one"
LOST = Problem("rng-not-restored", "A stream is lost.", "Save it (all of it); and load it.", ("test_a",), run=RUN)
WEAK = Problem(
    "nonfinite-accepted", "It trained on nan.", "Stop (at once).", ("test_n",), weakness=True, run=RUN,
    repeat=f"chaoskit replay {RUN}",
)  # fmt: skip


def shown(*problems, **options):
    console = table.console_in_memory()
    problem_list.show(problems, (), [Result("test_a", "fail")], console, **options)
    return [line.rstrip() for line in table.printed(console).splitlines()]


def test_weaknesses_take_one_line_and_with_v_an_entry_each():
    short = shown(LOST, WEAK)
    assert "1 weakness: no guard against NaN (-v: what to change)" in short
    assert "   Change: Save it." in short and not [line for line in short if "Stop" in line]
    whole = shown(LOST, WEAK, verbose=True)
    at = whole.index("1 weakness")
    assert whole[at + 1 : at + 5] == [
        "-  nonfinite-accepted  It trained on nan.", "   Shown by test_n.", "   Change: Stop (at once).",
        f"   Repeat: chaoskit replay {RUN}",
    ]  # fmt: skip
    assert "   Change: Save it (all of it); and load it." in whole


def test_weaknesses_alone_are_listed_anyway():
    assert "   Change: Stop." in shown(WEAK)


def test_what_could_be_proven_and_was_not_says_how():
    assert f"   Prove: chaoskit prove {RUN}" in shown(LOST)
    # One command puts back all that a run has lost.
    both = shown(LOST, Problem(**{**LOST.__dict__, "code": "lr-schedule-off"}))
    assert len([line for line in both if "Prove:" in line]) == 1
    proven = Problem(**{**LOST.__dict__, "proof": Proof("proven", "with it put back, the run is exact")})
    for other in (
        proven,
        WEAK,
        Problem(**{**LOST.__dict__, "code": "hang"}),
        Problem(**{**LOST.__dict__, "run": ""}),
    ):
        assert not [line for line in shown(other) if "Prove:" in line]


@pytest.mark.parametrize("code", REMEDIES)
def test_a_short_advice_is_a_whole_sentence(code):
    advice = f"{REMEDIES[code]}."
    short = in_short(advice)
    assert short.endswith(".") and len(short) > 20 and short.count("(") == short.count(")")
    assert "; " not in short and " (" not in short
    assert in_short(f"{advice} {advice}") == f"{short} {short}"
