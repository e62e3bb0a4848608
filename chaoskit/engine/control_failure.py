"""`check_control`: whether an uninterrupted run of a job came to its end, and if not, what the job raised or said."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from chaoskit.analysis.record.history import History, lifetimes
from chaoskit.analysis.reference.finite import require_finite
from chaoskit.engine.log_reason import GAVE_UP
from chaoskit.errors import ReferenceFailed
from chaoskit.job import LOOPBACK
from chaoskit.protocol.events import rank_events

_BEGINS = "Traceback (most recent call last)"
#: Between two tracebacks, of which one led to the other.
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
#: How a launcher tells that a process was killed, which leaves no traceback: by its code, or that of a shell.
_KILLED = re.compile(r"exitcode\s*:? *(-9|137)\b|Signal 9 \(SIGKILL\)")
#: Most lines of a log that a person is shown.
_LONGEST = 30


def check_control(run_dir: Path, status: str, *, nodes: int = 1) -> None:
    """Raises ReferenceFailed, with the end of the job's log, unless the control ended by itself, with the ranks of all
    its nodes in one process group; and, with the step, if it trained on NaN."""
    if nodes > 1 and not _met(run_dir):
        why = f"{_why_not_met(run_dir, nodes)}. The end of its log:\n{_log_end(run_dir)}"
        raise ReferenceFailed(why, run=str(run_dir))
    history = History.read(run_dir)
    if status == "finished":
        # Now, and not after the other controls: they would show the same.
        if history.incarnations:
            require_finite(history, "the uninterrupted run", run=str(run_dir))
        return
    last = history.launches[-1] if history.launches else None
    code = last.code if last is not None else None
    what = {
        "hang": f"hung, after {history.quiet or 0.0:.0f} s in which no rank did anything",
        "deadline": "did not finish before its deadline",
        "gave-up": f"ended with {'signal' if code is not None and code < 0 else 'exit code'} {abs(code or 0)}",
    }.get(status, f"ended as {status!r}")
    if status == "gave-up" and last is not None and last.why:
        what += f" ({last.why})"
    stacks = "".join(f"\nrank {rank} stood at:\n{text}" for rank, text in sorted(history.stacks.items()))
    if status == "gave-up" and _KILLED.search(f"exitcode: {code}\n{_last_log(run_dir)}"):
        what += " (a process got SIGKILL: the kernel sends it when memory runs out, and dmesg tells so)"
    raised = _raised(history) if status == "gave-up" else ""
    what += ", before any fault was injected" + (f": {raised}" if raised else "")
    raise ReferenceFailed(
        f"the uninterrupted run {what}. The end of its log:\n{_log_end(run_dir, raised)}{stacks}", run=str(run_dir)
    )


def _met(run_dir: Path) -> bool:
    """Whether ranks of several nodes trained together: in one process group, if they asked for one."""
    incarnations = History.read(run_dir).incarnations
    together = any(len({rank.node for rank in inc.ranks.values()}) > 1 for inc in incarnations)
    return together and (any(rank_events(run_dir, "group")) or not any(rank_events(run_dir, "meeting")))


def _why_not_met(run_dir: Path, nodes: int) -> str:
    addresses = [str(event["at"]) for event in rank_events(run_dir, "meeting")]
    if loopback := next((address for address in addresses if address in LOOPBACK), None):
        return (
            f"the ranks of {nodes} nodes cannot meet: their rendezvous address is {loopback}, "
            "which is each node itself"
        )
    return f"the ranks of {nodes} nodes did not meet: no rank joined a process group with a rank of another node"


def _raised(history: History) -> str:
    """Which rank was the first to end with an exception, and which; "" if the record has none."""
    ended = [own for _, own in lifetimes(history) if own.uncaught]
    first = min(ended, key=lambda own: own.left if own.left is not None else math.inf, default=None)
    if first is None:
        return ""
    line, *_ = first.uncaught.splitlines()
    return f"rank {first.rank} raised {line}"


def _last_log(run_dir: Path) -> str:
    logs = sorted((run_dir / "logs").glob("launch-*.log"))
    return logs[-1].read_text(errors="replace") if logs else ""


def _log_end(run_dir: Path, raised: str = "") -> str:
    return _relevant(_last_log(run_dir), raised)


def _relevant(log: str, raised: str) -> str:
    """The part of a log that a person needs: the traceback of the rank that `raised` is about, else the first of a
    rank, else that of the job, else the last lines. The summary of the launcher, which follows, is left out if the job
    wrote anything before it."""
    every = log.splitlines()
    end = next((i for i, line in enumerate(every) if GAVE_UP.match(line)), len(every))
    before, lines = _without_torchrun(every[:end]), _without_torchrun(every)
    ranks = [i for i, line in enumerate(lines) if _BEGINS in line and line.lstrip().startswith("[") and "]:" in line]
    if ranks:
        found = [_traceback(start, lines) for start in ranks]
        message = raised.partition(" raised ")[2]
        return next((each for each in found if message and message in each), found[0])
    own = before if any(line.strip() for line in before) else lines
    starts = [i for i, line in enumerate(own) if _BEGINS in line]
    return _traceback(starts[0], own) if starts else "\n".join(own[-20:])


def _traceback(start: int, lines: Sequence[str]) -> str:
    """A traceback with those that it led to, up to the exception and its message. A long one loses its middle."""
    mark = lines[start].partition(_BEGINS)[0]
    own = [line for line in lines[start:] if line.startswith(mark)]
    bodies = [line[len(mark) :] for line in own]
    end = 0
    while True:
        end = next((i for i in range(end + 1, len(own)) if bodies[i][:1].strip()), len(own) - 1)
        following = bodies[end + 1 : end + 6]
        if not any(body.startswith(_CHAINED) for body in following):
            break
        end = next((i for i in range(end + 1, len(own)) if bodies[i].startswith(_BEGINS)), len(own) - 1)
    while end + 1 < len(own) and bodies[end + 1][:1].isspace():
        end += 1
    if end < _LONGEST:
        return "\n".join(own[: end + 1])
    return "\n".join([own[0], f"{mark}  ...", *own[end + 3 - _LONGEST : end + 1]])


def _without_torchrun(lines: Sequence[str]) -> list[str]:
    """Leave out the lines that torchrun logs itself."""
    return [line for line in lines if "torch/distributed/" not in line or "]:" in line]
