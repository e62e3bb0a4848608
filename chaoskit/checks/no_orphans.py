"""`no_orphans`: no process of the job is left after its command ended by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.checks.check import Check
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class NoOrphans:
    """See `no_orphans`."""

    name = "no_orphans"

    def __call__(self, case: Case) -> Verdict:
        # Whoever kills the launcher cannot blame the job for what the launcher would have cleared away.
        own = [launch for launch in case.history.launches if launch.cause == "itself"]
        if not own:
            return inconclusive(self.name, "no launch of the job ended by itself", "probe-blind")
        left = [(launch.index, dict(process)) for launch in own for process in launch.survivors]
        if left:
            shown = ", ".join(f"{_short(p)} ({p.get('pid')})" for _, p in left)
            sentence = f"{len(left)} process{'es' if len(left) > 1 else ''} outlived the launcher: {shown}"
            evidence = [{"launch": index, **process} for index, process in left]
            return failed(self.name, sentence, "orphans", survivors=evidence)
        window = case.history.window
        last = ", the last of them in the reference" if window is not None and window.end is not None else ""
        sentence = f"no process outlived the job's command in {len(own)} launches{last}"
        return passed(self.name, sentence, launches=len(own))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _short(process: Mapping[str, Any]) -> str:
    """Return its command on one short line."""
    command = " ".join(str(process.get("command") or process.get("name") or "pid").split())
    return command if len(command) <= 80 else f"{command[:79]}…"


@check("orphans")
def no_orphans() -> Check:
    """No process of the job outlived a launcher that ended by itself. Fails with `orphans`."""
    return NoOrphans()
