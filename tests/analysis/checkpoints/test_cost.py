"""What the saves of a record cost: by kind, with those that run behind, and what the record does not tell."""

from __future__ import annotations

from typing import Any

import pytest

from chaoskit.analysis.checkpoints.cost import CheckpointCost, checkpoint_cost
from chaoskit.analysis.record.history import History
from chaoskit.protocol.events import Event


class Ranks:
    """Records of ranks that step once a second, to which saves are added by the second."""

    def __init__(self, *, ranks: int = 1, steps: int = 40) -> None:
        self.events = [Event("launch.start", 0.0, "harness", {"launch": 0})]
        self.steps = steps
        self.late: dict[int, float] = {}
        self.ids = 0
        self.ranks = ranks

    def save(self, n: int, seconds: float, *, waits: float | None = None, rank: int = 0, **about: Any) -> Ranks:
        """A save after step `n` of these seconds; the next step is late by as much, or by `waits`."""
        self.ids += 1
        begun = n + sum(late for at, late in self.late.items() if at < n) + 0.25
        end = {name: about.pop(name) for name in ("files", "ok") if name in about}
        told = {"id": self.ids, "n": n, "path": f"step-{n}", "api": "torch.save", "full": True, **about}
        self.events += [
            Event("save.begin", begun, f"rank-{rank}", told),
            Event("save.end", begun + seconds, f"rank-{rank}", {"id": self.ids, "n": n, **end}),
        ]
        self.late[n] = max(self.late.get(n, 0.0), seconds if waits is None else waits)
        return self

    def cost(self) -> CheckpointCost:
        """Measured."""
        for rank in range(self.ranks):
            about = {"role": "rank", "rank": rank, "pid": 10 + rank, "launch": 0, "restart": 0, "world": self.ranks}
            self.events.append(Event("process.start", 0.1, f"rank-{rank}", about))
            for n in range(1, self.steps + 1):
                t = n + sum(late for at, late in self.late.items() if at < n)
                told = {"n": n, "losses": [], "state": {}}
                self.events.append(Event("step", t, f"rank-{rank}", told))
        return checkpoint_cost(History.of(sorted(self.events, key=lambda one: (one.source, one.t))))


def test_a_save_that_blocks_costs_its_own_time_and_the_size_of_its_files():
    cost = Ranks().save(10, 3.0, files={"": 700}).save(20, 5.0, files={"": 900}).save(30, 4.0, files={"": 800}).cost()
    (one,) = cost.saves
    assert (one.kind, one.saves, one.in_checkpoint, one.background) == ("torch.save", 3, True, False)
    assert one.blocking_seconds == one.whole_seconds == pytest.approx(4.0)
    assert (cost.blocking_seconds, cost.bytes) == (pytest.approx(4.0), 800)
    assert cost.interval_steps == 10 and cost.step_seconds == pytest.approx(1.0)


def test_a_save_in_the_background_costs_only_what_the_next_step_is_late_by():
    kind = "dcp.async_save"
    cost = Ranks().save(10, 6.0, waits=0.5, api=kind).save(20, 6.0, waits=0.5, api=kind).cost()
    (one,) = cost.saves
    assert one.background and cost.background
    # A quarter of a second of the way from step 10 to step 11 lies before the save.
    assert one.blocking_seconds == pytest.approx(0.25)
    assert one.whole_seconds == pytest.approx(6.0)


def test_a_thread_of_the_jobs_own_that_outlasts_the_next_step_is_seen_to_run_in_the_background():
    cost = Ranks().save(10, 6.0, waits=0.0).cost()
    assert cost.background and cost.blocking_seconds == 0.0


def test_the_slowest_rank_counts_and_a_file_that_two_ranks_list_counts_once():
    run = Ranks(ranks=2)
    run.save(10, 1.0, rank=0, files={"a": 10, "b": 20}).save(10, 4.0, rank=1, files={"b": 20, "c": 5})
    cost = run.cost()
    assert cost.ranks == 2
    assert (cost.blocking_seconds, cost.bytes) == (pytest.approx(4.0), 35)


def test_an_export_is_no_part_of_a_checkpoint_but_has_its_own_row():
    run = Ranks().save(10, 3.0, files={"": 9}).save(20, 3.0, files={"": 9})
    cost = run.save(40, 30.0, api="safetensors", full=False, files={"": 5}).cost()
    assert {one.kind: one.in_checkpoint for one in cost.saves} == {"safetensors": False, "torch.save": True}
    assert (cost.blocking_seconds, cost.bytes) == (pytest.approx(3.0), 9)


def test_a_small_file_beside_every_checkpoint_is_part_of_it():
    run = Ranks()
    for n in (10, 20):
        run.save(n, 3.0, api="dcp.save", files={"": 9}).save(n, 1.0, full=False, files={"": 1})
    assert run.cost().blocking_seconds == pytest.approx(4.0)
    assert run.cost().bytes == 10


def test_a_save_that_failed_and_one_before_the_first_step_do_not_count():
    cost = Ranks().save(0, 9.0).save(10, 9.0, ok=False).save(20, 2.0).cost()
    assert [(one.saves, one.blocking_seconds) for one in cost.saves] == [(1, pytest.approx(2.0))]


def test_what_the_record_does_not_tell_is_none():
    assert Ranks().cost() == CheckpointCost(1, step_seconds=1.0)
    cost = Ranks(steps=10).save(10, 6.0, api="dcp.async_save").cost()
    assert cost.blocking_seconds is None, "no step follows that could be late"
    assert cost.bytes is None and cost.interval_steps is None and cost.kept_bytes is None
    assert checkpoint_cost(History.of([])) == CheckpointCost(0)


def test_what_the_job_keeps_is_what_its_directory_has_at_the_end():
    run = Ranks().save(10, 1.0)
    run.events.append(Event("files", 99.0, "harness", {"launch": 0, "files": [["a.pt", 70], ["b.pt", 7]]}))
    run.events.append(Event("group", 0.2, "rank-0", {"backend": "gloo", "timeout": 120.0}))
    cost = run.cost()
    assert (cost.kept_bytes, cost.give_up_seconds) == (77, 120.0)
