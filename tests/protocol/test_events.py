"""The writer and the reader of events: a line at a time, and at worst the last one lost."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.analysis.record.history import History
from chaoskit.protocol.events import Event, EventWriter, RecordGap, read_events

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
TAKEN = ("e", "t", "i", "kind", "self")
data = st.dictionaries(st.text().filter(lambda name: name not in TAKEN), json, max_size=4)


def write(path, *told):
    writer = EventWriter(path)
    for fields in told:
        writer.write("told", **fields)
    writer.close()


@settings(max_examples=40, deadline=None)
@given(st.lists(data, max_size=6))
def test_what_is_written_is_read_back(tmp_path_factory, told):
    path = tmp_path_factory.mktemp("events") / "rank-0.jsonl"
    write(path, *told)
    events = list(read_events(path))
    assert [event.data for event in events] == told
    assert all(event.kind == "told" and event.source == "rank-0" for event in events)
    assert [event.t for event in events] == sorted(event.t for event in events)


@settings(max_examples=40, deadline=None)
@given(st.lists(data, min_size=1, max_size=6), st.floats(0, 1))
def test_cut_anywhere_at_most_the_last_line_is_lost(tmp_path_factory, told, share):
    path = tmp_path_factory.mktemp("events") / "rank-0.jsonl"
    write(path, *told)
    whole = path.read_bytes()
    path.write_bytes(whole[: round(len(whole) * share)])
    complete = path.read_bytes().count(b"\n")
    read = list(read_events(path))
    assert all(isinstance(one, Event) for one in read)
    assert len(read) in (complete, complete + 1)
    assert [one.data for one in read] == told[: len(read)]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_whatever_make_the_reader_raise(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("events") / "x.jsonl"
    path.write_bytes(content)
    assert all(isinstance(one, (Event, RecordGap)) for one in read_events(path))


@pytest.mark.parametrize(
    "line",
    [b"{}", b"[]", b"3", b'{"e":1,"t":"x","i":0}', b'{"e":"a","t":1,"i":1e999}', b"\xff", b"[" * 100_000],
)
def test_a_damaged_line_is_a_gap(tmp_path, line):
    path = tmp_path / "x.jsonl"
    write(path, {"a": 1})
    path.write_bytes(line + b"\n" + path.read_bytes())
    read = list(read_events(path))
    assert read[0] == RecordGap("x", 1)
    assert read[1].data == {"a": 1}


def test_a_missing_line_is_a_gap(tmp_path):
    path = tmp_path / "x.jsonl"
    write(path, {"a": 1}, {"a": 2}, {"a": 3})
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    assert [type(one) for one in read_events(path)] == [Event, RecordGap, Event]


def test_a_closed_writer_does_not_write(tmp_path):
    writer = EventWriter(tmp_path / "x.jsonl")
    writer.close()
    writer.close()
    with pytest.raises(OSError):
        writer.write("late")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_told():
    writer = EventWriter("/dev/full")
    with pytest.raises(OSError):
        writer.write("told")
    writer.close()


def test_stages_of_a_fault_that_do_not_fit_together_are_a_gap(tmp_path):
    path = tmp_path / "harness.jsonl"
    writer = EventWriter(path)
    writer.write("fault.applied", fault=0, evidence={"rank": 1, "n": 5, "component": "model"})
    writer.write("fault.observed", fault=1, evidence={"launch": ["of another fault"]})
    writer.write("fault.observed", fault=0, evidence={"launch": [0]})
    writer.close()
    *events, gap = read_events(path)
    assert [event.kind for event in events] == ["fault.applied", "fault.observed"]
    assert (gap.line, gap.why) == (3, "evidence.launch must be a whole number, not a list")


def test_evidence_that_cannot_be_looked_up_is_evidence_of_no_number(tmp_path):
    path = tmp_path / "events" / "harness.jsonl"
    path.parent.mkdir()
    writer = EventWriter(path)
    writer.write("fault.applied", fault=0, evidence={"rank": 1, "launch": [0]})
    writer.close()
    (fault,) = History.read(tmp_path).faults
    assert fault.evidence == {"rank": 1, "launch": [0]}
