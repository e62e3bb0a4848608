"""The order to the ranks of a run to keep their state, or to put it back: a file in the run's directory.

In a *keeping run* each rank keeps the components of its state at some positions. In a *put-back run* the ranks of a
relaunched incarnation put components back to what was kept at the position that they resumed from. The harness writes
the file and the ranks read it; both validate it. Standard library only; ranks import it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from chaoskit.protocol.stored_files import read_value, why_unread
from chaoskit.schema import conform

#: The file's name, in the directory of a run.
NAME = "putting-back.json"
FORMAT = 1

#: The components that can be put back. A single stream is `rng.` and its name; `rng` is all of them. `average` is an
#: average of the weights that the job keeps by hand; `batch` is the position in the data.
COMPONENTS = ("model", "buffers", "optimizer", "options", "lr", "scaler", "ema", "average", "batch", "rng")
#: Steps in which a rank keeps the averages of the job: an average is recognized only after some steps.
AVERAGED = 12
#: When random streams are put back: as the first batch after the resume is drawn and again as the first forward pass
#: begins; as the first forward pass begins; as each load of a checkpoint ends.
MOMENTS = ("draw", "forward", "load")
#: How the position in the data is put back: to the end of each epoch of the reference, or from iterator to iterator.
WAYS = ("epoch", "flow")


def state_file(position: int, rank: int) -> str:
    """The file in which a rank keeps its state at a position."""
    return f"position-{position}-rank-{rank}.pt"


def average_file(step: int, rank: int) -> str:
    """The file in which a rank keeps the averages that it keeps by hand, as a step is about to be taken."""
    return f"average-{step}-rank-{rank}.pt"


def rates_file(rank: int) -> str:
    """The file in which a rank keeps the learning rates and options of every step."""
    return f"rates-rank-{rank}.jsonl"


def rows_file(rank: int) -> str:
    """The file in which a rank keeps the rows that its data loaders ask for."""
    return f"rows-rank-{rank}.jsonl"


def digest_of(content: bytes) -> str:
    """The digest by which a file is recognized."""
    return hashlib.sha256(content).hexdigest()


def is_component(name: object) -> bool:
    """Whether a component of that name can be put back."""
    return isinstance(name, str) and (name in COMPONENTS or (name.startswith("rng.") and len(name) > 4))


@dataclass(frozen=True)
class Keep:
    """Keep `components` at these `positions`, in files below `directory`."""

    directory: str
    positions: tuple[int, ...]
    components: tuple[str, ...]

    def __post_init__(self) -> None:
        _require(
            isinstance(self.directory, str) and os.path.isabs(self.directory), "directory is no absolute path"
        )
        _require(bool(self.positions) and all(_whole(p, 1) for p in self.positions), "positions are no steps")
        _require(
            bool(self.components) and all(map(is_component, self.components)), "components are not known ones"
        )


@dataclass(frozen=True)
class Resumed:
    """One incarnation that resumed from `position`, and the components that each rank must put back."""

    launch: int
    restart: int
    position: int
    ranks: Mapping[int, tuple[str, ...]]

    def __post_init__(self) -> None:
        _require(_whole(self.launch, 0) and _whole(self.restart, 0), "launch and restart are no counts")
        _require(_whole(self.position, 1), "position is no step")
        _require(all(_whole(rank, 0) for rank in self.ranks), "ranks are no numbers")
        named = (name for own in self.ranks.values() for name in own)
        _require(all(map(is_component, named)), "components are not known ones")


@dataclass(frozen=True)
class PutBack:
    """Put components back, from the files below `directory` with these digests, in these incarnations. `moment` is one
    of `MOMENTS`, `way` one of `WAYS`."""

    directory: str
    resumed: tuple[Resumed, ...]
    digests: Mapping[str, str] = field(default_factory=dict)
    moment: str = MOMENTS[0]
    way: str = WAYS[0]

    def __post_init__(self) -> None:
        _require(
            isinstance(self.directory, str) and os.path.isabs(self.directory), "directory is no absolute path"
        )
        _require(self.moment in MOMENTS, f"moment is none of {', '.join(MOMENTS)}")
        _require(self.way in WAYS, f"way is none of {', '.join(WAYS)}")
        _require(bool(self.resumed), "there is no incarnation")
        plain = all(isinstance(name, str) and os.path.basename(name) == name for name in self.digests)
        _require(
            plain and all(isinstance(one, str) for one in self.digests.values()), "digests are not by file name"
        )

    @property
    def components(self) -> tuple[str, ...]:
        """Every component that some rank must put back."""
        return tuple(dict.fromkeys(name for one in self.resumed for own in one.ranks.values() for name in own))

    def of(self, launch: int, restart: int) -> Resumed | None:
        """What an incarnation must put back; None for one that must not."""
        return next((one for one in self.resumed if (one.launch, one.restart) == (launch, restart)), None)


class _KeepOrder(TypedDict):
    positions: tuple[int, ...]
    components: tuple[str, ...]


class _PutBackOrder(TypedDict):
    moment: str
    way: str
    digests: Mapping[str, str]
    resumed: tuple[Resumed, ...]


class _EveryOrder(TypedDict):
    format: int
    directory: str


class StoredOrder(_EveryOrder, total=False):
    """The content of the file: one of the two."""

    keep: _KeepOrder
    put_back: _PutBackOrder


def write(order: Keep | PutBack, run_dir: Path) -> None:
    """Write the file. Raises OSError where that fails."""
    content: dict[str, Any] = {"format": FORMAT, "directory": order.directory}
    if isinstance(order, Keep):
        content["keep"] = {"positions": list(order.positions), "components": list(order.components)}
    else:
        content["put_back"] = {
            "moment": order.moment,
            "way": order.way,
            "digests": dict(order.digests),
            "resumed": [
                {
                    "launch": one.launch,
                    "restart": one.restart,
                    "position": one.position,
                    "ranks": {str(rank): list(own) for rank, own in one.ranks.items()},
                }
                for one in order.resumed
            ],
        }
    (run_dir / NAME).write_text(json.dumps(content, indent=1) + "\n")


def read(run_dir: Path) -> Keep | PutBack | None:
    """What the file says; None where there is none. Raises ValueError for anything that was not written so."""
    try:
        told = conform(StoredOrder, read_value(run_dir / NAME))
        if told["format"] != FORMAT:
            raise ValueError(f"is of format {told['format']}, this chaoskit reads {FORMAT}")
        if (keep := told.get("keep")) is not None:
            return Keep(told["directory"], keep["positions"], keep["components"])
        if (put := told.get("put_back")) is not None:
            return PutBack(told["directory"], put["resumed"], put["digests"], put["moment"], put["way"])
        raise ValueError("has neither keep nor put_back")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{NAME} {why_unread(error)}") from error
    except ValueError as error:
        raise ValueError(f"{NAME}: {error}") from error


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
