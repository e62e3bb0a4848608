"""`certified`: the runs that the evidence of a certificate in the store names, so that retention leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from chaoskit.engine.run_store import Store
from chaoskit.files.private import make_directories
from chaoskit.files.whole_files import replace_file
from chaoskit.protocol.stored_files import read_value
from chaoskit.schema import conform

DIRECTORY = "certificates"


class KeptCertificate(TypedDict):
    """What retention reads of a certificate."""

    valid_until: str
    evidence: Mapping[str, str]


def keep(store: Store, name: str, text: str) -> Path:
    """Keep a certificate in the store, beside its evidence. Raises StoreError where the store cannot be written."""
    store.prepare()
    path = store.root / DIRECTORY / f"{name}.json"
    with store.writing():
        make_directories(path.parent)
        replace_file(path, text.encode())
    return path


def certified(store: Store, *, now: datetime | None = None) -> frozenset[str]:
    """The ids of the runs of all certificates that are still valid; a file that cannot be read names none."""
    now = now or datetime.now(UTC)
    found: set[str] = set()
    for path in sorted((store.root / DIRECTORY).glob("*.json")):
        try:
            told = conform(KeptCertificate, read_value(path))
            if datetime.fromisoformat(told["valid_until"]) >= now:
                found |= told["evidence"].keys()
        except (OSError, ValueError, TypeError):
            continue
    return frozenset(found)
