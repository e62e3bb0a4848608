"""`check_control`: whether an uninterrupted run of a job came to its end, and if not, what the job said last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.finite import require_finite
from chaoskit.engine.log_reason import GAVE_UP
from chaoskit.errors import ReferenceFailed
from chaoskit.job import LOOPBACK
from chaoskit.protocol.events import rank_events

_BEGINS = "Traceback (most recent call last)"
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
    code = history.launches[-1].code if history.launches else None
    what = {
        "hang": f"hung, after {history.quiet or 0.0:.0f} s in which no rank did anything",
        "deadline": "did not finish before its deadline",
        "gave-up": f"ended with {'signal' if code is not None and code < 0 else 'exit code'} {abs(code or 0)}",
    }.get(status, f"ended as {status!r}")
    stacks = "".join(f"\nrank {rank} stood at:\n{text}" for rank, text in sorted(history.stacks.items()))
    raise ReferenceFailed(
        f"the uninterrupted run {what}, before any fault was injected. The end of its log:\n"
        f"{_log_end(run_dir)}{stacks}",
        run=str(run_dir),
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


def _log_end(run_dir: Path) -> str:
    logs = sorted((run_dir / "logs").glob("launch-*.log"))
    return _relevant(logs[-1].read_text(errors="replace")) if logs else ""


def _relevant(log: str) -> str:
    """The part of a log that a person needs: from a rank's first traceback on, else from that of the job, else the last
    lines. What torchrun writes after it has given up is none of the job's, if the job wrote anything before."""
    every = log.splitlines()
    end = next((i for i, line in enumerate(every) if GAVE_UP.match(line)), len(every))
    before, lines = _without_torchrun(every[:end]), _without_torchrun(every)
    ranks = [i for i, line in enumerate(lines) if _BEGINS in line and line.lstrip().startswith("[") and "]:" in line]
    if ranks:
        return _from(ranks[0], lines)
    own = before if any(line.strip() for line in before) else lines
    starts = [i for i, line in enumerate(own) if _BEGINS in line]
    return _from(starts[0], own) if starts else "\n".join(own[-20:])


def _from(start: int, lines: Sequence[str]) -> str:
    """The lines from a traceback on. A long one loses its middle: its last line says what happened."""
    mark = lines[start].partition(_BEGINS)[0]
    own = [line for line in lines[start:] if line.startswith(mark)]
    end = next((i for i, line in enumerate(own) if i and line[len(mark) :][:1].strip()), len(own) - 1)
    if end < _LONGEST:
        return "\n".join(lines[start : start + _LONGEST])
    return "\n".join([own[0], f"{mark}  ...", *own[end + 3 - _LONGEST : end + 1]])


def _without_torchrun(lines: Sequence[str]) -> list[str]:
    """Leave out the lines that torchrun logs itself."""
    return [line for line in lines if "torch/distributed/" not in line or "]:" in line]
