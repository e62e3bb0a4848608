"""A hang is told long before the deadline, and whoever is slow but alive is left alone. The clock is the test's own."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from chaoskit.analysis.recovery.pace import longest_quiet
from chaoskit.capabilities import Activity
from chaoskit.engine.hang_watch import BUSY, FLOOR, FLOOR_WITHOUT_REFERENCE, PACE, PRINTS, UNCLEAR, HangWatch
from tests.history_writer import Writer

TORCH = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
OWN = '  File "/x/train.py", line {} in step\n'
HEAD = "Current thread 0x1 (most recent call first):\n"
WAITS = f'{HEAD}  File "{TORCH}", line 1 in all_reduce\n{OWN.format(7)}'


def at(line):
    """The stack of a rank that waits for nobody."""
    return HEAD + OWN.format(line)


@dataclass
class Ranks:
    """What two ranks do, second by second; `changes` is asked every second to make them do something."""

    changes: object = None
    written: int = 0
    used: dict = field(default_factory=lambda: {0: 1.0, 1: 1.0})
    others: float = 0.0
    moved: int = 0
    printed: int = 0
    text: dict = field(default_factory=lambda: {0: WAITS, 1: WAITS})

    def said(self):
        return self.written

    def activity(self):
        return Activity(dict(self.used), self.others, self.moved, self.printed)

    def stacks(self):
        return dict(self.text)


class Phases(list):
    def phase(self, text):
        self.append(text)


def watch(ranks, *, seconds, reference=None, deadline=3600.0, least=None):
    """Watch them for so many seconds; the second at which they hang and what was found, and what was told."""
    told = Phases()
    begun = time.monotonic()
    own = HangWatch(ranks, reference=reference, deadline=begun + deadline, progress=told, least=least)
    for second in range(1, seconds + 1):
        if ranks.changes is not None:
            ranks.changes(ranks, second)
        hang = own.look(begun + second)
        if hang is not None:
            return second, hang, told
    return None, None, told


def reference(**options):
    return Writer(ranks=2, **options).case().reference


def test_ranks_that_wait_for_each_other_hang():
    second, hang, told = watch(Ranks(), seconds=200, reference=reference())
    assert FLOOR <= second < 1.5 * FLOOR
    assert hang.quiet >= FLOOR and hang.stacks == {0: WAITS, 1: WAITS}
    assert told and all("all ranks wait in all_reduce (train.py:7 in step)" in text for text in told)


def does(name, amount):
    """Something that grows every second."""

    def change(ranks, second):
        setattr(ranks, name, getattr(ranks, name) + amount)

    return change


def moves_on(ranks, second):
    """Rank 1 is in another line every ten seconds; rank 0 waits for it."""
    ranks.text = {0: WAITS, 1: at(second // 10)}


def one_moment(ranks, second):
    """Rank 1 was once elsewhere, and is back where it was."""
    ranks.text = {0: WAITS, 1: at(9) if 20 <= second <= 27 else at(8)}


def writes_now_and_then(ranks, second):
    ranks.written += second % 20 == 0


def starts_again(ranks, second):
    """Now one process lives, now another one."""
    ranks.used = {0: 1.0} if second % 12 < 6 else {0: 1.0, 1: 1.0}


ALIVE = {
    "it takes a step now and then": writes_now_and_then,
    "it evaluates": moves_on,
    "it writes a big checkpoint": does("moved", 1 << 20),
    "it downloads": does("moved", 1 << 16),
    "a process of it prepares data or compiles": does("others", 0.5),
    "its ranks come and go": starts_again,
}


@pytest.mark.parametrize("name", ALIVE)
def test_a_job_that_is_slow_but_does_something_does_not_hang(name):
    assert watch(Ranks(ALIVE[name]), seconds=900, reference=reference())[0] is None
    assert watch(Ranks(ALIVE[name]), seconds=900)[0] is None


def test_what_moved_once_is_given_all_the_time_again():
    alone = {0: WAITS, 1: at(8)}
    steady, _, _ = watch(Ranks(text=alone), seconds=900, reference=reference())
    moved, _, _ = watch(Ranks(one_moment, text=alone), seconds=900, reference=reference())
    assert moved > steady


def prints_now_and_then(ranks, second):
    ranks.printed += 60 * (second % 20 == 0)


def test_lines_of_output_alone_are_no_progress():
    """A thread of the job prints that it lives, while every rank waits."""
    assert watch(Ranks(prints_now_and_then), seconds=int(PRINTS * FLOOR), reference=reference())[0] is None
    second, _, told = watch(Ranks(prints_now_and_then), seconds=2000, reference=reference())
    assert second is not None and PRINTS * FLOOR <= second < 2 * PRINTS * FLOOR
    assert any(f"after {PRINTS * FLOOR:.0f} s that is a hang" in text for text in told)
    # Nobody knows how long a reference may wait for something, but less than for ever.
    assert watch(Ranks(prints_now_and_then), seconds=2000)[0] >= PRINTS * FLOOR_WITHOUT_REFERENCE


def computes(rank):
    def change(ranks, second):
        ranks.used[rank] += 1.0

    return change


def test_a_long_call_of_native_code_is_given_more_time():
    ranks = Ranks(computes(1), text={0: WAITS, 1: at(8)})
    assert watch(ranks, seconds=int(BUSY * FLOOR), reference=reference())[0] is None
    second, _, _ = watch(Ranks(computes(1), text={0: WAITS, 1: at(8)}), seconds=900, reference=reference())
    assert second is not None and second >= BUSY * FLOOR
    # Of a reference nobody knows how long its calls take.
    assert watch(Ranks(computes(1), text={0: WAITS, 1: at(8)}), seconds=1800)[0] is None


def test_who_computes_inside_a_collective_only_waits():
    """NCCL spins while it waits."""
    second, _, _ = watch(Ranks(computes(1)), seconds=900, reference=reference())
    assert second is not None and second < UNCLEAR * FLOOR


def test_a_rank_that_waits_for_nobody_is_given_more_time():
    """It may sleep before it tries again."""
    sleeping = {0: at(3), 1: at(3)}
    assert watch(Ranks(text=sleeping), seconds=int(UNCLEAR * FLOOR) - 1, reference=reference())[0] is None
    assert watch(Ranks(text=sleeping), seconds=900, reference=reference())[0] is not None


def test_a_rank_that_is_gone_is_given_more_time():
    """torchrun lets the other ranks live for 30 s."""
    ranks = Ranks(used={0: 1.0}, text={0: WAITS})
    second, _, _ = watch(ranks, seconds=900, reference=reference())
    assert second is not None and second >= UNCLEAR * FLOOR


def test_nothing_is_proved_by_a_rank_that_does_not_answer():
    silent = Ranks(text={0: WAITS})
    second, _, told = watch(silent, seconds=900, reference=reference())
    assert second is None and any("not every rank answers" in text for text in told)
    assert watch(Ranks(used={}, text={}), seconds=900, reference=reference())[0] is None


def paced(quiet):
    """A reference that was once quiet for so many seconds."""
    made = Writer(ranks=2).case().reference
    launch = made.controls[0].launches[0]
    lifetime = made.controls[0].incarnations[0].ranks[0]
    end = max(lifetime.steps.times[-1], launch.ended or 0.0)
    lifetime.left = end + quiet
    return made


def test_patience_follows_the_pace_of_the_reference():
    calm = paced(40.0)
    assert longest_quiet(calm.controls[0]) > 39.9
    assert watch(Ranks(), seconds=int(PACE * 40.0) - 1, reference=calm)[0] is None
    assert watch(Ranks(), seconds=900, reference=calm)[0] is not None


def limited(timeout):
    made = Writer(ranks=2).case().reference
    for lifetime in made.controls[0].incarnations[0].ranks.values():
        lifetime.group_timeout = timeout
    return made


def test_a_collective_that_will_give_up_is_waited_for():
    second, _, _ = watch(Ranks(), seconds=900, reference=limited(60.0), deadline=300)
    assert second is not None and second > 60.0
    # The deadline comes before that one does: it would end nothing.
    second, _, _ = watch(Ranks(), seconds=900, reference=limited(1800.0), deadline=300)
    assert second is not None and second < 1.5 * FLOOR


def test_a_reference_hangs_too_but_not_soon():
    second, _, told = watch(Ranks(), seconds=1800)
    assert second is not None and FLOOR_WITHOUT_REFERENCE <= second < 2 * FLOOR_WITHOUT_REFERENCE
    assert told and "all_reduce" in told[0]


def test_a_reference_is_judged_by_its_own_pace():
    """It was once quiet for 100 s, for a download; then it hangs."""
    ranks = Ranks(lambda ranks, second: setattr(ranks, "written", second >= 100))
    second, _, _ = watch(ranks, seconds=3600)
    assert second is not None and second >= 100 + PACE * 99


def test_what_was_told_is_taken_back_when_the_job_goes_on():
    ranks = Ranks(lambda ranks, second: setattr(ranks, "written", second >= 25))
    *_, told = watch(ranks, seconds=26, reference=reference())
    assert "nothing new" in told[0] and told[-1] == "the job goes on"


def test_an_environment_that_shows_no_activity_is_left_to_the_deadline():
    assert (
        HangWatch(object(), reference=None, deadline=60.0, progress=Phases()).look(time.monotonic() + 900) is None
    )


def test_a_job_that_ends_a_hang_by_itself_may_have_more_time():
    assert watch(Ranks(), seconds=299, reference=reference(), least=300.0)[0] is None
    assert watch(Ranks(), seconds=900, reference=reference(), least=300.0)[0] is not None
