"""`Progress`: shows the phase of a long run: a line that changes on a terminal, one line for each phase elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TextIO

from chaoskit.engine.terminal_text import printable

if TYPE_CHECKING:
    from rich.status import Status


class Progress(Protocol):
    """The code that runs something calls `phase` as each part begins."""

    def phase(self, text: str) -> None:
        """Show that a part begins: 'reference 1 of 2', 'kill rank 1 at step 25', 'judging'."""
        ...


class Quiet:
    """Shows nothing."""

    def phase(self, text: str) -> None:
        """See `Progress`."""


class PhaseLines:
    """Writes one line for each phase, for logs and pipes."""

    def __init__(self, stream: TextIO, label: str = "") -> None:
        self._stream = stream
        self._label = label

    def phase(self, text: str) -> None:
        """See `Progress`. A stream that is closed must not end the run."""
        try:
            self._stream.write(f"  {printable(f'{self._label}: {text}' if self._label else text)}\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass

    def stop(self) -> None:
        """Do nothing: there is no spinner."""


class Live:
    """Shows one line with a spinner on a terminal; `stop` removes it."""

    def __init__(self, stream: TextIO, label: str = "") -> None:
        self._stream = stream
        self._label = label
        self._status: Status | None = None

    def phase(self, text: str) -> None:
        """See `Progress`."""
        from rich.text import Text

        shown = Text(printable(f"{self._label}: {text}" if self._label else text))
        if self._status is not None:
            self._status.update(shown)
            return
        from chaoskit.engine.plain_console import PlainConsole

        console = PlainConsole(self._stream, force_terminal=True)
        self._status = console.status(shown)
        self._status.start()

    def stop(self) -> None:
        """Remove the spinner."""
        if self._status is not None:
            self._status.stop()
            self._status = None


quiet = Quiet()


def progress_on(stream: TextIO, label: str = "") -> Live | PhaseLines:
    """The progress that suits the stream: a spinner on a terminal, else lines."""
    return Live(stream, label) if stream.isatty() else PhaseLines(stream, label)
