"""`reason`: the line of a job's log that says why it ended."""

from __future__ import annotations

import re

#: What a launcher or a rank's logger puts before a line that somebody else wrote.
_PREFIX = re.compile(r"^(?:\[(?:rank|default|[\w.-]+:)?\d+\]:?\s*)+")
_LOGGED = re.compile(r"^[WEIF]\d{4} ")
#: The banner of torchrun: its summary of the ranks, which does not contain the reason.
_BANNER = re.compile(
    r"^(?:[=\-*_\s]*|.* FAILED|Failures:|<NO_OTHER_FAILURES>|Root Cause.*|\[\d+\]:"
    r"|(?:time|host|rank|exitcode|error_file|traceback)\s*:.*|Traceback \(most recent call last\):"
    r"|Setting OMP_NUM_THREADS .*|.*ChildFailedError.*)$"
)
#: The line by which torchrun gives up; what follows is its own.
GAVE_UP = re.compile(r"^[EW]\d{4} .*torch/distributed/.*failed \(exitcode")
_REASON = re.compile(r"\w*(Error|Exception|Refused|error)\b.*:|refused")


def reason(log: str, *, longest: int = 300) -> str:
    """Return the last line of a log that looks like a reason, else the last one that the job itself wrote; empty if
    there is none. A line of torchrun's own is none, nor is the prefix of a rank."""
    lines: list[str] = []
    for line in log.splitlines():
        text = line.strip()
        if GAVE_UP.match(text):
            break  # what follows is torchrun's
        if _LOGGED.match(text) or "torch/distributed/" in text or _BANNER.match(text):
            continue
        own = _PREFIX.sub("", text)
        if own and not _BANNER.match(own):
            lines.append(own)
    return next((line for line in reversed(lines) if _REASON.search(line)), lines[-1] if lines else "")[:longest]
