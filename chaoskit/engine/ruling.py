"""`Ruling`: the verdicts on a run after the losses that the user has accepted were taken out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaoskit.verdict import Outcome, Verdict, merge


@dataclass(frozen=True)
class Ruling:
    """`verdicts` are those that still count: a fail has the codes that are not accepted, and one without such a code is
    left out. `accepted` are the codes that were found and are accepted, `reasons` says why, by code. `told` are the
    sentences of the fails that were left out. `notes` say what was accepted and until when, which run the rest was
    compared with, and which acceptance has expired."""

    verdicts: tuple[Verdict, ...]
    accepted: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of the verdicts that still count; pass if every verdict was an accepted fail."""
        if not self.verdicts and self.accepted:
            return Outcome.PASS
        return merge(verdict.outcome for verdict in self.verdicts)
