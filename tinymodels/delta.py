"""Delta checkpoints: of each file of tensors, only in which bits it differs from the same file one checkpoint before.

    step-00000010/sharded/__0_0.distcp          full
    step-00000020/sharded/__0_0.distcp.delta    what makes __0_0.distcp of step 20 out of that of step 10
    step-00000030/sharded/__0_0.distcp.delta    and of step 30 out of that of step 20

Two floats that are close share their sign, exponent and first digits: their exclusive or begins with zeros, which
compress well. It is exact whatever the tensors hold, and knows nothing of them. It saves room for those that are kept,
not the writing: a rank writes its file whole first. The price is that a link which is damaged takes with it all that
hang on it, so there is a full one every so often (--delta-every).
"""

import errno
import hashlib
import zlib
from pathlib import Path

import numpy

from tinymodels.durable import write_bytes
from tinymodels.manifest import NAME, Invalid, Manifest, check, name_of, own_files, read

SUFFIX = ".delta"
DIGEST = 32  # bytes


def encode(base: bytes, new: bytes) -> bytes:
    """What `decode` makes `new` out of `base` with."""
    return hashlib.blake2b(new, digest_size=DIGEST).digest() + zlib.compress(crossed(base, new), 1)


def decode(base: bytes, delta: bytes) -> bytes:
    """The new content, to the bit; ValueError if it is not what was encoded, or the base is another."""
    try:
        new = crossed(base, zlib.decompress(delta[DIGEST:]))
    except zlib.error as problem:
        raise ValueError(f"a delta cannot be unpacked: {problem}") from None
    if hashlib.blake2b(new, digest_size=DIGEST).digest() != delta[:DIGEST]:
        raise ValueError("a delta does not fit its base")
    return new


def crossed(base: bytes, content: bytes) -> bytes:
    """The content with the base's bits turned over in it, as far as there is a base. Twice is as before."""
    mixed = numpy.frombuffer(content, numpy.uint8).copy()
    shared = min(len(base), len(mixed))
    mixed[:shared] ^= numpy.frombuffer(base, numpy.uint8, shared)
    return mixed.tobytes()


def shrink(folder: Path, base: Path, rank: int) -> None:
    """This rank's files of tensors become deltas. A base that is damaged is told as an OSError: write a full one."""
    for path in list(own_files(folder, rank)):
        if path.suffix != ".distcp":
            continue
        name = path.relative_to(folder).as_posix()
        try:
            before = whole(base, name)
        except (ValueError, Invalid) as problem:
            raise OSError(errno.EIO, f"no delta to {base.name}: {problem}") from None
        write_bytes(path.with_name(path.name + SUFFIX), encode(before, path.read_bytes()))
        path.unlink()


def whole(folder: Path, name: str) -> bytes:
    """A file of tensors, put together from its chain; empty if there is none. `Invalid` if it was damaged."""
    manifest = read(folder)
    for listed in (name, name + SUFFIX):
        if (entry := manifest["files"].get(listed)) is not None:
            check(folder / listed, listed, entry)
            content = (folder / listed).read_bytes()
            return content if listed == name else decode(whole(base_of(folder, manifest), name), content)
    return b""


def base_of(folder: Path, manifest: Manifest) -> Path:
    return folder.with_name(name_of(manifest["base"]["step"]))


def chain(folder: Path) -> list[Path]:
    """A checkpoint and all that it hangs on, down to the full one. `Invalid`, with the name of the broken link."""
    links = [folder]
    manifest = read(folder)
    while (base := manifest.get("base")) is not None:
        last, link = links[-1], base_of(folder, manifest)
        if not base["step"] < manifest["step"]:
            raise Invalid(f"{last.name} hangs on {link.name}, which is no older")
        try:
            manifest = read(link)
        except Invalid as problem:
            raise type(problem)(f"it hangs on {link.name}, and there {problem}") from None
        if manifest["checksum"] != base["checksum"]:
            raise Invalid(f"it hangs on {link.name}, which is not the one that it was made from ({NAME} differs)")
        links.append(link)
    return links
