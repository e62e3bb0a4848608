"""What a certificate reads of the results that studies keep in their runs."""

from __future__ import annotations

from typing import Annotated, TypedDict

from chaoskit.schema import Count, Range

#: The files in a run that have the result of a study.
SDC_MAP, CRASH_STATES = "map.json", "crash-states.json"
Part = Annotated[float, Range(0, 1)]


class StoredShare(TypedDict):
    """How many corruptions had one outcome."""

    hits: Count
    share: Part
    low: Part
    high: Part


class StoredOutcomes(TypedDict):
    """The outcomes of a map, of which a certificate needs one."""

    silent: StoredShare


class StoredMap(TypedDict):
    """A map of silent corruption."""

    injections: Count
    outcomes: StoredOutcomes


class StoredCrashes(TypedDict):
    """A study of crash states."""

    verdict: str
    codes: list[str]
    states: Count
