"""For the post-mortem: what each rank held when a launch ended for a bad number.

OUT/postmortem/step-00000025/rank-1.pt     the last step, as rank 1 saw it

No launch ever resumes from it: it is kept to be looked at, and it is the very state that was not fit to go on.
"""

import shutil
from pathlib import Path
from typing import Any

from tinymodels.durable import write_tensors
from tinymodels.inspection import held
from tinymodels.manifest import name_of
from tinymodels.state import State
from tinymodels.together import Unwritten, together
from tinymodels.world import World

KEPT = 2  # of a run that ends so again and again, the newest


def dump(folder: Path, world: World, state: State, evidence: dict[str, Any]) -> None:
    """All ranks: write down what there is. Trouble with that is told, and changes nothing."""
    here = folder / name_of(evidence["step"])
    content = evidence | {"rank": world.rank, "state": dict(held(state))}
    try:
        together(world, lambda: make_room(here) if world.leads else None)
        together(world, lambda: put(here, world.rank, content))
    except Unwritten as problem:
        world.say(f"nothing is kept for the post-mortem: {problem}")
        return
    world.say(f"for the post-mortem: {here}")


def make_room(here: Path) -> None:
    """Rank 0: only the newest others stay."""
    others = [path for path in here.parent.glob("step-*") if path != here]
    others.sort(key=lambda path: path.stat().st_mtime)
    for path in [here, *others[: len(others) - KEPT + 1]]:
        shutil.rmtree(path, ignore_errors=True)
    here.mkdir(parents=True)


def put(here: Path, rank: int, content: dict[str, Any]) -> None:
    """All ranks: it may be another host's folder, not seen yet."""
    here.mkdir(parents=True, exist_ok=True)
    write_tensors(here / f"rank-{rank}.pt", content)
