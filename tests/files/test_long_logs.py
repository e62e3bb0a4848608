"""Of a long log the beginning and the end are kept, and it says how much is not."""

from __future__ import annotations

import os

import pytest

from chaoskit.files.long_logs import cut_middle, free_middle, logs_below

LIMIT = 64 << 10
LINES = [b"step %d\n" % number for number in range(40_000)]


@pytest.fixture
def log(tmp_path):
    (tmp_path / "launch-0.log").write_bytes(b"".join(LINES))
    return tmp_path / "launch-0.log"


def parts(log):
    """The lines before and after the one that says what is left out, and that."""
    lines = log.read_bytes().splitlines(keepends=True)
    (at,) = (at for at, line in enumerate(lines) if line.startswith(b"[chaoskit"))
    return lines[:at], lines[at], lines[at + 1 :]


def test_whole_lines_of_the_beginning_and_the_end_stay(log):
    size = log.stat().st_size
    left_out = cut_middle(log, limit=LIMIT)
    head, said, tail = parts(log)
    assert head == LINES[: len(head)] and tail == LINES[-len(tail) :]
    assert len(b"".join(head)) + len(b"".join(tail)) + left_out == size
    assert said == b"[chaoskit: %s bytes of this log are left out here]\n" % f"{left_out:,}".encode()
    assert LIMIT - 200 < log.stat().st_size < LIMIT + 200
    assert len(b"".join(tail)) > 2 * len(b"".join(head)), "what was printed last says why it ended"


def test_a_short_log_stays_as_it_is(log):
    before = log.read_bytes()
    free_middle(log, limit=len(before))
    assert cut_middle(log, limit=len(before)) == 0 and log.read_bytes() == before


def test_a_log_without_lines_is_cut_too(log):
    log.write_bytes(b"x" * 400_000)
    left_out = cut_middle(log, limit=LIMIT)
    assert left_out == 400_000 - LIMIT
    assert b"x\n[chaoskit: " in log.read_bytes()


def test_the_middle_is_freed_while_somebody_writes(log):
    """Who writes goes on at the place where he was, whether he appends or not."""
    with log.open("r+b") as writer:
        writer.seek(0, os.SEEK_END)
        before = log.stat()
        free_middle(log, limit=LIMIT)
        after = log.stat()
        assert after.st_size == before.st_size
        if after.st_blocks == before.st_blocks:
            pytest.skip("this file system cannot free the middle of a file")
        assert after.st_blocks * 512 <= LIMIT + 16384
        writer.write(b"the end\n")
    cut_middle(log, limit=LIMIT)
    head, _, tail = parts(log)
    assert head == LINES[: len(head)] and tail == [*LINES[-len(tail) + 1 :], b"the end\n"]
    assert b"\0" not in log.read_bytes()


def test_no_link_and_no_pipe_is_touched(log, tmp_path):
    other = tmp_path / "elsewhere"
    log.rename(other)
    log.symlink_to(other)
    os.mkfifo(tmp_path / "pipe.log")
    size = other.stat().st_size
    for path in (log, tmp_path / "pipe.log", tmp_path / "absent.log"):
        free_middle(path, limit=LIMIT)
        with pytest.raises(OSError):
            cut_middle(path, limit=LIMIT)
    assert other.stat().st_size == size


def test_logs_of_ranks_are_found_and_links_are_not_followed(tmp_path):
    (tmp_path / "logs" / "ranks" / "0").mkdir(parents=True)
    (tmp_path / "logs" / "launch-0.log").touch()
    (tmp_path / "logs" / "ranks" / "0" / "stdout.log").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "own.log").touch()
    (tmp_path / "logs" / "link").symlink_to(tmp_path / "elsewhere")
    found = [str(path.relative_to(tmp_path / "logs")) for path in logs_below(tmp_path / "logs")]
    assert sorted(found) == ["launch-0.log", "ranks/0/stdout.log"]
