"""Files that come back from a pod, packed: only regular files, only under the names that were asked for."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from chaoskit.errors import ChaoskitError

#: Bytes of all files together. A page of a run with many ranks has some megabytes.
MOST = 512 * 2**20


def pack(directory: Path) -> bytes:
    """The regular files below a directory, as a tar archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and not path.is_symlink():
                archive.add(path, arcname=path.relative_to(directory).as_posix(), recursive=False)
    return packed.getvalue()


def unpack(packed: bytes, wanted: Mapping[str, Path], *, appended: frozenset[str] = frozenset()) -> tuple[Path, ...]:
    """Write the files of an archive: `json` goes to `wanted["json"]`, and `report/a/b` to `a/b` below
    `wanted["report"]`. Those of `appended` names are added to a file that is there. Returns what was written.

    Raises ChaoskitError for an archive that cannot be read, for anything in it that is no regular file or has another
    name, and for a file that cannot be written.
    """
    written: list[Path] = []
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            for member in archive:
                path = _place(member, wanted)
                total += member.size
                if total > MOST:
                    raise ChaoskitError(f"the files of the pod have more than {MOST} bytes: the rest was not written")
                source = archive.extractfile(member)
                assert source is not None  # a regular file
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("ab" if member.name in appended else "wb") as file:
                    file.write(source.read())
                written.append(path)
    except (tarfile.TarError, OSError) as error:
        raise ChaoskitError(f"the files of the pod cannot be written here: {error}") from error
    return tuple(written)


def _place(member: tarfile.TarInfo, wanted: Mapping[str, Path]) -> Path:
    """Where a file goes. Raises ChaoskitError for what was not asked for."""
    parts = PurePosixPath(member.name).parts
    name, below = (parts[0], parts[1:]) if parts else ("", ())
    if not member.isreg() or name not in wanted or any(part in ("..", "/", "") for part in parts):
        raise ChaoskitError(f"the pod has sent {member.name!r}, which nobody has asked for: nothing of it was written")
    root = wanted[name]
    path = root.joinpath(*below)
    if below and root.resolve() not in path.resolve().parents:
        raise ChaoskitError(f"{path} is a link to another place: nothing was written there")
    return path
