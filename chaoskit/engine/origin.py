"""The mark of a stored run: shows that this user recorded it on this machine, in this directory, and that nobody has
changed its job since.

A stored run says which command repeats it. Whoever gets a run from elsewhere must see that command before it runs. A
name of a user or a machine in the run would prove nothing, so the mark is a code made with a key that never leaves the
user's own directory (`$XDG_STATE_HOME/chaoskit/key`, by default below ~/.local/state).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: What a replay does follows from these fields of run.json.
_MARKED = ("id", "experiment", "environment", "job", "schedule")
_BYTES = 32


def mark(run_dir: Path, record: Mapping[str, Any]) -> str:
    """The mark of a run with this run.json; "" where the user has no directory for the key."""
    key = _key(make=True)
    return _code(key, run_dir, record) if key is not None else ""


def recorded_here(run_dir: Path, record: Mapping[str, Any]) -> bool:
    """Whether the run has the mark that it would get here."""
    key, told = _key(make=False), record.get("mark")
    if key is None or not isinstance(told, str) or not told.isascii():
        return False
    return hmac.compare_digest(told, _code(key, run_dir, record))


def _code(key: bytes, run_dir: Path, record: Mapping[str, Any]) -> str:
    content = [socket.gethostname(), os.getuid(), str(run_dir.resolve()), [record.get(name) for name in _MARKED]]
    return hmac.new(key, json.dumps(content, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _key(*, make: bool) -> bytes | None:
    """The key of this user. None where there is none, where others could have written it, or it cannot be made."""
    try:
        path = _directory() / "key"
        if make and not path.exists():
            _make(path)
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            content = file.read(_BYTES)
    except (OSError, RuntimeError):
        return None
    own = about.st_uid == os.getuid() and not about.st_mode & 0o077
    return content if own and len(content) == _BYTES else None


def _directory() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "chaoskit"


def _make(path: Path) -> None:
    """Several processes may do this at once: the first one's key stays."""
    above = next(parent for parent in path.parents if parent.exists())
    if above.stat().st_uid != os.getuid():
        return  # somebody else's, as with sudo: they could not read what we would make there
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".key.{os.getpid()}.{secrets.token_hex(4)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, secrets.token_bytes(_BYTES))
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.close(fd)
        draft.unlink(missing_ok=True)
