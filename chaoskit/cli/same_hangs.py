"""`SameHangs`: a job that has hung in the same way a few times would do so again, and each time takes long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.protocol import json_lines

if TYPE_CHECKING:
    from chaoskit.engine.result import Result

#: After as many experiments that failed with the same hang, the others of the job are skipped.
MOST = 3


class SameHangs:
    """The hangs of one session, by the job and by where its ranks stood. Processes that work side by side keep them in
    the same file, `shared`."""

    def __init__(self, shared: Path | None = None) -> None:
        self._shared = shared
        self._own: list[Any] = []

    def add(self, result: Result) -> None:
        """Take in a result; only a hang with stacks counts."""
        if result.verdict != "fail" or "hang" not in result.codes or not result.stacks:
            return
        hang = {"job": result.job, "name": result.name, "stacks": dict(result.stacks)}
        if self._shared is None:
            self._own.append(hang)
            return
        writer = json_lines.LineWriter(self._shared)
        writer.write(hang)
        writer.close()

    def why_not(self, job: str) -> str | None:
        """Why the job is not worth another run, if it has hung in the same way too often."""
        alike: dict[object, list[Mapping[str, Any]]] = {}
        for hang in self._all():
            if hang["job"] == job:
                found = alike.setdefault(_stands(hang["stacks"]), [])
                found.append(hang)
                if len(found) == MOST:
                    return _why([each["name"] for each in found], hang["stacks"])
        return None

    def _all(self) -> list[Any]:
        if self._shared is None or not self._shared.is_file():
            return self._own
        return [line.value for line in json_lines.read(self._shared) if isinstance(line.value, dict)]


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
