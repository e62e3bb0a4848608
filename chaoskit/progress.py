"""`Progress`: what a long run is at: a line that changes on a terminal, one line a phase elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.status import Status


class Progress(Protocol):
    """Whoever runs something calls `phase` as each part of it begins."""

    def phase(self, text: str) -> None:
        """A part of the run begins: 'reference 1 of 2', 'kill rank 1 at step 25', 'judging'."""
        ...


class Quiet:
    """Says nothing."""

    def phase(self, text: str) -> None:
        """See `Progress`."""


class Lines:
    """One line a phase, for logs and pipes."""

    def __init__(self, stream: TextIO, label: str = "") -> None:
        self._stream = stream
        self._label = label

    def phase(self, text: str) -> None:
        """See `Progress`. A stream that is gone is no reason to lose the run."""
        try:
            self._stream.write(f"  {self._label}: {text}\n" if self._label else f"  {text}\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass

    def stop(self) -> None:
        """Nothing to take away."""


class Live:
    """One line with a spinner that changes in place, for a terminal; `stop` takes it away."""

    def __init__(self, stream: TextIO, label: str = "") -> None:
        self._stream = stream
        self._label = label
        self._status: Status | None = None

    def phase(self, text: str) -> None:
        """See `Progress`."""
        from rich.markup import escape

        shown = escape(f"{self._label}: {text}" if self._label else text)
        if self._status is not None:
            self._status.update(shown)
            return
        from rich.console import Console

        console = Console(file=self._stream, force_terminal=True)
        self._status = console.status(shown)
        self._status.start()

    def stop(self) -> None:
        """Leave the terminal as it was found."""
        if self._status is not None:
            self._status.stop()
            self._status = None


quiet = Quiet()


def progress_on(stream: TextIO, label: str = "") -> Live | Lines:
    """What suits the stream."""
    return Live(stream, label) if stream.isatty() else Lines(stream, label)
