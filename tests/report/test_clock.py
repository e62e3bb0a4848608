"""The clock shows launches, lives, faults and recoveries at their seconds."""

import pytest

from chaoskit.checks import Case
from chaoskit.report.svg.clock import clock, in_words
from tests.history_writer import Writer, killed


def spans(one):
    return {(span.kind, span.number): span for row in one.rows for span in row.spans}


def test_everything_stands_at_its_seconds():
    case = killed(at=25).case()
    found = spans(clock(case))
    assert set(found) == {("launch", 0), ("launch", 1), ("life", 0), ("life", 1), ("fault-time", 0)}
    assert found["launch", 0].begun == 0 and found["launch", 0].label == "exit 1"
    assert found["launch", 0].ended <= found["launch", 1].begun
    first, last = case.history.launches[0], case.history.launches[-1]
    assert found["launch", 1].ended == pytest.approx(last.ended - first.begun)
    assert found["fault-time", 0].text == "kill rank 1"


def test_what_follows_one_another_shares_a_row():
    assert [row.name for row in clock(killed().case()).rows] == ["launches", "lifetimes", "faults"]


def test_a_recovery_is_a_stack_of_its_phases():
    one = clock(killed(at=25).case())
    (stack,) = one.stacks
    assert stack.parts[0][1] == 0.0
    assert all(a == b for (_, _, a), (_, b, _) in zip(stack.parts, stack.parts[1:], strict=False))
    assert stack.parts[-1][2] == pytest.approx(stack.recovery.recovery_seconds)
    assert in_words(stack).startswith("kill rank 1: recovered in")


def test_what_was_ridden_out_and_what_never_came_back():
    (stack,) = clock(Writer().launch().live(pause=30, ends=True).exit(0).end().case()).stacks
    assert [name for name, *_ in stack.parts] == ["ridden-out"] and "no restart" in in_words(stack)
    one = clock(Writer().launch().live(until=25).fault().died().end("gave-up").case())
    (stack,) = one.stacks
    assert not stack.parts and not one.since_ticks and in_words(stack).endswith("took no further step")


def test_without_a_fault_there_is_no_recovery():
    one = clock(Writer().launch().live(ends=True).exit(0).end().case())
    assert not one.stacks and ("fault-time", 0) not in spans(one)


def test_a_life_without_a_step_is_here_if_nowhere_else():
    run = Writer().launch().live(until=25).fault().died()
    one = clock(run.launch().live(base=20, until=20).exit(1).end("gave-up").case())
    assert spans(one)["life stepless", 1].text == "incarnation 1: 2 of 2 ranks, no step"


@pytest.mark.parametrize("run", [Writer(), Writer().launch(), Writer().launch().live(until=3)])
def test_a_record_that_breaks_off(run):
    one = clock(Case(run.history(), None))
    assert one.height > 0 and one.description
