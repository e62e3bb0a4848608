"""`swept`: removes from clusters what dead harnesses have left, as the journals of stored runs say where."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chaoskit.environments.kubernetes.cluster import connection_to
from chaoskit.environments.kubernetes.intents import IntentJournal, left
from chaoskit.environments.kubernetes.objects import NAME, sweep
from chaoskit.environments.machine import owner
from chaoskit.errors import ChaoskitError, UsageError
from chaoskit.nodes import ClusterPlace
from chaoskit.protocol.stored_files import read_value

_GLOBS = (f"runs/*/{NAME}", f"references/*/*/{NAME}", f"runs/*/slots/*/{NAME}")


def swept(root: Path) -> tuple[str, ...]:
    """Sweep each namespace in which a run below `root` may have left something; returns what was removed, for people.

    Raises ChaoskitError where a cluster cannot be reached, and where something cannot be removed.
    """
    removed: list[str] = []
    kept: list[str] = []
    done: dict[tuple[str, ...], bool] = {}
    for journal, place in _unfinished(root):
        key = (place.context, place.kubeconfig, place.namespace)
        if key not in done:
            reports = sweep(connection_to(place), place.namespace)
            removed += [f"{name} in namespace {place.namespace}" for report in reports for name in report.removed]
            trouble = [sentence for report in reports for sentence in report.sentences]
            kept += trouble
            done[key] = not trouble
        if done[key]:
            _note_done(journal)
    if kept:
        raise ChaoskitError("; ".join(kept))
    return tuple(removed)


def _unfinished(root: Path) -> Iterator[tuple[Path, ClusterPlace]]:
    """The journals of runs whose harness is dead and that may have left something, and where. What cannot be read says
    nothing."""
    for journal in (path for pattern in _GLOBS for path in sorted(root.glob(pattern))):
        try:
            record = read_value(journal.parent / "run.json")
            place = ClusterPlace.from_json(record["job"]["cluster"])
            if owner.is_dead(record.get("owner")) and left(journal):
                yield journal, place
        except (OSError, ValueError, KeyError, TypeError, UsageError):
            continue


def _note_done(path: Path) -> None:
    journal = IntentJournal(path)
    journal.done()
    journal.close()
