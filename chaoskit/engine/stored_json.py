"""The JSON files of the store: each has a `format`, and one that cannot be read is refused with one sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaoskit.errors import ExitCode, StoreError

FORMAT = 1


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a file; a reader sees either the old content or the new one. Raises OSError where it cannot."""
    text = json.dumps({"format": FORMAT, **content}, indent=1) + "\n"
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def read_json(path: Path, *, missing: str) -> dict[str, Any]:
    """The content of a file; raises StoreError, which says `missing` if there is no such file."""
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise unreadable(path.parent if path.name == "run.json" else path, missing) from error
    except (ValueError, OSError) as error:
        raise unreadable(
            path, "is truncated or no JSON", "it was damaged, or chaoskit did not write it"
        ) from error
    if not isinstance(data, dict) or "format" not in data:
        raise unreadable(path, "is JSON, but chaoskit did not write it (it has no format)")
    if data["format"] != FORMAT:
        remedy = "read it with the chaoskit that wrote it"
        raise unreadable(path, f"is of format {data['format']!r}, this chaoskit reads {FORMAT}", remedy)
    del data["format"]
    return data


def unreadable(path: Path, what: str, remedy: str = "") -> StoreError:
    """The error for a file or directory that is not one of the store's."""
    return StoreError(f"{path} {what}" + (f": {remedy}" if remedy else ""), path=str(path))


def disk_full(root: Path, what: str) -> StoreError:
    """The error for a store on a full disk."""
    remedy = "make room, run 'chaoskit clean --all', or give another directory with --dir (in pytest: --chaos-dir)"
    message = f"the disk under {root} is full ({what}): {remedy}"
    return StoreError(message, path=str(root), exit_code=ExitCode.INTERNAL)
