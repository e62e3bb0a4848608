"""Proof by putting back: a run is repeated with the state that it had lost, and must then be exact."""

from __future__ import annotations

from chaoskit.studies.putting_back.lost import LostState, lost_state
from chaoskit.studies.putting_back.prove import prove
from chaoskit.studies.putting_back.rerun import PutBackRun, rerun

__all__ = ["LostState", "PutBackRun", "lost_state", "prove", "rerun"]
