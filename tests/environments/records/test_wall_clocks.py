"""By how much the wall clocks of ranks have moved, read from what the ranks have recorded."""

from __future__ import annotations

import json
import time

import pytest

from chaoskit.environments.records.wall_clocks import WallClocks


class Rank:
    """The record of one process. Its file's times are `offset` before ours; its wall clock is as ours at first."""

    def __init__(self, run_dir, rank, node, *, offset=0.0, off=0.0, launch=0, t=10.0):
        self.path = run_dir / "events" / f"rank-{launch}-0-{rank}-{t}-{len(list(run_dir.rglob('*.jsonl')))}.jsonl"
        self.count, self.right = 0, time.time() - time.monotonic() + offset
        who = {"role": "rank", "rank": rank, "launch": launch, "restart": 0, **({"node": node} if node else {})}
        self.say("process.start", t=t, ahead=self.right + off, **who)
        if offset:
            self.say("clock", offset=offset, error=0.001)

    def say(self, kind, *, t=11.0, end="\n", **data):
        with self.path.open("a") as file:
            file.write(json.dumps({"i": self.count, "t": t, "e": kind, **data}, separators=(",", ":")) + end)
        self.count += 1

    def jumps(self, off):
        self.say("wall", ahead=self.right + off, jumped=off)


@pytest.fixture
def run_dir(tmp_path):
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "harness.jsonl").write_text("{}\n")
    return tmp_path


@pytest.fixture
def clocks(run_dir):
    return WallClocks(run_dir)


def near(found, ranks, others):
    for name, expected in (("ranks", ranks), ("others", others)):
        assert {rank: pytest.approx(off, abs=0.02) for rank, off in expected.items()} == found[name]


@pytest.mark.parametrize("offset", [0.0, 5000.0])
def test_a_jump_is_that_of_the_rank_that_recorded_it(run_dir, clocks, offset):
    one, two = Rank(run_dir, 0, "node0"), Rank(run_dir, 1, "node1", offset=offset)
    number = clocks.begin(["node1"])
    near(clocks.moved(number), {1: 0}, {0: 0})
    two.jumps(-600)
    near(clocks.moved(number), {1: -600}, {0: 0})
    one.jumps(7)
    near(clocks.moved(number), {1: -600}, {0: 7})


def test_what_jumped_before_and_what_is_right_again_does_not_hide_it(run_dir, clocks):
    one = Rank(run_dir, 0, "node0")
    one.jumps(-600)
    number = clocks.begin(["node0"])
    near(clocks.moved(number), {0: 0}, {})
    one.jumps(-595)
    one.jumps(-600)
    near(clocks.moved(number), {0: 5}, {})


@pytest.mark.parametrize("offset", [0.0, -5000.0])
def test_a_process_that_comes_up_later_is_compared_with_our_clock(run_dir, clocks, offset):
    Rank(run_dir, 0, "node0")
    number = clocks.begin(["node0"])
    Rank(run_dir, 0, "node0", offset=offset, off=60, launch=1)
    near(clocks.moved(number), {0: 60}, {})
    # The machines of other nodes may show another time by themselves.
    Rank(run_dir, 1, "node1", offset=offset, off=2, launch=1)
    near(clocks.moved(number), {0: 60}, {1: 0})


def test_earlier_incarnations_do_not_count(run_dir, clocks):
    Rank(run_dir, 1, "node0", t=10.0)
    Rank(run_dir, 1, "node1", t=20.0)
    number = clocks.begin(["node0"])
    assert clocks.moved(number)["ranks"] == {} and set(clocks.moved(number)["others"]) == {1}


def test_a_rank_without_a_node_is_on_the_only_one(run_dir, clocks):
    Rank(run_dir, 0, "").jumps(3)
    number = clocks.begin(["node0"])
    assert set(clocks.moved(number)["ranks"]) == {0}


def test_half_lines_and_foreign_ones_are_left_until_they_are_whole(run_dir, clocks):
    one = Rank(run_dir, 0, "node0")
    number = clocks.begin(["node0"])
    one.say("log", line='"e":"wall"')
    one.say("wall", ahead="soon")
    (run_dir / "events" / "rank-x.jsonl").write_text('{"e":"process.start"}\nno json\n')
    text = json.dumps({"i": 9, "t": 1.0, "e": "wall", "ahead": one.right + 9}, separators=(",", ":"))
    with one.path.open("a") as file:
        file.write(text[:20])
    near(clocks.moved(number), {0: 0}, {})
    with one.path.open("a") as file:
        file.write(text[20:] + "\n")
    near(clocks.moved(number), {0: 9}, {})
