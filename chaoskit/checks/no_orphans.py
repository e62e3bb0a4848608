"""`no_orphans`: when the job's command had ended by itself, none of its processes was left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.checks.check import Case, Check
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class NoOrphans:
    """See `no_orphans`."""

    name = "no_orphans"

    def __call__(self, case: Case) -> Verdict:
        # Whoever kills the launcher cannot blame the job for what the launcher would have cleared away.
        own = [launch for launch in case.history.launches if launch.cause == "itself"]
        if not own:
            return inconclusive(self.name, "no launch of the job came to its own end", "probe-blind")
        left = [(launch.index, dict(process)) for launch in own for process in launch.survivors]
        if left:
            told = ", ".join(f"{_short(p)} ({p.get('pid')})" for _, p in left)
            sentence = f"{len(left)} process{'es' if len(left) > 1 else ''} outlived the launcher: {told}"
            evidence = [{"launch": index, **process} for index, process in left]
            return failed(self.name, sentence, "orphans", survivors=evidence)
        return passed(self.name, f"nothing outlived the job's command in {len(own)} launches", launches=len(own))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _short(process: Mapping[str, Any]) -> str:
    """Its command on one line, and no longer than anybody wants to read."""
    command = " ".join(str(process.get("command") or process.get("name") or "pid").split())
    return command if len(command) <= 80 else f"{command[:79]}…"


def no_orphans() -> Check:
    """No process of the job outlived its launcher, where that ended by itself. Fails with `orphans`."""
    return NoOrphans()
