"""Which crashes are looked at: after how many operations, and what is missing then.

Every subset of what nothing has forced may be missing, and those are too many. Looked at is what programs get wrong:
each thing lost alone, each kept alone, all lost, all of one session lost, a write that was torn, and a few at random.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from chaoskit.analysis.crash_model.disk import Disk, Fate, Gone, Left, Missing, Pending, Torn
from chaoskit.protocol.io_journal import Operation

#: From the mildest to the harshest: each allows all that those before it allow.
PROFILES = ("kill", "ext4", "posix")
SECTOR, PAGE = 512, 4096
#: So many at random, of what there are too many of.
FEW = 3
#: At most so many places at which the journal of the file system may have ended.
COMMITS = 8

#: What a `Crash` takes, and how hard it is to tell of.
WEIGHTS = {
    "none": 0,  # nothing
    "data": 1,  # the data of file `which`; of operations before number `since` nothing
    "torn": 1,  # a part of the write `which`
    "write": 1,  # the bytes of the write `which`
    "name": 1,  # the operation on names `which`, and what rests on it
    "late": 2,  # operations on names from `which` on, and what was written since but for overwrites in place
    "session": 3,  # all that session `which` did
    "only": 3,  # everything but the operation on names `which` and what it rests on
    "data-all": 4,  # the data of every file
    "names-all": 4,  # every operation on names
    "all": 5,
    "random": 6,  # of everything a part, drawn with the seed `which`
}


class Crash(NamedTuple):
    """A crash after `done` operations, and the mildest profile that allows what it takes: see `WEIGHTS`. Only what
    nothing has forced, under that profile, is ever taken."""

    profile: str
    done: int
    kind: str
    which: int = 0
    left: Left = "old"
    since: int = 0
    torn: Torn | None = None


def stage_ends(operations: Sequence[Operation], first: int, last: int) -> frozenset[int]:
    """The counts of operations from `first` to `last` between which there is no run of writes."""
    return frozenset(
        done
        for done in range(first, last + 1)
        if done in (first, last) or not operations[done - 1].kind == operations[done].kind == "write"
    )


def crashes(disk: Disk, *, first: int, last: int, seed: int) -> Iterator[Crash]:
    """Every crash that is looked at, in the order of the operations. Inside a run of writes that is nothing lost, all
    bytes lost, and what concerns the file being written; the whole list where the run begins and ends."""
    ends = stage_ends(disk.log.operations, first, last)
    for done in range(first, last + 1):
        yield Crash("kill", done, "none")
        latest = disk.log.operations[done - 1] if done > first else None
        yield from _ext4(disk, done, latest, done in ends, seed)
        yield from _posix(disk, done, latest, done in ends, seed)


def _ext4(disk: Disk, done: int, latest: Operation | None, end: bool, seed: int) -> Iterator[Crash]:
    pending = disk.pending(done, "ext4")
    if pending.data and end:
        yield Crash("ext4", done, "data-all", left="cut")
    for file, ops in pending.data.items():
        if not end and (latest is None or latest.file != file):
            continue
        yield Crash("ext4", done, "data", file, "cut")
        if ops[-1].kind == "write":
            cuts = _cuts(ops[-1], PAGE)
            for cut in cuts if latest is ops[-1] else _middle(cuts):
                yield Crash("ext4", done, "torn", ops[-1].n, "torn", torn=Torn(0, cut, False))
        if latest is ops[-1] and disk.overwrites(latest, ops):
            for n in _some(pending.names, COMMITS, seed, done):
                yield Crash("ext4", done, "late", n)
        tail = [
            one.n for place, one in enumerate(ops) if place and not any(o.kind != "write" for o in ops[place:])
        ]
        for n in _some(tail, FEW, seed, done) if end else ():
            yield Crash("ext4", done, "data", file, "cut", since=n)
    if end and len(pending.data) > 1:
        yield from _at_random("ext4", done, seed)


def _posix(disk: Disk, done: int, latest: Operation | None, end: bool, seed: int) -> Iterator[Crash]:
    pending = disk.pending(done, "posix")
    if end and (pending.names or pending.data):
        yield Crash("posix", done, "all")
        yield Crash("posix", done, "names-all")
        yield Crash("posix", done, "data-all", left="old")
    if pending.data:
        yield Crash("posix", done, "data-all", left="zeros")
    for file, ops in pending.data.items():
        if not end and (latest is None or latest.file != file):
            continue
        yield Crash("posix", done, "data", file, "old")
        yield Crash("posix", done, "data", file, "zeros")
        if any(one.kind == "truncate" for one in ops):
            yield Crash("posix", done, "data", file, "cut")
        writes = [one for one in ops if one.kind == "write"]
        if writes:
            yield from _torn(writes[-1], done, briefly=writes[-1] is not latest)
        if end and len(writes) > 1:
            for n in _some([one.n for one in writes], FEW, seed, done):
                yield Crash("posix", done, "write", n, "some")
    if not end:
        return
    for n in pending.names:
        yield Crash("posix", done, "name", n)
        yield Crash("posix", done, "only", n)
    every = [disk.log.operations[n] for n in pending.names] + [one for ops in pending.data.values() for one in ops]
    sessions = sorted({one.session for one in every})
    for session in sessions if len(sessions) > 1 else ():
        yield Crash("posix", done, "session", session, "old")
        yield Crash("posix", done, "session", session, "zeros")
    if len(every) > 1:
        yield from _at_random("posix", done, seed)


def _at_random(profile: str, done: int, seed: int) -> Iterator[Crash]:
    draw = Random(f"{seed} {profile} {done}")
    return (Crash(profile, done, "random", draw.getrandbits(32)) for _ in range(FEW))


def _torn(write: Operation, done: int, *, briefly: bool) -> Iterator[Crash]:
    """A write of which only the sectors or pages up to some boundary came through, or only those past it."""
    cuts = _cuts(write, SECTOR)
    pages = _cuts(write, PAGE)
    middle = _middle(pages or cuts)
    for cut in middle if briefly else sorted({*cuts, *pages}):
        for sized in (False, True):
            yield Crash("posix", done, "torn", write.n, "torn", torn=Torn(0, cut, sized))
    for cut in middle:
        yield Crash("posix", done, "torn", write.n, "torn", torn=Torn(cut, write.size, True))


def _cuts(write: Operation, grain: int) -> list[int]:
    """The first boundary of this grain inside a write, the one in the middle and the last: so many bytes into it."""
    inside = range((write.offset // grain + 1) * grain, write.offset + write.size, grain)
    found = {inside[0], inside[len(inside) // 2], inside[-1]} if inside else set()
    return sorted(boundary - write.offset for boundary in found)


def _middle(cuts: Sequence[int]) -> Sequence[int]:
    return cuts[len(cuts) // 2 :][:1]


def _some(numbers: Sequence[int], most: int, seed: int, done: int) -> Sequence[int]:
    if len(numbers) <= most:
        return numbers
    return sorted(Random(f"{seed} {done} {numbers[0]}").sample(numbers, most))


def missing(disk: Disk, crash: Crash) -> Missing:
    """What a crash took, in full."""
    done, which, left = crash.done, crash.which, crash.left
    pending = disk.pending(done, "ext4" if crash.profile == "ext4" else "posix")
    match crash.kind:
        case "data":
            return Missing(data={which: Gone(left, max(crash.since, pending.data[which][0].n))})
        case "torn" | "write":
            fate: Fate | Torn = crash.torn or "sized"
            return Missing(data={disk.log.operations[which].file: Gone(left, which, fates={which: fate})})
        case "name":
            return Missing(_with_what_rests(disk, [which], done))
        case "only":
            kept = {which, *disk.log.naming[which].needs}
            return Missing(frozenset(n for n in pending.names if n not in kept), _all(pending, left))
        case "session":
            own = [n for n in pending.names if disk.log.operations[n].session == which]
            data = {
                file: Gone(left, ops[0].n, session=which)
                for file, ops in pending.data.items()
                if any(one.session == which for one in ops)
            }
            return Missing(_with_what_rests(disk, own, done), data)
        case "late":
            return _late(disk, crash)
        case "random":
            return _random(disk, crash)
        case "data-all":
            return Missing(data=_all(pending, left))
        case "names-all":
            return Missing(frozenset(pending.names))
        case "all":
            return Missing(frozenset(pending.names), _all(pending, left))
    return Missing()


def _all(pending: Pending, left: Left) -> dict[int, Gone]:
    return {file: Gone(left, ops[0].n) for file, ops in pending.data.items()}


def _with_what_rests(disk: Disk, names: Iterable[int], done: int) -> frozenset[int]:
    return frozenset(n for name in names for n in (name, *disk.log.naming[name].holds) if n < done)


def _late(disk: Disk, crash: Crash) -> Missing:
    """The journal of the file system ended before operation `which`. Blocks that a file has had before are written in
    place, whether or not it went on; nothing else that came later can be there."""
    names = frozenset(n for n in disk.pending(crash.done, "ext4").names if n >= crash.which)
    data = {}
    for file, ops in disk.data.items():
        pending = disk.pending(crash.done, "ext4").data.get(file, ())
        later = [one for one in ops if crash.which < one.n < crash.done]
        fates: dict[int, Fate | Torn] = {one.n: "lost" for one in later if not disk.overwrites(one, pending)}
        if fates:
            data[file] = Gone("some", crash.which, fates=fates)
    return Missing(names, data)


def _random(disk: Disk, crash: Crash) -> Missing:
    draw = Random(crash.which)
    pending = disk.pending(crash.done, crash.profile)
    share = draw.choice((0.25, 0.5, 0.75))
    data: dict[int, Gone] = {}
    for file, ops in pending.data.items():
        if draw.random() < share:
            cut = any(one.kind != "write" for one in ops)
            data[file] = Gone("cut", ops[0 if cut else draw.randrange(len(ops))].n)
            if crash.profile == "posix":
                fates: dict[int, Fate | Torn] = {
                    one.n: "sized" for one in ops if one.kind == "write" and draw.random() < share
                }
                some = Gone("some", ops[0].n, fates=fates)
                data[file] = draw.choice((Gone("old", ops[0].n), Gone("zeros", ops[0].n), data[file], some))
    if crash.profile == "ext4":
        return Missing(data=data)
    return Missing(_with_what_rests(disk, [n for n in pending.names if draw.random() < share], crash.done), data)
