"""`Checkpoint`: everything that one incarnation wrote at one position."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Checkpoint:
    """All that one incarnation wrote at one position.

    `ended` is None while a call was open; `complete` says that every rank that should have written has done so
    without an error; `settled_at` is None where it never settled. It is `hindered` if a fault had the storage fail
    meanwhile: then it never settled as far as anybody knows, and may be a checkpoint although a write of it failed, for
    the job may have tried again elsewhere. Times as in the events.
    """

    position: int
    incarnation: int
    begun: float
    ended: float | None
    ok: bool
    complete: bool
    settled_at: float | None
    paths: frozenset[str]
    hindered: bool = False

    @property
    def kinds(self) -> frozenset[str]:
        """The paths with their numbers taken out, which tells 'best.pt' from 'step-40.pt'."""
        return frozenset(re.sub(r"\d+", "#", "/".join(PurePosixPath(path).parts[-2:])) for path in self.paths)
