"""Which experiments of the battery run: all of them, the areas of `--only`, or the few of `--quick`."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path

from chaoskit.errors import UsageError
from chaoskit.validation import near_miss

#: The modules of each area. Every experiment is in one area at least.
AREAS: dict[str, tuple[str, ...]] = {
    "resume": ("test_control", "test_resume", "test_checkpoints", "test_node_termination"),
    "checkpoint": ("test_checkpoints", "test_checkpoint_corruption", "test_debris"),
    "storage": ("test_storage_faults",),
    "resources": ("test_resources",),
    "clocks": ("test_clocks",),
    "numbers": ("test_nan", "test_bitflip", "test_loss_spike", "test_replica_divergence"),
    "network": ("test_network_partition", "test_slow_link", "test_stale_rendezvous"),
    "nodes": ("test_node_loss", "test_elastic", "test_stale_rendezvous"),
    "preemption": ("test_preemption", "test_node_termination", "test_schedule"),
}
#: Areas in which no experiment runs without several nodes.
NEED_NODES = ("network", "nodes")
#: Areas whose experiments run only on request: they need rights that many users lack, and would be skipped.
ON_REQUEST = ("resources", "clocks")
#: The few experiments that catch most of the gallery (docs/reference/gallery.md): of the trainers that one node can
#: show, two of three. One resume in mid-epoch, one at the end of an epoch, a save that is cut short, a checkpoint that
#: is damaged, and one not-a-number.
QUICK = (
    "test_one_rank_mid_epoch",
    "test_epoch_boundary",
    "test_middle_of_save",
    "test_flipped_bit",
    "test_not_a_number",
)


def areas(text: str) -> str:
    """Validate a list of areas, divided by commas."""
    for name in named(text):
        if name not in AREAS:
            raise argparse.ArgumentTypeError(f"there is no area {name!r}{near_miss(name, AREAS)}")
    if not named(text):
        raise argparse.ArgumentTypeError(f"name an area{near_miss('', AREAS)}")
    return text


def named(text: str) -> list[str]:
    """The names in a list that is divided by commas."""
    return [name for each in text.split(",") if (name := each.strip())]


def experiments(home: Path) -> dict[str, Path]:
    """The name of every experiment below `home`, without parameters, and its module; read, and not imported."""
    found: dict[str, Path] = {}
    for path in sorted(home.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = path
    return found


def arguments(home: Path, *, only: str | None = None, quick: bool = False) -> list[str]:
    """What pytest has to collect below `home`: everything, the modules of the areas, or the quick experiments. An area
    includes its experiments that otherwise run only on request. Raises UsageError where nothing of that is there."""
    if only:
        modules = dict.fromkeys(f"{module}.py" for name in named(only) for module in AREAS[name])
        found = [str(home / module) for module in modules if (home / module).is_file()]
        return ["-o", "everything=true", *_some(found, f"--only {only}")]
    if quick:
        known = experiments(home)
        return _some([f"{known[name]}::{name}" for name in QUICK if name in known], "--quick")
    return [str(home)]


def _some(found: list[str], what: str) -> list[str]:
    if not found:
        raise UsageError(f"{what} selects no experiment: 'chaoskit run --list' lists their names")
    return found
