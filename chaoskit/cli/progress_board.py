"""`ProgressBoard`: how far a battery is, and what its experiments wait for: one line that changes on a terminal.

Experiments run in this process or in workers of pytest-xdist. Each writes its phase into a file of one directory; the
board, which only the controller has, reads them all as it draws.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TextIO

from chaoskit.cli.output import say
from chaoskit.files.removal import remove

if TYPE_CHECKING:
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

#: As often a second the line is drawn.
REFRESHES = 4


class Countdown:
    """'12 of 34, about 2 min left'. What is left takes as long as the median of what has ended. The first experiment of
    each worker does not count: it makes the reference, or waits for it."""

    def __init__(self, total: int, *, workers: int = 1) -> None:
        self.total = total
        self.workers = max(1, workers)
        self._seconds: list[float] = []

    def ended(self, seconds: float) -> None:
        """Take in an experiment that has ended."""
        self._seconds.append(seconds)

    @property
    def left(self) -> float | None:
        """The seconds that are left; None as long as no experiment has ended that began with a reference."""
        known = self._seconds[self.workers :]
        return max(0, self.total - len(self._seconds)) * median(known) / self.workers if known else None

    def __str__(self) -> str:
        counted = f"{len(self._seconds)} of {self.total}"
        if self.left is None or len(self._seconds) >= self.total:
            return counted
        minutes = round(self.left / 60)
        return f"{counted}, {f'about {minutes} min' if minutes else 'less than a minute'} left"


class PhaseFile:
    """Keeps the phase of one experiment where the board reads it; satisfies `Progress`."""

    def __init__(self, directory: Path, label: str) -> None:
        self._file = directory / str(os.getpid())
        self._label = label

    def phase(self, text: str) -> None:
        """See `Progress`. A board that is gone must not end the run."""
        draft = self._file.with_suffix(".draft")
        try:
            draft.write_text(f"{self._label}: {text}", encoding="utf-8", errors="backslashreplace")
            os.replace(draft, self._file)
        except OSError:
            pass

    def stop(self) -> None:
        """Remove the phase: the experiment has ended."""
        remove(self._file, within=self._file.parent)


class ProgressBoard:
    """The line on the terminal `stream`, from `start` to `stop`. `directory` is where experiments keep their phases."""

    def __init__(self, stream: TextIO) -> None:
        # pytest captures the terminal's own descriptor during a test.
        self._stream = os.fdopen(os.dup(stream.fileno()), "w")
        self.directory = Path(tempfile.mkdtemp(prefix="chaoskit-progress-"))
        self.countdown: Countdown | None = None
        self._live: Live | None = None
        self._spinner: Spinner | None = None

    def start(self, countdown: Countdown) -> None:
        """Begin to draw."""
        from rich.live import Live
        from rich.spinner import Spinner

        from chaoskit.engine.plain_console import PlainConsole

        self.countdown = countdown
        self._spinner = Spinner("dots")
        self._live = Live(
            console=PlainConsole(self._stream, force_terminal=True),
            get_renderable=self._drawn,
            refresh_per_second=REFRESHES,
            redirect_stdout=False,
            redirect_stderr=False,
            transient=True,
        )
        self._live.start()

    def say(self, text: str) -> None:
        """Print a line above."""
        if self._live is None:
            say(text, file=self._stream)
        else:
            from rich.text import Text

            self._live.console.print(Text(text), soft_wrap=True)

    def stop(self) -> None:
        """Remove the line, and the directory."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        remove(self.directory, within=self.directory.parent)
        self._stream.close()

    def text(self) -> str:
        """The line: how far the battery is, and what runs."""
        return " · ".join([str(self.countdown), *self._phases()])

    def _drawn(self) -> Text:
        from rich.text import Text

        from chaoskit.engine.terminal_text import printable

        assert self._spinner is not None
        frame = self._spinner.render(time.monotonic())
        return Text(f"{frame} {printable(self.text())}", no_wrap=True, overflow="ellipsis", end="")

    def _phases(self) -> Iterator[str]:
        for file in sorted(self.directory.glob("*")):
            try:
                if file.suffix != ".draft":
                    yield file.read_text(encoding="utf-8")
            except OSError:
                continue
