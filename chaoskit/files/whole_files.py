"""`replace_file`: writes a file so that a reader sees the old content or the new one, and never half of it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

#: What is stored is for the user alone, whatever the umask.
PRIVATE = 0o600


def replace_file(path: Path, content: bytes, *, mode: int = PRIVATE) -> None:
    """Write the file and put it in the place of an older one. Raises OSError; then the older one is still there."""
    number, draft = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        os.chmod(draft, mode)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def usual_mode() -> int:
    """The mode that the umask of this process gives to a new file, for what the user hands to others."""
    umask = os.umask(0o077)
    os.umask(umask)
    return 0o666 & ~umask
