"""`SameHangs`: a job that has hung in the same way a few times would do so again, and each time takes long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaoskit.engine.result import Result

#: After as many experiments that failed with the same hang, the others of the job are skipped.
MOST = 3


class SameHangs:
    """The hangs of one session, by the job and by where its ranks stood."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
        self._said: dict[str, str] = {}

    def add(self, result: Result) -> None:
        """Take in a result; only a hang with stacks counts."""
        if result.verdict != "fail" or "hang" not in result.codes or not result.stacks:
            return
        names = self._names.setdefault((result.job, _stands(result.stacks)), [])
        names.append(result.name)
        if len(names) == MOST:
            self._said[result.job] = _why(names, result.stacks)

    def why_not(self, job: str) -> str | None:
        """Why the job is not worth another run, if it has hung in the same way too often."""
        return self._said.get(job)


def _stands(stacks: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Where each rank stood in the job's own code."""
    from chaoskit.checks.stacks import waits_in

    return tuple((rank, str(waits_in(text) or text)) for rank, text in sorted(stacks.items()))


def _why(names: Sequence[str], stacks: Mapping[str, str]) -> str:
    from chaoskit.checks.stacks import explain

    where = explain({int(rank): text for rank, text in stacks.items()})
    return (
        f"not run: the job has hung in the same way in {len(names)} experiments ({', '.join(names)}): {where}; "
        "repair that first, or run all of them with --keep-going"
    )
