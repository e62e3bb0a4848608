"""Where ranks have to stop at their gates for the faults that are still to come: no oftener than for these."""

from __future__ import annotations

import pytest

from chaoskit import faults
from chaoskit.engine.armed_fault import NEVER, ArmedFault, next_stop


def stop(rank, least, *schedule):
    armed = [ArmedFault(index, fault) for index, fault in enumerate(schedule)]
    return next_stop(armed, rank, world_size=2, least=least)


def test_a_victim_stops_before_its_step_and_nobody_else_does():
    kill = faults.kill(rank=1).at_step(25)
    assert stop(1, 0, kill) == stop(1, 24, kill) == 24 and stop(1, 25, kill) == stop(0, 0, kill) == NEVER


def test_of_several_the_next_one_counts_wherever_it_stands():
    schedule = faults.kill(rank=1).at_step(25), faults.kill(rank="all").at_step(22)
    assert [stop(1, least, *schedule) for least in (0, 22, 25)] == [21, 24, NEVER]
    assert [stop(0, least, *schedule) for least in (0, 22)] == [21, NEVER]


def test_whoever_comes_first_to_the_step_that_heals_stops_there():
    class Until(type(faults.noop().action)):
        heal_step = 30

    healed = faults.Fault(Until()).at_step(5)
    assert [stop(0, least, healed) for least in (0, 5, 30)] == [4, 29, NEVER]


@pytest.mark.parametrize(
    "fault",
    [
        faults.kill(rank=0).during_save(2), faults.kill(rank=0).after_save(2), faults.kill(rank=0).at_start(),
        faults.kill(rank=0).between_writes(1), faults.file_bitflip().before_relaunch(), faults.kill(rank=0).after(2),
    ],
    ids=str,
)  # fmt: skip
def test_what_comes_at_another_moment_needs_no_stop_before_a_step(fault):
    assert stop(0, 0, fault) == NEVER


@pytest.mark.parametrize("fault", [faults.exit(rank=0).after(2), faults.nan(rank=0).after(2)], ids=str)
def test_what_is_ordered_by_the_clock_has_to_be_handed_over_somewhere(fault):
    assert stop(0, 7, fault) == 7


def test_numbers_are_handed_over_ahead_and_recorded_from_the_step_before():
    for into, make, at in (
        ("loss", faults.nan, 23), ("parameter", faults.nan, 24), ("loss", faults.stale, 22), ("lr", faults.stale, 23)
    ):  # fmt: skip
        fault = make(rank=1, into=into).at_step(25)
        assert stop(1, 23, fault) == (at if at > 22 else NEVER) and stop(1, 0, fault) == stop(0, 0, fault) == 22
        assert stop(0, 23, fault) == NEVER
    recorded = ArmedFault(0, faults.nan(rank=1).at_step(25)).steps_to_record
    assert [recorded(step) for step in (23, 24, 25, 43, 44, 99)] == [0, 20, 19, 1, 0, 0]
    assert ArmedFault(0, faults.kill(rank=1).at_step(25)).steps_to_record(24) == 0
