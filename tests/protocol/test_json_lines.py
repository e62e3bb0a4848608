"""JSON lines: what is written is read back, and damage costs the damaged lines alone."""

import errno
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.protocol import json_lines
from chaoskit.protocol.json_lines import LineBuffer, LineWriter

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
several = st.lists(values, max_size=6)


def text(told):
    return b"".join(map(json_lines.encode, told))


@given(several)
def test_what_is_encoded_is_decoded(told):
    lines = list(json_lines.decode(text(told)))
    assert [line.value for line in lines] == told
    assert [line.number for line in lines] == list(range(1, len(told) + 1))
    assert all(line.ended and line.error is None for line in lines)


@given(several, st.data())
def test_cut_anywhere_only_the_last_line_is_lost(told, data):
    whole = text(told)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    lines = list(json_lines.decode(cut))
    complete = cut.count(b"\n")
    assert [line.value for line in lines[:complete]] == told[:complete]
    assert all(line.error is None for line in lines), "what was cut short is left out, not reported"
    # A number may be valid JSON when it is cut: then it is there, and it says that it has no end.
    assert all(not line.ended for line in lines[complete:]) and len(lines) <= complete + 1


@given(several, several, st.binary(max_size=20).filter(lambda junk: b"\n" not in junk))
def test_a_damaged_line_costs_no_other(before, after, junk):
    lines = list(json_lines.decode(text(before) + junk + b"\n" + text(after)))
    others = [line for line in lines if line.number != len(before) + 1]
    assert [line.value for line in others] == before + after and not any(line.error for line in others)


@pytest.mark.parametrize("line", [b"{", b"\xff", b'"\xc3"', b"[" * 100_000, b"nan"])
def test_a_damaged_line_is_reported(line):
    first, second = json_lines.decode(line + b"\n{}\n")
    assert (first.number, first.value, first.ended) == (1, None, True) and first.error is not None
    assert second == (2, {}, None, True)


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_raise(content):
    assert all(line.number >= 1 for line in json_lines.decode(content))


@given(several, st.data())
def test_a_stream_in_any_pieces_has_the_same_lines(told, data):
    whole, buffer, found = text(told), LineBuffer(), []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        found += buffer.feed(whole[:size])
        whole = whole[size:]
    assert [json.loads(line) for line in found] == told and buffer.rest == b""


def test_lines_are_appended_and_nothing_is_overwritten(tmp_path):
    path = tmp_path / "a.jsonl"
    for told in ({"a": 1}, {"a": 2}):
        writer = LineWriter(path)
        writer.write(told)
        writer.close()
        writer.close()
    assert path.read_bytes() == b'{"a":1}\n{"a":2}\n'
    with pytest.raises(OSError):
        writer.write({"a": 3})


def test_after_a_line_that_was_cut_short_a_new_one_begins(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a":1}\n{"a":')
    writer = LineWriter(path)
    writer.write({"a": 2})
    writer.write({"a": 3})
    first, torn, *others = json_lines.read(path)
    assert first.value == {"a": 1} and torn.error is not None and torn.number == 2
    assert [line.value for line in others] == [{"a": 2}, {"a": 3}]


def test_a_line_that_the_disk_takes_in_part_is_an_error(tmp_path, monkeypatch):
    writer, real = LineWriter(tmp_path / "a.jsonl"), os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    with pytest.raises(OSError) as raised:
        writer.write({"a": 1})
    assert raised.value.errno == errno.ENOSPC
    assert list(json_lines.read(tmp_path / "a.jsonl")) == []


def test_what_is_not_json_is_refused_and_writes_nothing(tmp_path):
    writer = LineWriter(tmp_path / "a.jsonl")
    with pytest.raises(TypeError):
        writer.write({"a": object()})
    assert (tmp_path / "a.jsonl").read_bytes() == b""


def test_a_descriptor_that_was_closed_is_opened_again_and_its_number_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own, writer = tmp_path / "own", LineWriter("lines")
    monkeypatch.chdir("/")
    writer.write(1)
    for value in (2, 3):
        number = writer._file.fd
        os.close(number)
        taken = os.open(own, os.O_RDWR | os.O_CREAT)
        assert taken == number
        if value == 2:
            writer.write(value)
        else:
            writer.close()
        os.fstat(taken)
    assert writer.opened == 2 and own.read_bytes() == b""
    assert (tmp_path / "lines").read_text() == "1\n2\n"
    with pytest.raises(OSError):
        writer.write(4)
