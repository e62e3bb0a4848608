"""Retention: which stored runs stay, how much of the disk they may hold, and what `chaoskit clean --all` removes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaoskit.engine.certified_runs import certified
from chaoskit.engine.run_store import Store
from chaoskit.environments.machine import owner
from chaoskit.errors import StoreError
from chaoskit.files import long_logs
from chaoskit.files.disk_use import held, shown
from chaoskit.files.removal import Removed, lies_in, remove
from chaoskit.protocol import io_journal

#: How many passed runs are kept.
KEPT = 50
#: From this share of its limit on a store is nearly full; a disk is, with less space than this, in bytes.
NEARLY, LOW = 0.8, 1 << 30


@dataclass
class Cleaned:
    """What was removed: how many runs and references, and how much of the disk is free again. `left` has a sentence
    about each thing that could not be removed; `busy` are the runs and references that somebody works on."""

    runs: int = 0
    references: int = 0
    freed: int = 0
    left: list[str] = field(default_factory=list)
    busy: int = 0

    def add(self, removed: Removed) -> bool:
        """Count a removal; returns whether nothing is left."""
        self.freed += removed.freed
        self.left += removed.left
        return not removed.left

    def __str__(self) -> str:
        return f"{_counted(self.runs, 'stored run')} and {_counted(self.references, 'reference')}"


def keep(store: Store, newest: int = KEPT, *, spare: Collection[str] = (), limit: int | None = None) -> Cleaned:
    """Remove the passed runs except for the newest, the evidence of a valid certificate, and those whose ids are in
    `spare`; of these remove `out/`, the bytes of the journal, and the middle of long logs. Other runs stay, unless the
    store holds more than `limit` bytes: then the oldest things go, passed runs first, then references of no spared run,
    then all other runs but the spared.
    """
    cleaned = Cleaned()
    spare = {*spare, *certified(store)}
    passed, others = _idle_runs(store)
    old = [run_dir for run_dir in passed[: max(0, len(passed) - newest)] if run_dir.name not in spare]
    for run_dir in old:
        cleaned.runs += cleaned.add(remove(run_dir, within=store.root))
    for run_dir in (run_dir for run_dir in passed if run_dir not in old and lies_in(run_dir, store.root)):
        for left in (run_dir / "out", *run_dir.glob("aside-*"), run_dir / io_journal.NAME / "data"):
            cleaned.add(remove(left, within=store.root))
        for log in long_logs.logs_below(run_dir / "logs"):
            with suppress(OSError):  # another user's
                cleaned.freed += long_logs.cut_middle(log, limit=long_logs.OF_A_PASS)
    if limit is not None:
        passed, others = (
            [each for each in runs if each not in old and each.name not in spare] for runs in (passed, others)
        )
        _shrink(store, passed, others, limit, cleaned)
    return cleaned


def _shrink(store: Store, passed: Sequence[Path], others: Sequence[Path], limit: int, cleaned: Cleaned) -> None:
    """Remove of these runs, and of the references that only they need, as many as the limit demands."""
    excess = held(store.root) - limit
    needed = {_reference_of(store, run_dir) for run_dir in store.all_runs() if run_dir not in (*passed, *others)}
    references = [path for path in _idle_references(store) if path.name not in needed]
    for path in (*passed, *references, *others):
        if excess <= 0:
            return
        before = cleaned.freed
        is_gone = cleaned.add(remove(path, within=store.root))
        excess -= cleaned.freed - before
        if path in references:
            cleaned.references += is_gone
        else:
            cleaned.runs += is_gone


def _reference_of(store: Store, run_dir: Path) -> str:
    try:
        return str(store.read(run_dir)["reference"])
    except StoreError:
        return ""


def clear(store: Store) -> Cleaned:
    """Remove every stored run and reference that no process is working on."""
    cleaned = Cleaned()
    every, references = store.all_runs(), _references(store)
    runs = [run_dir for run_dir in every if not _in_use(store, run_dir)]
    idle = _idle_references(store)
    for run_dir in runs:
        cleaned.runs += cleaned.add(remove(run_dir, within=store.root))
    for reference in idle:
        cleaned.references += cleaned.add(remove(reference, within=store.root))
    for crash in store.root.glob("crash-*.txt"):
        cleaned.add(remove(crash, within=store.root))
    cleaned.busy = len(every) - len(runs) + len(references) - len(idle)
    return cleaned


def nearly_full(store: Store, limit: int | None) -> str | None:
    """Why there may soon be no space for another run, and what to do; None if there is enough."""
    with suppress(OSError):
        if limit is not None and (now := held(store.root)) > NEARLY * limit:
            return (
                f"the stored runs in {store.root} hold {shown(now)}, and the limit is {shown(limit)}: at the end of a "
                "session the oldest are removed; raise --store-limit to keep more"
            )
        free = shutil.disk_usage(store.root).free
        if free < LOW:
            return (
                f"the disk under {store.root} has {shown(free)} left, and the stored runs hold "
                f"{shown(held(store.root))}: run 'chaoskit clean --all', or give another directory with --dir"
            )
    return None


def _idle_runs(store: Store) -> tuple[list[Path], list[Path]]:
    """The runs that nobody works on, the oldest first: those that passed, and the others."""
    passed: list[Path] = []
    others: list[Path] = []
    for run_dir in store.all_runs():
        try:
            run = store.read(run_dir)
            if run["status"] == "running" or _is_busy(run["owner"]):
                continue
        except StoreError:
            continue  # it may be another tool's
        try:
            (passed if store.read_verdicts(run_dir).passed else others).append(run_dir)
        except StoreError:
            others.append(run_dir)
    return passed, others


def _references(store: Store) -> list[Path]:
    """The references, the oldest first."""
    found = [path for path in store.references.iterdir() if path.is_dir()] if store.references.is_dir() else []
    return sorted(found, key=lambda path: path.lstat().st_mtime)


def _idle_references(store: Store) -> list[Path]:
    return [path for path in _references(store) if not any(_in_use(store, control) for control in path.iterdir())]


def _in_use(store: Store, run_dir: Path) -> bool:
    try:
        run = store.read(run_dir)
    except StoreError:
        return False
    return run["status"] == "running" and _is_busy(run["owner"])


def _is_busy(who: Mapping[str, Any]) -> bool:
    """Whether another process, still alive, owns the run."""
    return who.get("pid") != os.getpid() and not owner.is_dead(who)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
