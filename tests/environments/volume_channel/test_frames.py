"""Frames in a file: whatever a reader sees of the file meanwhile, it takes every frame once, whole and in order."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.environments.volume_channel.frames import (
    LONGEST,
    ChannelFrame,
    FrameReader,
    FrameWriter,
    make_file,
    pack,
    unpack,
)

FRAMES = st.lists(
    st.builds(ChannelFrame, st.integers(1, 255), st.integers(0, 2**32 - 1), st.binary(max_size=40)),
    max_size=8,
)


@settings(max_examples=40)
@given(FRAMES, st.lists(st.integers(0, 500)))
def test_a_file_that_grows_by_any_pieces(frames, cuts):
    content, found = b"".join(map(pack, frames)), []
    with TemporaryDirectory() as directory:
        path = Path(directory) / "up"
        make_file(path)
        reader = FrameReader(path)
        for end in [*sorted(cuts), len(content)]:
            path.write_bytes(content[:end])
            found += reader.frames()
            assert found == frames[: len(found)]
        assert found == frames and reader.frames() == []


@given(FRAMES, st.lists(st.tuples(st.integers(0, 500), st.integers(1, 200))))
def test_zeros_where_a_piece_is_yet_to_come(frames, holes):
    """A file system may store the second half of a piece before the first: the file has its length, and zeros."""
    content = b"".join(map(pack, frames))
    torn = bytearray(content)
    for begin, size in holes:
        end = min(begin + size, len(torn))
        torn[begin:end] = bytes(max(0, end - begin))
    first, used = unpack(bytes(torn))
    assert first == frames[: len(first)]
    rest, more = unpack(content[used:])
    assert [*first, *rest] == frames and used + more == len(content)


@given(FRAMES, st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_byte_is_no_frame(frames, at, flip):
    content = bytearray(b"".join(map(pack, frames)))
    if content:
        content[at % len(content)] ^= flip
        assert len(unpack(bytes(content))[0]) < len(frames)


@pytest.fixture
def path(tmp_path):
    make_file(tmp_path / "up")
    return tmp_path / "up"


@pytest.mark.parametrize("fails", ["pwrite", "close"])
def test_what_could_not_be_stored_is_written_again_to_the_same_place(path, monkeypatch, fails):
    writer, reader = FrameWriter(path), FrameReader(path)
    writer.add(ChannelFrame(1, 1, b"one"))
    writer.hand_on()
    whole = {"pwrite": os.pwrite, "close": os.close}[fails]
    failures = iter(range(2))

    def fail(*args):
        if next(failures, None) is None:
            return whole(*args)
        whole(*((args[0], args[1][:7], args[2]) if fails == "pwrite" else args))
        raise OSError(28, "No space left on device")

    writer.add(ChannelFrame(1, 1, b"two"))
    for more in (b"three", b"four"):
        with monkeypatch.context() as patched:
            patched.setattr(os, fails, fail)
            with pytest.raises(OSError, match="No space"):
                writer.hand_on()
        writer.add(ChannelFrame(2, 7, more))
    writer.hand_on()
    assert [frame.data for frame in reader.frames()] == [b"one", b"two", b"three", b"four"]


def test_a_short_write_is_gone_on_with(path, monkeypatch):
    writer, whole = FrameWriter(path), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: whole(file, data[:5], at))
    writer.add(ChannelFrame(1, 1, b"x" * 100))
    writer.hand_on()
    assert FrameReader(path).frames() == [ChannelFrame(1, 1, b"x" * 100)]


def test_a_look_takes_long_frames_one_after_the_other(path):
    writer, reader = FrameWriter(path), FrameReader(path)
    frames = [ChannelFrame(1, n, bytes([n]) * LONGEST) for n in range(40)]
    for frame in frames:
        writer.add(frame)
    writer.hand_on()
    found = []
    while more := reader.frames():
        found += more
    assert found == frames


@pytest.mark.parametrize(("directory", "made"), [(0o700, 0o600), (0o777, 0o666)])
def test_a_file_is_for_those_whom_its_directory_is_for(tmp_path, directory, made):
    (tmp_path / "channel").mkdir()
    (tmp_path / "channel").chmod(directory)
    make_file(tmp_path / "channel" / "up")
    assert (tmp_path / "channel" / "up").stat().st_mode & 0o777 == made
    with pytest.raises(FileExistsError):
        make_file(tmp_path / "channel" / "up")
