"""How far a battery is, on a terminal and elsewhere."""

import os
import threading

import pytest

from chaoskit.cli.progress_board import Countdown, PhaseFile, ProgressBoard


def counted(total, *seconds, workers=1):
    made = Countdown(total, workers=workers)
    for each in seconds:
        made.ended(each)
    return str(made)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (counted(34), "0 of 34"),
        (counted(34, 60.0), "1 of 34"),
        # The first one of each worker has made the reference, or waited for it.
        (counted(34, 60.0, 60.0, workers=2), "2 of 34"),
        (counted(34, 60.0, 5.0, 5.0), "3 of 34, about 3 min left"),
        (counted(34, 60.0, 5.0, 5.0, workers=2), "3 of 34, about 1 min left"),
        (counted(5, 4.0, 4.0, 4.0), "3 of 5, less than a minute left"),
        (counted(2, 4.0, 4.0), "2 of 2"),
    ],
)
def test_what_is_left(said, shown):
    assert said == shown


@pytest.fixture
def terminal():
    """A terminal, and what has been written to it."""
    ours, theirs = os.openpty()
    written = []

    def read():
        try:
            while data := os.read(ours, 65536):
                written.append(data)
        except OSError:
            pass

    reader = threading.Thread(target=read)
    reader.start()
    stream = os.fdopen(theirs, "w")

    def said():
        if not stream.closed:
            stream.close()
        reader.join(10)
        return b"".join(written).decode()

    yield stream, said
    said()
    os.close(ours)


def test_the_line_shows_how_far_it_is_and_what_every_worker_does(terminal):
    stream, said = terminal
    board = ProgressBoard(stream)
    countdown = Countdown(3)
    board.start(countdown)
    one = PhaseFile(board.directory, "test_a")
    one.phase("relaunch 1 of 3")
    (board.directory / "other-worker").write_text("test_b: judging")
    assert board.text() == "0 of 3 · test_a: relaunch 1 of 3 · test_b: judging"
    one.stop()
    countdown.ended(2.0)
    assert board.text() == "1 of 3 · test_b: judging"
    board.say("  test_a: pass in 2.0 s")
    board.stop()
    assert "test_a: pass in 2.0 s" in said()
    assert not board.directory.exists()


def test_a_phase_past_the_end_of_the_board_is_no_error(terminal):
    stream, said = terminal
    board = ProgressBoard(stream)
    board.stop()
    late = PhaseFile(board.directory, "test_a")
    late.phase("judging")
    late.stop()
    assert said() == ""
