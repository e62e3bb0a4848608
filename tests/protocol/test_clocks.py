"""Records of machines whose clocks differ, put beside each other: the reader puts their times right."""

from __future__ import annotations

import json

import pytest

from chaoskit.analysis.record.history import History
from chaoskit.environments.records import ranks
from chaoskit.protocol.events import Event, RecordGap, rank_events, read_events


@pytest.fixture
def write(tmp_path):
    """Write the events of one process, each a kind and the time that its machine's clock showed."""
    (tmp_path / "events").mkdir()

    def do(name, *events):
        lines = [json.dumps({"i": i, "t": t, "e": kind, **more}, separators=(",", ":")) for i, (kind, t, more) in
                 enumerate(events)]  # fmt: skip
        path = tmp_path / "events" / f"{name}.jsonl"
        path.write_text("\n".join(lines) + "\n")
        return path

    return do


def times(path):
    return [event.t for event in read_events(path) if isinstance(event, Event)]


def start(rank, t, *, node, launch=0, restart=0, pid=7, ticks=100):
    return "process.start", t, {
        "role": "rank", "rank": rank, "world": 2, "local_rank": 0, "launch": launch, "restart": restart, "pid": pid,
        "start": ticks, "node": node,
    }  # fmt: skip


def clock(t, offset):
    return "clock", t, {"offset": offset, "error": 0.001}


def step(n, t):
    return "step", t, {"n": n, "comp": {}, "losses": []}


def test_times_before_and_after_the_measurement_are_put_right(write):
    path = write("rank-0", start(0, 105.0, node="far"), clock(105.5, -5.0), step(1, 107.0))
    assert times(path) == [100.0, 100.5, 102.0]


def test_a_record_without_a_clock_stays_as_it_is(write):
    assert times(write("rank-0", start(0, 105.0, node=""), step(1, 107.0))) == [105.0, 107.0]


def test_what_only_looks_like_a_clock_moves_nothing(write):
    text = ("told", 3.0, {"line": '{"e":"clock","offset":9}'})
    assert times(write("rank-0", start(0, 1.0, node=""), text)) == [1.0, 3.0]
    # One that says nothing is a gap of the record.
    assert times(write("rank-1", start(1, 1.0, node=""), ("clock", 2.0, {"offset": "soon"}))) == [1.0]


def test_a_clock_line_that_was_cut_short_moves_nothing(write):
    path = write("rank-0", start(0, 1.0, node=""), clock(2.0, -5.0))
    path.write_bytes(path.read_bytes()[:-12])
    assert times(path) == [1.0]


@pytest.mark.parametrize("off", [5.0, -5.0])
def test_a_host_whose_clock_is_off_stands_in_the_right_order(write, tmp_path, off):
    """Both ranks take their steps in turn; the second one's machine shows a time that is `off`."""
    write("rank-0-0-0-7", start(0, 100.0, node="near"), step(1, 101.0), step(2, 103.0))
    far = [start(1, 100.5 + off, node="far"), clock(100.6 + off, -off), step(1, 102.0 + off), step(2, 104.0 + off)]
    write("rank-0-0-1-7.far", *far)
    steps = sorted(rank_events(tmp_path, "step"), key=lambda event: event.t)
    assert [(event.source, event["n"]) for event in steps] == [
        ("rank-0-0-0-7", 1), ("rank-0-0-1-7.far", 1), ("rank-0-0-0-7", 2), ("rank-0-0-1-7.far", 2),
    ]  # fmt: skip
    (incarnation,) = History.read(tmp_path).incarnations
    assert incarnation.start == 100.0 and incarnation.first_step == 101.0
    assert not any(isinstance(each, RecordGap) for each in read_events(tmp_path / "events" / "rank-0-0-1-7.far.jsonl"))


def test_a_rank_that_moved_to_another_machine_is_the_newer_one(write, tmp_path):
    """Its new machine has been up for less long, and its clock is behind."""
    write("rank-0-0-0-7.old", start(0, 900.0, node="old", ticks=90_000))
    write("rank-0-0-0-8.new", start(0, 4.0, node="new", pid=8, ticks=300), clock(4.1, 1000.0))
    assert ranks.seen(tmp_path, launch=0, ordered_by="t")[0].node == "new"
