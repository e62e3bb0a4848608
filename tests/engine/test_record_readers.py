"""Readers in processes of their own tell what is told here, in order; what they cannot do is done here."""

import pytest

from chaoskit.analysis.record.column import Column
from chaoskit.analysis.record.history import History
from chaoskit.engine import record_readers
from chaoskit.engine.record_readers import record_files
from chaoskit.protocol.events import EventWriter
from chaoskit.protocol.fingerprint import of_bytes

RANKS, STEPS = 5, 60


@pytest.fixture
def run_dir(tmp_path):
    (tmp_path / "events").mkdir()
    for rank in range(RANKS):
        writer = EventWriter(tmp_path / "events" / f"rank-0-0-{rank}-{rank + 1}.jsonl")
        writer.write("process.start", role="rank", rank=rank, pid=rank + 1, world=RANKS, launch=0, restart=0)
        for n in range(1, STEPS + 1):
            state = {"model": of_bytes(b"%d" % n), "batch": of_bytes(b"%d %d" % (rank, n))}
            writer.write("step", n=n, losses=[float(n).hex()], state=state, rows="1 2", samples=[])
        writer.write("probe.error", where="here", error="none")
        writer.close()
    harness = EventWriter(tmp_path / "events" / "harness.jsonl")
    harness.write("launch.start", launch=0, command=["train"])
    harness.write("run.end", status="finished")
    harness.close()
    with (tmp_path / "events" / "rank-0-0-3-4.jsonl").open("ab") as file:
        file.write(b"damaged\n")
    return tmp_path


@pytest.fixture
def here(monkeypatch):
    """The files that were read in this process, where every record is large."""
    found, real = [], record_readers.one_by_one
    monkeypatch.setattr(record_readers, "one_by_one", lambda paths: found.extend(paths) or real(paths))
    monkeypatch.setattr(record_readers, "LARGE", 0)
    monkeypatch.setattr(record_readers.os, "sched_getaffinity", lambda _: {0, 1})
    return found


def test_they_tell_what_is_told_here(run_dir, here):
    alone, history = History.read(run_dir), History.read(run_dir, files=record_files())
    assert here == [] and history == alone and [gap.line for gap in history.gaps] == [63]
    ranks = history.incarnations[0].ranks
    assert list(ranks) == list(range(RANKS)) and history.end == "finished"
    model, same = (ranks[rank].steps.columns["model"] for rank in (0, 4))
    assert isinstance(model, Column) and model.cells is same.cells, "replicas share their memory"


def test_a_run_that_did_the_same_shares_its_memory(run_dir, here):
    first, second = History.read_controls([run_dir, run_dir], files=record_files())
    assert second == first
    one, other = (history.incarnations[0].ranks[1].steps.columns["batch"] for history in (first, second))
    assert one.cells is other.cells


@pytest.mark.parametrize("executable", ["/no/such/python", "/bin/false", "/bin/cat"])
def test_what_they_cannot_do_is_done_here(run_dir, here, monkeypatch, executable):
    monkeypatch.setattr(record_readers.sys, "executable", executable)
    assert History.read(run_dir, files=record_files()) == History.read(run_dir)
    assert len(here) == RANKS + 1


def test_one_that_dies_is_done_without(run_dir, here, monkeypatch):
    real, asked = record_readers._ReaderProcess.answer, []

    def answer(self):
        asked.append(self)
        if len(asked) == 2:
            self._process.kill()
            self._process.wait()
        return real(self)

    monkeypatch.setattr(record_readers._ReaderProcess, "answer", answer)
    assert History.read(run_dir, files=record_files()) == History.read(run_dir)
    assert len(here) < RANKS


def test_a_small_record_starts_no_process(run_dir, here, monkeypatch):
    monkeypatch.setattr(record_readers, "LARGE", 1 << 20)
    monkeypatch.setattr(record_readers, "_ReaderProcess", lambda: pytest.fail("a process was started"))
    assert History.read(run_dir, files=record_files()).end == "finished" and len(here) == RANKS + 1


def test_nobody_is_left_behind(run_dir, here, monkeypatch):
    started = []
    real = record_readers._ReaderProcess.__init__
    monkeypatch.setattr(
        record_readers._ReaderProcess, "__init__", lambda self: (real(self), started.append(self._process))[0]
    )
    read = record_files().read(sorted((run_dir / "events").glob("*.jsonl")))
    next(read)
    read.close()
    assert len(started) == 2 and all(process.returncode is not None for process in started)
