"""Which run may serve as a control: one that ran from the first step to the last and was recorded throughout."""

from __future__ import annotations

from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.reference.probe_kept_out import kept_out
from chaoskit.errors import ReferenceFailed

ENDS = {
    "gave-up": "it failed by itself",
    "hang": "it hung",
    "deadline": "it did not finish before its deadline",
    "interrupted": "it was interrupted",
}


def require_complete(control: History, which: str) -> None:
    """Raises ReferenceFailed unless the control ran from the first step to the last, seen throughout."""
    if control.end != "finished":
        why = ENDS.get(control.end or "", "its record has no end")
        raise ReferenceFailed(f"{which}, without any fault, did not finish: {why}")
    if len(control.incarnations) > 1:
        count = len(control.incarnations) - 1
        raise ReferenceFailed(f"{which}, without any fault, was restarted {count} times before it finished")
    if not control.incarnations:
        if control.launches and (found := kept_out(control.launches[0].command)) is not None:
            raise ReferenceFailed(
                f"{which}: the probe was kept out of the command: {found.why}",
                code="probe-blind",
                advice=found.remedy,
            )
        raise ReferenceFailed(
            f"{which}: the probe recorded no training. If the job does train: the probe comes in by "
            "PYTHONPATH, so the command must add to that and not replace it, and must not start Python with -I, -E "
            "or -S, and a program that starts the ranks must hand its environment on to them; a loop that does not "
            "use torch.optim can call chaoskit.probe.step(...) once a step",
            code="probe-blind",
        )
    if control.gaps:
        raise ReferenceFailed(f"{which}: {len(control.gaps)} lines of its record are damaged", code="probe-blind")
    _require_steps(control.incarnations[0], which)


def _require_steps(incarnation: Incarnation, which: str) -> None:
    counts = {rank: len(lifetime.steps) for rank, lifetime in incarnation.ranks.items()}
    silent = [rank for rank in range(incarnation.world_size) if rank not in counts]
    if silent:
        raise ReferenceFailed(f"{which}: rank {silent[0]} left no record", code="probe-blind")
    if not any(counts.values()):
        raise ReferenceFailed(
            f"{which}: the probe recorded no optimizer step; a loop that does not use torch.optim can call "
            "chaoskit.probe.step(...) once a step",
            code="probe-blind",
        )
    if len(set(counts.values())) > 1:
        each = ", ".join(f"rank {rank} took {count}" for rank, count in counts.items())
        raise ReferenceFailed(
            f"{which}: the ranks took unequal numbers of optimizer steps ({each}), so a step of one cannot be "
            "compared with that of another",
            code="probe-blind",
        )
    for rank, lifetime in incarnation.ranks.items():
        if not lifetime.steps.is_whole:
            raise ReferenceFailed(f"{which}: the record of rank {rank} lacks steps", code="probe-blind")
