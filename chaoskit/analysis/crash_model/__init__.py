"""Crash states: from the journal of a storage, every state that a crash could have left on the disk."""

from chaoskit.analysis.crash_model.causes import Cause, LostWrites
from chaoskit.analysis.crash_model.crashes import PROFILES
from chaoskit.analysis.crash_model.durability import Unforced, unforced
from chaoskit.analysis.crash_model.states import CrashStates, State, crash_states
from chaoskit.analysis.crash_model.story import Story, shortest_stories, story

__all__ = [
    "PROFILES",
    "Cause",
    "CrashStates",
    "LostWrites",
    "State",
    "Story",
    "Unforced",
    "crash_states",
    "shortest_stories",
    "story",
    "unforced",
]
