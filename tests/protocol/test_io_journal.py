"""The journal of a job's storage, as a file: what is written is read, and what was cut short never happened."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.environments.fusefs.callers import Caller
from chaoskit.environments.fusefs.journal_writer import JournalWriter
from chaoskit.environments.fusefs.written_data import QUIET, WrittenDataStore
from chaoskit.protocol.io_journal import FORMAT, Journal, JournalError, Operation, to_line

NAMES = st.text(st.characters(codec="utf-8"), max_size=8) | st.just("\udcff\udcfe")
OPERATIONS = st.builds(
    Operation,
    n=st.integers(0, 9), t=st.floats(0, 1e6), kind=st.sampled_from(["create", "write", "rename", "fsync"]), path=NAMES,
    file=st.integers(0, 99), process=st.integers(0, 99), thread=st.integers(0, 99), session=st.integers(0, 99),
    to=st.none() | NAMES, offset=st.integers(0, 2**40), size=st.integers(0, 2**40), data=st.none() | st.integers(0, 9),
    mode=st.integers(0, 0o7777), replaced=st.none() | st.integers(0, 9), exchange=st.booleans(),
    since=st.integers(0, 9), only_data=st.booleans(),
)  # fmt: skip


def stored(place: Path, text: bytes, data: bytes = b"") -> Journal:
    directory = place / "journal"
    directory.mkdir(exist_ok=True)
    (directory / "operations.jsonl").write_bytes(text)
    (directory / "data").write_bytes(data)
    return Journal.read(place)


@given(operations=st.lists(OPERATIONS, max_size=5), cut=st.integers(0, 200))
def test_what_is_written_is_read_and_the_end_may_be_missing(tmp_path_factory, operations, cut):
    place = tmp_path_factory.mktemp("run")
    text = b"".join(map(to_line, operations))
    assert stored(place, text).operations == tuple(operations)
    short = text[: max(0, len(text) - cut)]
    assert stored(place, short).operations == tuple(operations[: short.count(b"\n")])


def test_another_format_and_what_is_no_operation_are_refused(tmp_path):
    with pytest.raises(JournalError, match="no journal"):
        Journal.read(tmp_path)
    assert stored(tmp_path, json.dumps({"format": FORMAT}).encode() + b"\n").operations == ()
    with pytest.raises(JournalError, match="format 99"):
        stored(tmp_path, b'{"format":99}\n')
    for line in (b"nonsense\n", b'{"n":0}\n', b'{"n":0,"t":1,"kind":"write","path":"a","file":1,"what":1}\n'):
        with pytest.raises(JournalError, match="line 1"):
            stored(tmp_path, line)


def test_bytes_that_were_not_kept_or_are_cut_short_are_not_made_up(tmp_path):
    told = {"n": 0, "t": 0.0, "kind": "write", "path": "a", "file": 1, "size": 3}
    journal = stored(tmp_path, b"", b"abcde")
    assert journal.bytes_of(Operation(**told, data=1)) == b"bcd"
    with pytest.raises(JournalError, match="not kept"):
        journal.bytes_of(Operation(**told))
    with pytest.raises(JournalError, match="cut short: 2 of 3"):
        journal.bytes_of(Operation(**told, data=3))


# Its writer.


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "journal").mkdir()
    return tmp_path / "journal"


def test_the_journalist_writes_what_the_journal_reads(tmp_path, directory):
    writer, archivist = JournalWriter(directory), WrittenDataStore(directory)
    writer.note("create", "a\udcff", 1, Caller(3, 2, 1), mode=0o644)
    archivist.keep(memoryview(b"other"), archivist.reserve(5))
    at = archivist.reserve(3)
    archivist.keep(memoryview(b"abc"), at)
    writer.note("write", "a\udcff", 1, Caller(), offset=5, size=3, data=at)
    writer.note("fsync", "a\udcff", 1, Caller(), since=2, only_data=False)
    journal = Journal.read(tmp_path)
    created, wrote, forced = journal.operations
    assert created == Operation(
        n=0, t=created.t, kind="create", path="a\udcff", file=1, process=2, thread=3, session=1, mode=0o644
    )
    assert (wrote.process, journal.bytes_of(wrote)) == (0, b"abc")
    assert (forced.n, forced.since, forced.only_data) == (2, 2, False)
    assert created.t <= wrote.t <= forced.t


def test_a_line_waits_for_its_operation_and_for_those_before_it(tmp_path, directory):
    writer = JournalWriter(directory)
    first = writer.note("write", "a", 1, Caller(), size=1, done=False)
    second = writer.note("write", "b", 2, Caller(), size=1, done=False)
    writer.note("rename", "a", 1, Caller(), to="c")
    assert (writer.count, Journal.read(tmp_path).operations) == (3, ())
    writer.settle(second)
    assert Journal.read(tmp_path).operations == ()
    writer.settle(first)
    assert [operation.path for operation in Journal.read(tmp_path).operations] == ["a", "b", "a"]


def test_what_is_kept_later_is_kept_in_the_end(directory):
    archivist, kept = WrittenDataStore(directory), []
    with archivist.undisturbed():
        for number in range(3):
            data = memoryview(bytes([number]) * 1000)
            archivist.keep_later(data, archivist.reserve(1000), lambda number=number: kept.append(number))
        time.sleep(3 * QUIET)
        assert kept == [], "the job waits for the disk"
    archivist.finish()
    assert kept == [0, 1, 2]
    assert (directory / "data").read_bytes() == b"".join(bytes([number]) * 1000 for number in range(3))


def test_what_is_kept_later_is_kept_when_it_is_quiet(directory, until):
    archivist, kept = WrittenDataStore(directory), []
    archivist.keep_later(memoryview(b"text"), archivist.reserve(4), lambda: kept.append(True))
    until(lambda: kept)
    assert (directory / "data").read_bytes() == b"text"


def test_not_too_much_waits(directory, monkeypatch, until):
    monkeypatch.setattr("chaoskit.environments.fusefs.written_data.MOST", 2000)
    archivist, kept = WrittenDataStore(directory), []
    with archivist.undisturbed():
        for _ in range(10):
            archivist.keep_later(memoryview(bytes(500)), archivist.reserve(500), lambda: kept.append(True))
        until(lambda: len(kept) >= 7)
    archivist.finish()
    assert len(kept) == 10


def test_a_journal_is_not_written_over(directory):
    for writer in (JournalWriter, WrittenDataStore):
        writer(directory)
        with pytest.raises(FileExistsError):
            writer(directory)
