"""Only regular files are read: nothing waits, nothing leads elsewhere, nothing is without end."""

import os
import socket

import pytest

from chaoskit.protocol import stored_files
from chaoskit.protocol.events import RecordGap, read_events
from chaoskit.protocol.stored_files import read_stored, read_value, why_unread


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "is a FIFO, not a file"),
        (os.mkdir, "is a directory, not a file"),
        (lambda path: os.symlink("/dev/zero", path), "is a link, and chaoskit follows none in a store"),
        (lambda path: os.symlink(path, path), "is a link, and chaoskit follows none in a store"),
        (lambda path: socket.socket(socket.AF_UNIX).bind(str(path)), "is a socket, not a file"),
        (lambda path: None, "cannot be read (No such file or directory)"),
    ],
    ids=["fifo", "directory", "device", "loop", "socket", "nothing"],
)
def test_what_is_no_regular_file_is_said(tmp_path, monkeypatch, make, said):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    make("x.jsonl")
    with pytest.raises(OSError) as caught:
        read_stored("x.jsonl")
    assert why_unread(caught.value) == said
    assert caught.value.filename == "x.jsonl"
    (gap,) = read_events(tmp_path / "x.jsonl")
    assert isinstance(gap, RecordGap) and str(gap) == f"the record of x is missing ({said})"


def test_what_is_too_long_was_not_written_by_chaoskit(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_stored(path, longest=5) == b"12345"
    with pytest.raises(OSError, match="has 5 bytes, more than chaoskit writes"):
        read_stored(path, longest=4)
    os.truncate(path, stored_files.LONGEST + 1)  # takes no space
    with pytest.raises(OSError, match="more than chaoskit writes"):
        read_stored(path)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"{", b"\xff", b"", b"1" * 5000], ids=lambda content: content[:3])
def test_what_is_no_json_is_a_value_error(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ValueError):
        read_value(path)
    path.write_text('{"a": [1]}')
    assert read_value(path) == {"a": [1]}
