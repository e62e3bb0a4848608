"""Which files of one checkpoint hold the same bytes: hard links of one file, and copies such as `best.pt`.

A job that publishes a checkpoint under several names reads one of them. Damage to the medium of a file shows under
every name that it has, so a fault that strikes one name alone strikes nothing that the job reads.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path


def copied_files(out: Path, names: Sequence[str], written: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """For each file that has copies among `names`, their names. Files that saving calls wrote (`written`) are no
    copies of each other, however alike: they are parts of the checkpoint, as of two ranks that hold the same."""
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        others = (other for other in names if other != name)
        alike = tuple(
            other for other in others if _same(out / name, out / other, links_only={name, other} <= set(written))
        )
        if alike:
            found[name] = alike
    return found


def _same(one: Path, other: Path, *, links_only: bool) -> bool:
    """Whether both hold the same bytes; with `links_only` only where they are one file. Empty files hold nothing."""
    try:
        if os.path.samefile(one, other):
            return True
        return not links_only and one.stat().st_size > 0 and filecmp.cmp(one, other, shallow=False)
    except OSError:  # gone, or not readable
        return False
