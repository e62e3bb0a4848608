"""`saved_within_grace`: no save that a job began when it was asked to end was cut short by the end of the grace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.analysis.record.history import lifetimes, longest_save
from chaoskit.analysis.record.rank_lifetime import RankLifetime, Save
from chaoskit.analysis.recovery.emergency import EVICTIONS
from chaoskit.checks.check import Check
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, failed, inconclusive, merge, passed


@dataclass(frozen=True)
class SavedWithinGrace:
    """See `saved_within_grace`."""

    name = "saved_within_grace"

    def __call__(self, case: Case) -> Verdict:
        evictions = [f for f in case.history.faults if f.kind in EVICTIONS and f.observed is not None]
        if not evictions:
            return inconclusive(self.name, "no node was observed to be evicted", "fault-not-observed")
        every = [self._judged(case, fault) for fault in evictions]
        worst = merge(verdict.outcome for verdict in every)
        return next(verdict for verdict in every if verdict.outcome is worst)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _judged(self, case: Case, fault: FaultRecord) -> Verdict:
        about = fault.evidence
        since, grace = float(about["since"]), float(about["grace"])
        ended, killed = about["ended"], about["killed"]
        saves = list(_begun_after(case, str(about["node"]), since))
        cut = [(rank, save) for rank, save in saves if save.ended is None]
        longest = longest_save((*(case.reference.controls if case.reference is not None else ()), case.history))
        evidence = {
            "fault": fault.index, "grace": grace, "ended": ended, "killed": killed, "longest_save": longest,
            "saves": [_facts(rank, save, since) for rank, save in saves],
        }  # fmt: skip
        how = f"'{fault.name}': the job there"
        if killed is not None and not about["grace_used_up"]:
            sentence = f"{how} was killed {killed:.1f} s after SIGTERM, before the end of its grace of {grace:g} s"
            return inconclusive(self.name, sentence, "probe-blind", **evidence)
        if not cut and ended is not None:
            sentence = f"{how} ended by itself {ended:.1f} s after SIGTERM; its grace is {grace:g} s"
            return passed(self.name, sentence, **evidence)
        if not cut:
            sentence = f"{how} was killed at the end of its grace of {grace:g} s"
            if not (case.reference and case.reference.saves):
                why = f"{sentence}, and whether it was in a save is not known: the probe saw none in the reference"
                return inconclusive(self.name, why, "probe-blind", **evidence)
            return passed(self.name, f"{sentence}; no save that it had begun after SIGTERM was open", **evidence)
        rank, save = min(cut, key=lambda each: each[1].begun)
        begun = save.begun - since
        if killed is None:
            sentence = (
                f"{how} ended by itself {ended:.1f} s after SIGTERM, within its grace of {grace:g} s, but rank {rank} "
                "ended inside a save: the grace did not cut it short (torchrun itself kills ranks 30 s after SIGTERM)"
            )
            return inconclusive(self.name, sentence, "probe-blind", **evidence)
        usual = f"; a whole save has taken up to {longest:.1f} s" if longest is not None else ""
        sentence = (
            f"{how} was killed at the end of its grace of {grace:g} s, while rank {rank} was in a save that it had "
            f"begun {begun:.1f} s after SIGTERM and that had lasted {killed - begun:.1f} s{usual}"
        )
        return failed(self.name, sentence, "grace-too-short", **evidence)


def _begun_after(case: Case, node: str, since: float) -> Iterator[tuple[int, Save]]:
    """The saves that ranks of a node began after `since`, with their ranks."""
    alive: dict[int, RankLifetime] = {}
    for _, lifetime in lifetimes(case.history):
        if lifetime.node == node and lifetime.start <= since:
            alive[lifetime.rank] = lifetime  # the newest
    for rank, lifetime in sorted(alive.items()):
        yield from ((rank, save) for save in lifetime.saves if save.begun >= since)


def _facts(rank: int, save: Save, since: float) -> dict[str, Any]:
    took = None if save.ended is None else round(save.ended - save.begun, 3)
    return {"rank": rank, "path": save.path, "begun": round(save.begun - since, 3), "seconds": took}


@check("grace-too-short")
def saved_within_grace() -> Check:
    """No save that a job began after SIGTERM was cut short by the end of the grace of its evicted node.

    Use it with the fault `evict_node` or `drain_node`. The evidence has the grace, the seconds from SIGTERM until the
    job there had ended by itself or was killed, its saves since SIGTERM, and the longest complete save of the reference
    and the run. Fails with `grace-too-short`.
    """
    return SavedWithinGrace()
