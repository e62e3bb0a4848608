"""The JSON files of the store: each has a `format`, and one that cannot be read is refused with one sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from chaoskit.errors import ExitCode, StoreError
from chaoskit.files.whole_files import replace_file
from chaoskit.protocol.stored_files import read_value, why_unread
from chaoskit.schema import SchemaError, conform
from chaoskit.validation import shown

T = TypeVar("T")

FORMAT = 1


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a file; a reader sees either the old content or the new one. Raises OSError where it cannot."""
    replace_file(path, (json.dumps({"format": FORMAT, **content}, indent=1) + "\n").encode())


def read_json(path: Path, kind: type[T], *, missing: str) -> T:
    """The content of a file, of the type `kind` (see `chaoskit.schema`), without its format. Raises StoreError,
    which names the field that is wrong, or says `missing` if there is no such file."""
    try:
        data = read_value(path)
    except FileNotFoundError as error:
        raise unreadable(path.parent if path.name == "run.json" else path, missing) from error
    except OSError as error:
        raise unreadable(path, why_unread(error)) from error
    except ValueError as error:
        raise unreadable(
            path, "is truncated or no JSON", "it was damaged, or chaoskit did not write it"
        ) from error
    if not isinstance(data, dict) or "format" not in data:
        raise unreadable(path, "is JSON, but chaoskit did not write it (it has no format)")
    if data["format"] != FORMAT:
        remedy = "read it with the chaoskit that wrote it"
        raise unreadable(path, f"is of format {shown(data['format'])}, this chaoskit reads {FORMAT}", remedy)
    del data["format"]
    try:
        return conform(kind, data)
    except SchemaError as error:
        raise unreadable(path, f"is damaged ({error})", "restore it from a copy") from error


def unreadable(path: Path, what: str, remedy: str = "") -> StoreError:
    """The error for a file or directory that is not one of the store's."""
    return StoreError(f"{path} {what}" + (f": {remedy}" if remedy else ""), path=str(path))


def disk_full(root: Path, what: str) -> StoreError:
    """The error for a store on a full disk."""
    remedy = "make room, run 'chaoskit clean --all', or give another directory with --dir (in pytest: --chaos-dir)"
    message = f"the disk under {root} is full ({what}): {remedy}"
    return StoreError(message, path=str(root), exit_code=ExitCode.EXHAUSTED)
