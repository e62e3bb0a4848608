"""Delta checkpoints hold, for each file of tensors, only the bits that differ from the checkpoint before.

    step-00000010/sharded/__0_0.distcp          full
    step-00000020/sharded/__0_0.distcp.delta    makes __0_0.distcp of step 20 out of that of step 10
    step-00000030/sharded/__0_0.distcp.delta    makes that of step 30 out of that of step 20

Two floats that are close share sign, exponent and leading digits, so their exclusive or begins with zeros and
compresses well. This is exact whatever the tensors hold. It saves disk space but no writing time: a rank writes the
whole file first. The price: a damaged delta makes all later ones in its chain useless, so every few checkpoints one
is full (--delta-every).
"""

import errno
import hashlib
import zlib
from pathlib import Path

import numpy

from tinymodels.checkpoints.durable import write_bytes
from tinymodels.checkpoints.manifest import NAME, Invalid, Manifest, check, folder_name, own_files, read

SUFFIX = ".delta"
DIGEST = 32  # bytes


def encode(base: bytes, new: bytes) -> bytes:
    """Return the delta from which `decode` makes `new` again, given `base`."""
    return hashlib.blake2b(new, digest_size=DIGEST).digest() + zlib.compress(xor(base, new), 1)


def decode(base: bytes, delta: bytes) -> bytes:
    """Return the new content, bit for bit. Raises ValueError if the delta is damaged or the base is another."""
    try:
        new = xor(base, zlib.decompress(delta[DIGEST:]))
    except zlib.error as problem:
        raise ValueError(f"a delta cannot be unpacked: {problem}") from None
    if hashlib.blake2b(new, digest_size=DIGEST).digest() != delta[:DIGEST]:
        raise ValueError("a delta does not fit its base")
    return new


def xor(base: bytes, content: bytes) -> bytes:
    """Return the content, exclusive or with the base as far as the base reaches. Doing it twice undoes it."""
    mixed = numpy.frombuffer(content, numpy.uint8).copy()
    shared = min(len(base), len(mixed))
    mixed[:shared] ^= numpy.frombuffer(base, numpy.uint8, shared)
    return mixed.tobytes()


def replace_by_deltas(folder: Path, base: Path, rank: int) -> None:
    """Replace this rank's files of tensors by deltas to a base. Raises OSError if the base is damaged."""
    for path in list(own_files(folder, rank)):
        if path.suffix != ".distcp":
            continue
        name = path.relative_to(folder).as_posix()
        try:
            before = reconstruct(base, name)
        except (ValueError, Invalid) as problem:
            raise OSError(errno.EIO, f"no delta to {base.name}: {problem}") from None
        write_bytes(path.with_name(path.name + SUFFIX), encode(before, path.read_bytes()))
        path.unlink()


def reconstruct(folder: Path, name: str) -> bytes:
    """Return a file of tensors, put together from its chain; empty if there is no such file."""
    manifest = read(folder)
    for stored in (name, name + SUFFIX):
        if (entry := manifest["files"].get(stored)) is not None:
            check(folder / stored, stored, entry)
            content = (folder / stored).read_bytes()
            if stored == name:
                return content
            return decode(reconstruct(base_of(folder, manifest), name), content)
    return b""


def base_of(folder: Path, manifest: Manifest) -> Path:
    return folder.with_name(folder_name(manifest["base"]["step"]))


def chain(folder: Path) -> list[Path]:
    """Return a checkpoint and all that it depends on, down to the full one. `Invalid` names the broken link."""
    links = [folder]
    manifest = read(folder)
    while (base := manifest.get("base")) is not None:
        last, link = links[-1], base_of(folder, manifest)
        if not base["step"] < manifest["step"]:
            raise Invalid(f"{last.name} depends on {link.name}, which is not older")
        try:
            manifest = read(link)
        except Invalid as problem:
            raise type(problem)(f"it depends on {link.name}, where {problem}") from None
        if manifest["checksum"] != base["checksum"]:
            raise Invalid(f"it depends on {link.name}, which has changed since ({NAME} differs)")
        links.append(link)
    return links
