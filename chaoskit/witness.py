"""The witness: the job's own log, read after a run, and what it says of steps and losses put into the record.

A log is what a job printed: torchrun keeps it by rank and restart under `logs/ranks/`, whole lines and nothing else.
Where it does not, there is `logs/launch-<n>.log`, into which everybody writes. Or it is one document that the job keeps
in its own directory. A line without an end was cut short and tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path

from chaoskit.events import EventWriter
from chaoskit.history import LogLine
from chaoskit.job import Job, log_pattern

#: So many lines are put into the record, and no more.
LINES = 100_000
#: What torchrun, or a rank, writes before a line to say whose it is.
_PREFIX = re.compile(r"^\[(?:default|rank)(\d+)\]: ?")


def testify(run_dir: Path, job: Job, writer: EventWriter) -> None:
    """Write an event `log` for each line that the job's `log_regex` finds; nothing for a job that has none."""
    if job.log_regex is None:
        return
    pattern = log_pattern(job.log_regex)
    if job.log_file is not None:
        told = _Page(run_dir / "out" / job.log_file).lines(pattern)
    else:
        launches = len(list((run_dir / "logs").glob("launch-*.log")))
        told = chain.from_iterable(_of_launch(run_dir / "logs", launch, pattern) for launch in range(launches))
    for line in islice(told, LINES):
        writer.write("log", **asdict(line))


def _of_launch(logs: Path, launch: int, pattern: re.Pattern[str]) -> Iterator[LogLine]:
    """What the ranks' own logs tell, or the common one where those tell nothing."""
    found = False
    for path in sorted((logs / "ranks" / f"launch-{launch}").glob("*/attempt_*/*/std*.log")):
        *_, attempt, rank, name = path.parts
        by = f"rank {rank}" if name == "stdout.log" else f"rank {rank} (stderr)"
        for line in _Page(path, launch, int(attempt.removeprefix("attempt_")), by).lines(pattern):
            found = True
            yield line
    if not found:
        yield from _Page(logs / f"launch-{launch}.log", launch).lines(pattern)


@dataclass(frozen=True)
class _Page:
    """One file."""

    path: Path
    launch: int | None = None
    restart: int | None = None
    by: str = ""

    def lines(self, pattern: re.Pattern[str]) -> Iterator[LogLine]:
        """The lines that the pattern finds and that name a whole number as their step."""
        try:
            file = self.path.open("rb")
        except OSError:
            return
        with file:
            for number, line in enumerate(file, start=1):
                text = line.decode(errors="replace")
                by = self.by
                if prefix := _PREFIX.match(text):
                    text = text[prefix.end() :]
                    by = by or f"rank {prefix[1]}"
                found = pattern.search(text.rstrip("\r\n")) if text.endswith("\n") else None
                step, loss = found.group("step", "loss") if found else (None, None)
                if step is not None and loss is not None and step.isdecimal():
                    yield LogLine(self.launch, self.restart, by, number, int(step), loss)
