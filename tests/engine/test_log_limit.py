"""What a job prints does not fill the disk, and what is left out is said."""

from __future__ import annotations

import pytest

from chaoskit.analysis.record.history import History
from chaoskit.engine.log_limit import LOOK_EVERY, LogLimit
from chaoskit.protocol.events import EventWriter

LIMIT = 64 << 10


@pytest.fixture
def run_dir(tmp_path):
    for part in ("events", "logs/ranks/launch-0"):
        (tmp_path / part).mkdir(parents=True)
    return tmp_path


def test_what_is_left_out_is_in_the_record(run_dir):
    writer = EventWriter(run_dir / "events" / "harness.jsonl")
    limit = LogLimit(run_dir, writer, limit=LIMIT)
    (run_dir / "logs" / "launch-0.log").write_bytes(b"a line\n" * 100_000)
    (run_dir / "logs" / "ranks" / "launch-0" / "stdout.log").write_bytes(b"short\n")
    limit.look(10.0)
    assert limit.timers() == [10.0 + LOOK_EVERY]
    assert (run_dir / "logs" / "launch-0.log").stat().st_size == 700_000
    limit.end()
    writer.close()
    (cut,) = History.read(run_dir).cut_logs
    assert (cut.file, cut.limit) == ("logs/launch-0.log", LIMIT) and 630_000 < cut.left_out < 640_000
    assert (run_dir / "logs" / "launch-0.log").stat().st_size < LIMIT + 200


def test_it_looks_only_when_that_is_due(run_dir, monkeypatch):
    looked = []
    monkeypatch.setattr("chaoskit.files.long_logs.logs_below", lambda place: looked.append(place) or ())
    limit = LogLimit(run_dir, None)
    for now in (10.0, 10.5, 10.9, 11.0, 11.1):
        limit.look(now)
    assert len(looked) == 2
