"""The pace of each rank: what a straggler shows, and that nobody is called one by chance."""

import random

import pytest

from chaoskit.analysis.record.history import History
from chaoskit.analysis.recovery.throughput import slow_rank, stragglers, throughput
from chaoskit.protocol.events import Event

#: Seconds from step to step.
STEP = 0.1


def history(own, *, fault=None, steps=40, saves=()):
    """A run of as many ranks as there are in `own`: by rank, what a step says of its own work. The fault is active
    from one step to another. Rank 0 saves in these steps."""
    entries = []
    for rank, work in enumerate(own):
        source = f"rank-0-0-{rank}-{rank + 1}"

        def say(kind, t, source=source, **data):
            entries.append(Event(kind, t, source, data))

        say("process.start", 0.0, role="rank", rank=rank, launch=0, restart=0, pid=rank + 1, world=len(own), start=1)
        for n in range(1, steps + 1):
            known = {} if work(n) is None else {"own": work(n)}
            say("step", n * STEP, n=n, losses=[], state={}, **known)
            if rank == 0 and n in saves:
                begun = {"id": n, "n": n, "path": "a", "api": "torch.save"}
                say("save.begin", n * STEP + 0.01, **begun)
                say("save.end", n * STEP + 0.02, id=n, ok=True)
    entries.append(Event("launch.start", 0.0, "harness", {"launch": 0}))
    if fault is not None:
        what = {"text": "throttle rank 1", "action": {"kind": "throttle"}}
        entries.append(Event("fault.planned", 0.0, "harness", {"fault": 0, "what": what}))
        for kind, n in (("applied", fault[0]), ("observed", fault[0] + 1), ("healed", fault[1])):
            data = {"fault": 0, "evidence": {}}
            entries.append(Event(f"fault.{kind}", n * STEP - 0.001, "harness", data))
    return History.of(entries)


def of(found, rank, fault=None):
    return next(one for one in found if (one.rank, one.fault) == (rank, fault))


def test_a_straggler_is_slow_while_its_fault_lasts():
    run = history([lambda n: 0.03, lambda n: 0.09 if 10 < n <= 30 else 0.03, lambda n: 0.03], fault=(10, 31))
    found = throughput(run)
    assert [(one.rank, one.fault) for one in found] == [(0, 0), (1, 0), (2, 0), (0, None), (1, None), (2, None)]
    slow = of(found, 1, 0)
    assert slow.certain and slow.slower == pytest.approx(2 / 3) and slow.own_seconds == pytest.approx(0.09)
    assert stragglers(found) == (slow,)
    assert slow_rank(slow, run) == "rank 1 ran 67 % slower than its peers during 'throttle rank 1'"
    # Every rank takes as many steps per second: only the work tells them apart.
    assert {round(one.steps_per_second, 6) for one in found} == {1 / STEP}
    assert (slow.steps, of(found, 1).steps) == (20, 17)
    assert of(found, 1).slower == pytest.approx(0.0)
    assert of(found, 0, 0).slower < 0, "the peer of a straggler is faster, and not certain to be slower"


def test_without_a_difference_nobody_is_a_straggler():
    draw = random.Random(1)
    for _ in range(50):
        run = history([lambda n: draw.uniform(0.02, 0.05)] * 4)
        assert [one.rank for one in stragglers(throughput(run))] == []


def test_a_few_steps_prove_nothing():
    run = history([lambda n: 0.03, lambda n: 0.09], steps=6)
    found = throughput(run)
    assert of(found, 1).slower > 0.5 and not of(found, 1).certain and stragglers(found) == ()


def test_a_small_difference_is_certain_and_no_straggler():
    found = throughput(history([lambda n: 0.100, lambda n: 0.105]))
    assert of(found, 1).certain and stragglers(found) == ()


def test_who_saves_is_not_slow_for_that():
    saves = range(3, 40, 3)
    run = history([lambda n: 0.3 if n - 1 in saves else 0.03, lambda n: 0.03], saves=saves)
    assert stragglers(throughput(run)) == () and of(throughput(run), 0).slower == pytest.approx(0.0)


def test_what_is_not_known_is_not_made_up():
    found = throughput(history([lambda n: None, lambda n: 0.03]))
    assert of(found, 0).own_seconds is None and of(found, 0).slower is None and of(found, 1).slower is None
    assert of(found, 0).steps_per_second == pytest.approx(1 / STEP)
    (alone,) = throughput(history([lambda n: 0.03]))
    assert alone.slower is None and not alone.certain
    assert alone.to_json() == {
        "rank": 0, "fault": None, "steps": 39, "steps_per_second": 10.0, "own_seconds": 0.03, "slower": None,
        "certain": False,
    }  # fmt: skip
    assert throughput(History()) == ()
