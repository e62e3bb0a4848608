"""What ends a run once nothing is left to be seen."""

import json
import time

import pytest

from chaoskit.analysis.record import process_record
from chaoskit.engine.windows import window_watch
from chaoskit.engine.windows.window_watch import WindowWatch
from tests.analysis.windows.by_hand import killed, reference


def write(run, run_dir):
    """The record of a run as it would lie on the disk."""
    sources = {}
    for event in run.events:
        sources.setdefault(event.source, []).append({"i": 0, "t": event.t, "e": event.kind, **event.data})
    for source, events in sources.items():
        lines = [json.dumps({**event, "i": i}) for i, event in enumerate(events)]
        (run_dir / "events" / f"{source}.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture
def run_dir(tmp_path):
    (tmp_path / "events").mkdir()
    return tmp_path


def test_it_ends_once_the_job_equals_its_reference(run_dir):
    watch = WindowWatch(run_dir, reference(killed()))
    write(killed(until=29), run_dir)
    assert not watch.look(time.monotonic())
    write(killed(until=33), run_dir)
    assert not watch.look(time.monotonic()), "the next look is not due"
    assert watch.look(watch.next_look)


def test_it_does_not_end_one_that_differs(run_dir):
    watch = WindowWatch(run_dir, reference(killed()))
    write(killed(until=42, patch={(1, 41, "lr"): "odd"}), run_dir)
    assert not watch.look(time.monotonic())
    assert not WindowWatch(run_dir, reference(killed()), least=30).look(time.monotonic())


def test_where_nothing_was_recorded_since_nothing_is_read(run_dir, monkeypatch):
    watch = WindowWatch(run_dir, reference(killed()))
    write(killed(until=29), run_dir)
    watch.look(time.monotonic())
    monkeypatch.setattr(window_watch.History, "read", lambda _: pytest.fail("read once more"))
    assert not watch.look(watch.next_look)


def test_the_record_before_is_read_once(run_dir, monkeypatch):
    read, real = [], process_record.read_record
    monkeypatch.setattr(process_record, "read_record", lambda path: read.append(path.name) or real(path))
    watch = WindowWatch(run_dir, reference(killed()))
    write(killed(until=29), run_dir)
    assert not watch.look(time.monotonic())
    before = [name for name in read if name.startswith("rank-0-")]
    grown = next(iter(sorted((run_dir / "events").glob("rank-1-*"))))
    read.clear()
    with grown.open("a") as file:
        file.write("\n")
    assert not watch.look(watch.next_look)
    assert before and read == ["harness.jsonl", grown.name]


def test_a_look_that_takes_long_is_seldom(run_dir, monkeypatch):
    monkeypatch.setattr(window_watch, "converged", lambda *_, **__: time.sleep(0.2))
    watch = WindowWatch(run_dir, reference(killed()))
    write(killed(until=29), run_dir)
    now = time.monotonic()
    watch.look(now)
    assert watch.next_look - now >= 0.2 + 0.2 * window_watch.SHARE
