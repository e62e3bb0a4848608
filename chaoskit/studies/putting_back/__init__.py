"""Proof by putting back: a run is repeated with the state that it had lost, and must then be exact."""

from __future__ import annotations

from chaoskit.studies.putting_back.attempts import PutBackRun, rerun
from chaoskit.studies.putting_back.lost import LostState, lost_state
from chaoskit.studies.putting_back.proof import prove, try_to_prove

__all__ = ["LostState", "PutBackRun", "lost_state", "prove", "rerun", "try_to_prove"]
