"""What each rank held when a launch ended because of a bad number (--postmortem).

OUT/postmortem/step-00000025/rank-1.pt     the last step, as rank 1 saw it

It is kept for a person to look at. No launch ever resumes from it, because it is the state that was not fit to go on.
"""

import shutil
from pathlib import Path
from typing import Any

from tinymodels.checkpoints.durable import write_tensors
from tinymodels.checkpoints.manifest import folder_name
from tinymodels.checkpoints.state import State
from tinymodels.elasticity.collective_io import StorageFailed, on_all_ranks
from tinymodels.elasticity.world import World
from tinymodels.numbers.inspection import named_tensors

KEPT = 2  # the newest ones, if launch after launch ends like this


def dump(folder: Path, world: World, state: State, evidence: dict[str, Any]) -> None:
    """Write the evidence and the state of each rank. Call it on all ranks. A failure is reported and ignored."""
    own = folder / folder_name(evidence["step"])
    content = evidence | {"rank": world.rank, "state": dict(named_tensors(state))}
    try:
        on_all_ranks(world, lambda: make_room(own) if world.leads else None)
        on_all_ranks(world, lambda: write(own, world.rank, content))
    except StorageFailed as problem:
        world.say(f"nothing is kept for the post-mortem: {problem}")
        return
    world.say(f"for the post-mortem: {own}")


def make_room(own: Path) -> None:
    """Remove all but the newest others, and create the folder. Rank 0 does it."""
    others = [path for path in own.parent.glob("step-*") if path != own]
    others.sort(key=lambda path: path.stat().st_mtime)
    for path in [own, *others[: len(others) - KEPT + 1]]:
        shutil.rmtree(path, ignore_errors=True)
    own.mkdir(parents=True)


def write(own: Path, rank: int, content: dict[str, Any]) -> None:
    own.mkdir(parents=True, exist_ok=True)  # another host may have created it, and this one not see it yet
    write_tensors(own / f"rank-{rank}.pt", content)
