"""Every stored file that chaoskit reads again: where it lies, its type, and what reads it.

`tests/test_stored_formats.py` makes valid and damaged ones, `benchmarks/fuzz_readers.py` makes bytes guided
by the coverage of the readers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit import checks, faults
from chaoskit.analysis.record.history import History
from chaoskit.engine.kept_state import KeptRecord
from chaoskit.engine.reference_store import ReferenceRecord
from chaoskit.engine.run_store import JudgedRecord, RunRecord, Store
from chaoskit.engine.runner import stored
from chaoskit.engine.stored_json import read_json
from chaoskit.environments.cgroups import run_groups
from chaoskit.environments.kubernetes import intents
from chaoskit.environments.kubernetes.objects import NAME as OBJECTS
from chaoskit.environments.machine import scratch, sweep
from chaoskit.errors import ChaoskitError
from chaoskit.protocol import putting_back
from chaoskit.protocol.io_journal import Journal, JournalError
from chaoskit.studies.nights.archive import Archive

#: What a reader may raise: one sentence for the user.
SENTENCES = (ChaoskitError, JournalError)


@dataclass(frozen=True)
class Format:
    """The file at `place` below a store, what `read` makes of it (given the store and the file), and the errors that it
    `raises`, as its docstring says."""

    place: str
    read: Callable[[Path, Path], Any]
    raises: tuple[type[Exception], ...] = SENTENCES

    def made_in(self, root: Path) -> Path:
        """The path of the file below a store, its directory made."""
        path = root / self.place
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _replayed(root: Path, path: Path) -> None:
    """The faults of a stored schedule, as `replay` makes them."""
    for fault in Store(root).read(path.parent)["schedule"]:
        faults.from_json(fault)


def _judged(root: Path, path: Path) -> None:
    """The checks of stored verdicts, as `analyze` makes them."""
    for check in Store(root).read_verdicts(path.parent).checks:
        checks.from_json(check)


FORMATS = (
    Format("suites/x.jsonl", lambda root, path: Archive(Store(root / "elsewhere")).read(path)),
    Format("runs/x/events/rank-0.jsonl", lambda root, path: History.read(path.parents[1])),
    Format("runs/x/events/harness.jsonl", lambda root, path: History.read(path.parents[1])),
    Format(
        "runs/x/run.json",
        lambda root, path: (read_json(path, RunRecord, missing=""), stored(path.parent, Store(root))),
    ),
    Format("runs/x/verdicts.json", lambda root, path: read_json(path, JudgedRecord, missing="")),
    Format("runs/x/putting-back.json", lambda root, path: putting_back.read(path.parent), (ValueError,)),
    Format("runs/x/journal/operations.jsonl", lambda root, path: Journal.read(path.parents[1])),
    Format(
        "suites/baselines/x.json",
        lambda root, path: Archive(Store(root))._baseline("x", root / "suites" / "s.jsonl"),
    ),
    Format(
        "suites/conditions/x.json",
        lambda root, path: Archive(Store(root))._conditions("x", root / "suites" / "s.jsonl"),
    ),
    Format("night.json", lambda root, path: Archive(Store(root)).read(path)),
    Format("references/x/reference.json", lambda root, path: read_json(path, ReferenceRecord, missing="")),
    Format("references/x/kept/kept.json", lambda root, path: read_json(path, KeptRecord, missing="")),
    Format("runs/schedule/run.json", _replayed),
    Format("runs/checks/verdicts.json", _judged),
    # These are read to clean up: what cannot be read says nothing.
    Format("swept/runs/x/run.json", lambda root, path: list(sweep._unfinished(path.parents[2])), ()),
    Format(f"runs/x/{OBJECTS}", lambda root, path: intents.left(path), ()),
    Format("runs/x/owner.json", lambda root, path: scratch.is_abandoned(path.parent), ()),
    Format(f"runs/x/{run_groups.NAME}", lambda root, path: run_groups.remove_left(path.parent, "x"), ()),
)
