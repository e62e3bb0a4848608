"""What one file tells, and which files are read again."""

import os

import pytest

from chaoskit.analysis.record import process_record
from chaoskit.analysis.record.history import UNTOUCHED, History
from chaoskit.analysis.record.process_record import RecordFiles
from chaoskit.protocol.events import EventWriter

START = {"role": "rank", "world": 2, "launch": 0, "restart": 0}


def write(path, *, rank, steps):
    path.parent.mkdir(exist_ok=True)
    writer = EventWriter(path)
    writer.write("process.start", rank=rank, pid=rank + 1, **START)
    writer.write("rng0", stream="python", value=f"{rank}" * 32)
    for n in range(1, steps + 1):
        writer.write("step", n=n, losses=[float(n).hex()], state={"rng.python": f"{rank}" * 32, "model": f"m{n}"})
    writer.close()


@pytest.fixture
def paths(tmp_path):
    made = [tmp_path / "events" / f"rank-0-0-{rank}-{rank + 1}.jsonl" for rank in range(2)]
    for rank, path in enumerate(made):
        write(path, rank=rank, steps=3)
    return made


@pytest.fixture
def read(monkeypatch):
    """The files that were read."""
    found, real = [], process_record.read_record
    monkeypatch.setattr(process_record, "read_record", lambda path: found.append(path) or real(path))
    return found


def test_what_has_not_changed_is_not_read_again(tmp_path, paths, read):
    files = RecordFiles(keeps=True)
    first = History.read(tmp_path, files=files)
    write(paths[1].with_name("rank-1-0-1-9.jsonl"), rank=1, steps=1)
    with paths[0].open("ab") as file:
        file.write(b"damaged\n")
    again, fresh = History.read(tmp_path, files=files), History.read(tmp_path)
    assert read[:4] == [*paths, paths[0], paths[1].with_name("rank-1-0-1-9.jsonl")]
    assert first != again == fresh and [gap.line for gap in again.gaps] == [6]


def test_one_that_was_put_in_its_place_is_read(tmp_path, paths, read):
    files = RecordFiles(keeps=True)
    History.read(tmp_path, files=files)
    draft, about = tmp_path / "draft", os.stat(paths[0])
    draft.write_bytes(paths[0].read_bytes().replace(b"m2", b"m9"))
    os.utime(draft, ns=(about.st_atime_ns, about.st_mtime_ns))
    os.replace(draft, paths[0])
    assert History.read(tmp_path, files=files).incarnations[0].ranks[0].steps[1].components["model"] == "m9"


def test_a_history_changes_nothing_of_what_is_kept(tmp_path, paths):
    """It gives streams that nobody touched one name."""
    files = RecordFiles(keeps=True)
    histories = [History.read(tmp_path, files=files) for _ in range(2)]
    assert histories[0] == histories[1] == History.read(tmp_path)
    assert set(histories[1].incarnations[0].ranks[1].steps.columns["rng.python"]) == {UNTOUCHED}


def test_without_being_told_to_it_keeps_nothing(tmp_path, paths, read):
    files = RecordFiles()
    assert History.read(tmp_path, files=files) == History.read(tmp_path, files=files) and len(read) == 4
