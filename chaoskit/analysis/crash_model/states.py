"""Every state that a crash could have left on the disk, as far as it is looked at: each content once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random

from chaoskit.analysis.crash_model.causes import Cause, explain
from chaoskit.analysis.crash_model.crashes import PROFILES, WEIGHTS, Crash, crashes, missing, stage_ends
from chaoskit.analysis.crash_model.disk import Disk
from chaoskit.analysis.crash_model.materialise import materialise
from chaoskit.analysis.crash_model.tree import Tree
from chaoskit.errors import UsageError
from chaoskit.protocol.io_journal import Journal

#: Of more crashes than this, those that matter least are drawn from and not all built.
MOST_EXAMINED = 100_000


@dataclass(frozen=True)
class State:
    """One content of the directory that a crash could have left, and the crashes that leave it, the simplest first."""

    digest: str
    disk: Disk = field(repr=False, compare=False)
    crashes: tuple[Crash, ...]

    @property
    def profile(self) -> str:
        """The mildest profile that allows it."""
        return self.crashes[0].profile

    @property
    def moments(self) -> tuple[int, ...]:
        """How many operations had been done when a crash can have left it: every number that was met, in order."""
        return tuple(sorted({crash.done for crash in self.crashes}))

    @cached_property
    def cause(self) -> Cause:
        """The simplest."""
        return explain(self.disk, self.crashes[0])

    @property
    def causes(self) -> tuple[Cause, ...]:
        """All that were met, from the simplest on."""
        return tuple(explain(self.disk, crash) for crash in self.crashes)

    @property
    def tree(self) -> Tree:
        """What is there; built anew each time."""
        return self.disk.tree(self.crashes[0].done, missing(self.disk, self.crashes[0]))

    def materialise(self, directory: Path) -> None:
        """Write it out below `directory`, which is empty or not there yet. Raises UsageError where it is neither.

        Times of change are those of the journal.
        """
        materialise(self.tree, self.disk.contents, directory, self.disk.log.changed(self.crashes[0].done))


@dataclass(frozen=True)
class CrashStates:
    """The `states` that were chosen, no two of one digest. Of `planned` crashes `examined` were built, which gave
    `distinct` contents; `sampling` says how they were chosen."""

    states: tuple[State, ...]
    planned: int
    examined: int
    distinct: int
    sampling: str

    def __iter__(self) -> Iterator[State]:
        return iter(self.states)

    def __len__(self) -> int:
        return len(self.states)


def crash_states(
    journal: Journal,
    *,
    first: int,
    last: int,
    profiles: Sequence[str] = PROFILES,
    most: int | None = None,
    seed: int = 0,
    assume_before: bool = True,
) -> CrashStates:
    """The states that a crash could have left on the disk once `first` to `last` operations had been done.

    `profiles` are the models of what survives (docs/how-to/crash-states.md); each allows what those milder than it
    allow. With `most`, at most so many states are chosen; `seed` decides which. With `assume_before`, what came before
    operation `first` is on the disk.

    Raises UsageError for an argument that cannot be, JournalError for a journal that does not begin with an empty
    directory, or lacks bytes.
    """
    if not 0 <= first <= last <= len(journal.operations):
        raise UsageError(f"crash_states: first and last must be in order, and at most {len(journal.operations)}")
    if not profiles or not set(profiles) <= set(PROFILES):
        raise UsageError(f"crash_states: profiles must be among {', '.join(PROFILES)}, not {list(profiles)!r}")
    if most is not None and most < 1:
        raise UsageError(f"crash_states: most must be at least 1, not {most!r}")
    disk = Disk(journal, start=first if assume_before else 0, last=last)
    harshest = max(map(PROFILES.index, profiles))
    planned = [
        crash
        for crash in crashes(disk, first=first, last=last, seed=seed)
        if PROFILES.index(crash.profile) <= harshest
    ]
    ends = stage_ends(journal.operations, first, last)
    ranks = [_rank(crash, first, last, ends) for crash in planned]
    found: dict[str, list[int]] = {}
    examined = _chosen(ranks, MOST_EXAMINED, seed)
    for place in sorted(examined):  # in the order of the operations, which builds on what was built
        crash = planned[place]
        found.setdefault(disk.tree(crash.done, missing(disk, crash)).digest(), []).append(place)
    digests = list(found)
    chosen = _chosen([min(ranks[place] for place in found[digest]) for digest in digests], most, seed)
    states = [
        State(digest, disk, tuple(sorted((planned[place] for place in found[digest]), key=_simplicity)))
        for digest in (digests[place] for place in chosen)
    ]
    sampling = _sampling(len(planned), len(examined), len(digests), len(chosen), seed)
    return CrashStates(tuple(states), len(planned), len(examined), len(digests), sampling)


def _rank(crash: Crash, first: int, last: int, ends: frozenset[int]) -> int:
    """In which order crashes are chosen: nothing lost and all lost, at the ends of the window and then of each stage;
    one thing lost or kept at the end of a stage; the rest."""
    if crash.kind == "none" or crash.kind.endswith("all"):
        return 0 if crash.done in (first, last) else 1 if crash.done in ends else 3
    return 2 if crash.done in ends and crash.kind in ("data", "name", "only", "session") else 3


def _chosen(ranks: Sequence[int], most: int | None, seed: int) -> list[int]:
    """The places of at most so many, those of low rank first, and of the rank that does not fit a part at random."""
    places = sorted(range(len(ranks)), key=lambda place: ranks[place])
    if most is None or len(places) <= most:
        return places
    divided = ranks[places[most]]
    sure = [place for place in places if ranks[place] < divided]
    rest = [place for place in places if ranks[place] == divided]
    return sure + sorted(Random(seed).sample(rest, most - len(sure)))


def _simplicity(crash: Crash) -> tuple[int, int, int]:
    # Where only processes died, it was after what changed something; of losses, those of what had been left longest.
    return PROFILES.index(crash.profile), WEIGHTS[crash.kind], crash.done if crash.kind == "none" else -crash.done


def _sampling(planned: int, examined: int, distinct: int, chosen: int, seed: int) -> str:
    said = f"{examined} of {planned} crashes were built; {chosen} of the {distinct} states that they leave were chosen"
    if (planned, distinct) == (examined, chosen):
        return said
    return (
        f"{said}: first nothing lost and all lost, where the window and each stage of it ends, then one thing lost or "
        f"kept there, then any others; where not all of one sort were, with seed {seed}"
    )
