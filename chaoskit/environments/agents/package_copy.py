"""`copy_of`: a copy of chaoskit in the store, for nodes that do not see the one that runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from chaoskit.environments.launch import surroundings
from chaoskit.environments.launch.rank_modules import PACKAGE
from chaoskit.files.removal import remove

#: Where a store keeps them.
COPIES = "for-containers"


def path_of_copy(path: Path, store: Path) -> Path:
    """Where the copy is, or would be."""
    stamp = [[str(each), each.stat().st_mtime_ns] for each in sorted(PACKAGE.rglob("*.py"))]
    return store / COPIES / surroundings.digest(stamp) / path.name


def copy_of(path: Path, store: Path) -> Path:
    """A copy of a file or directory of ours in `store`, made once for each state of the package."""
    copy = path_of_copy(path, store)
    if not copy.exists():
        draft = copy.with_name(f"{path.name}-{os.getpid()}")
        for directory in (store / COPIES, draft.parent):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)  # the user of an image reads it; it holds chaoskit alone
        if path.is_dir():
            shutil.copytree(path, draft, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(path, draft)
        try:
            os.rename(draft, copy)
        except OSError:  # somebody else was faster
            remove(draft, within=store)
    return copy
