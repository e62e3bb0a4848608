"""`record`: reads the job's own log after a run and puts the steps and losses that it states into the record.

torchrun keeps the output of each rank and restart in a file of its own below `logs/ranks/`. Other launchers do not:
then all processes write to `logs/launch-<n>.log`. A job may instead keep one file in its own directory. A line without
a line end was cut short and is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path

from chaoskit.analysis.record.harness_record import LogLine
from chaoskit.job import Job, log_pattern
from chaoskit.protocol.events import EventWriter

#: At most this many lines are put into the record.
LINES = 100_000
#: The prefix by which torchrun marks the lines of a rank.
_PREFIX = re.compile(r"^\[(?:default|rank)(\d+)\]: ?")


def record(run_dir: Path, job: Job, writer: EventWriter) -> None:
    """Write an event `log` for each line that the job's `log_regex` finds; nothing for a job that has none."""
    if job.log_regex is None:
        return
    pattern = log_pattern(job.log_regex)
    if job.log_file is not None:
        found = _LogFile(run_dir / "out" / job.log_file).lines(pattern)
    else:
        launches = len(list((run_dir / "logs").glob("launch-*.log")))
        found = chain.from_iterable(_of_launch(run_dir / "logs", launch, pattern) for launch in range(launches))
    for line in islice(found, LINES):
        writer.write("log", **asdict(line))


def _of_launch(logs: Path, launch: int, pattern: re.Pattern[str]) -> Iterator[LogLine]:
    """The lines in the ranks' own logs, or in the common one where those have none."""
    found = False
    for path in sorted((logs / "ranks" / f"launch-{launch}").glob("*/attempt_*/*/std*.log")):
        *_, attempt, rank, name = path.parts
        by = f"rank {rank}" if name == "stdout.log" else f"rank {rank} (stderr)"
        for line in _LogFile(path, launch, int(attempt.removeprefix("attempt_")), by).lines(pattern):
            found = True
            yield line
    if not found:
        yield from _LogFile(logs / f"launch-{launch}.log", launch).lines(pattern)


@dataclass(frozen=True)
class _LogFile:
    """One file. `by` names the process that writes it."""

    path: Path
    launch: int | None = None
    restart: int | None = None
    by: str = ""

    def lines(self, pattern: re.Pattern[str]) -> Iterator[LogLine]:
        """The lines that the pattern finds and whose step is a whole number."""
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
