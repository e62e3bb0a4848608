"""Crash states: from the journal of a storage, every state that a crash could have left on the disk."""

from chaoskit.crash.causes import Cause, Loss
from chaoskit.crash.crashes import PROFILES
from chaoskit.crash.durability import Unforced, unforced
from chaoskit.crash.states import CrashStates, State, crash_states
from chaoskit.crash.story import Story, shortest_stories, story

__all__ = [
    "PROFILES",
    "Cause",
    "CrashStates",
    "Loss",
    "State",
    "Story",
    "Unforced",
    "crash_states",
    "shortest_stories",
    "story",
    "unforced",
]
