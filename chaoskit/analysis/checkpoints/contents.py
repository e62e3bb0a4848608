"""The contents of checkpoints: what each save wrote, what each load returned, and whether they agree.

The source is the calls themselves, key by key, so renaming files does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from chaoskit.analysis.alignment.reads import Held, Saved, last_loads
from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.checkpoints.damage import altered_files, holds
from chaoskit.analysis.checkpoints.exports import parameters_of, saved_once
from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.record.rank_lifetime import RankLifetime, Save, Tensors
from chaoskit.analysis.reference.reference import Reference

#: What differs from one run to the next, or after a relaunch, without anything being wrong.
CLOCKS = re.compile(
    r"time(?!step)|(?<!up)date|elapsed|duration|second|clock|host|uuid|path|dir|mem|speed|throughput|pid|restart|attempt|launch|resum",
    re.IGNORECASE,
)
#: What counts the same however many ranks there are.
COUNTS = re.compile(r"tokens", re.IGNORECASE)
#: What averaged copies are called, by their keys or by the file that holds nothing else.
AVERAGES = ("ema", "average", "avg", "shadow", "swa", "target")
#: Tensors and whole numbers must be put back. A mean loss since the last log line need not.
TELLING = re.compile(r"[0-9a-f]{32}|=-?\d+")
TENSOR = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Altered:
    """Keys of one load whose values differ from those saved at `position`; `of` is the number of loaded keys.
    `position_read` is the position at which all of them were saved, if it is another one."""

    incarnation: int
    rank: int
    position: int
    keys: tuple[str, ...]
    of: int
    position_read: int | None = None

    def __str__(self) -> str:
        if self.position_read is not None:
            return (
                f"rank {self.rank} loaded what was saved at step {self.position_read} instead of {self.position}"
            )
        return (
            f"rank {self.rank} loaded values from the checkpoint of step {self.position} that differ from the "
            "saved ones: "
            f"{show_keys(self.keys, self.of)}"
        )


@dataclass(frozen=True)
class Unlike:
    """Keys of one save, at `position`, that differ from the reference's save there although the live state does not.

    `live` says that they are copies of live state, so that the save wrote down what the run did not hold, and a resume
    from it `loses` these components; else they hold something that no component shows: an average, a counter. `once` is
    the name of the file, if the job saves them once in the whole training, as an export at its end; `like_parameters`:
    they have the names of parameters.
    """

    incarnation: int
    rank: int
    position: int
    keys: tuple[str, ...]
    live: bool
    values: tuple[str, str] = ("", "")
    loses: tuple[str, ...] = ()
    once: str = ""
    like_parameters: bool = False

    def __str__(self) -> str:
        keys = show_keys(self.keys)
        if self.live:
            return (
                f"rank {self.rank}: the save of step {self.position} holds other values than the run held: {keys}; a "
                f"resume from it loses the {' and the '.join(self.loses)} of step {self.position}"
            )
        got, wanted = (value.removeprefix("=") for value in self.values)
        pair = f" ({got} instead of {wanted})" if self.values[0].startswith("=") else ""
        where = f"{self.once}, saved once, at" if self.once else "the checkpoint of"
        return f"rank {self.rank}: {keys} in {where} step {self.position} differs from the reference{pair}"

    def to_json(self) -> dict[str, Any]:
        """For the evidence."""
        optional = ("loses", "once")
        told = {name: value for name, value in asdict(self).items() if name != "like_parameters"}
        return {name: value for name, value in told.items() if name not in optional or value}


def show_keys(keys: tuple[str, ...], of: int | None = None) -> str:
    """'model.head.weight', or '12 of 36 values (first model.embed.weight)'."""
    if len(keys) == 1 and of is None:
        return keys[0]
    if len(keys) <= 2:
        return ", ".join(keys)
    return f"{len(keys)}{f' of {of}' if of is not None else ''} values (first {keys[0]})"


def altered(history: History, timeline: Timeline) -> Iterator[Altered]:
    """What did not come back, in lifetimes that went on from it.

    Between different numbers of ranks only what every rank holds alike can be compared: a shard becomes another one.
    """
    for index, start in timeline.starts.items():
        if index == 0:
            continue
        inc = history.incarnations[index]
        saved = timeline.saved_before(inc)
        for rank, lifetime in inc.ranks.items():
            own = start.ranks.get(rank)
            if own is not None:
                off = start.base is not None and bool(own.off(start.base))
                for one in _altered(lifetime, index, rank, start.base, saved, off=off):
                    keys = tuple(key for key in one.keys if _comparable(key, inc, saved.held[one.position]))
                    if keys:
                        yield replace(one, keys=keys)


def _comparable(key: str, inc: Incarnation, held: Held) -> bool:
    """Whether a key can be compared at all: it was saved by as many ranks, or it is alike on all of them."""
    if held.worlds == {inc.world_size}:
        return True
    loaded = {
        load.content[key] for lifetime in inc.ranks.values() for load in lifetime.loads if key in load.content
    }
    return len(loaded) == len(held.values.get(key, ())) == 1


def _altered(
    lifetime: RankLifetime, index: int, rank: int, base: int | None, saved: Saved, *, off: bool
) -> Iterator[Altered]:
    for load in last_loads(lifetime):
        read = saved.read_by(load)
        if not read:
            continue
        named = saved.named(load)
        # The path says what should have come, the contents what came.
        position = named if named is not None else base if base is not None and base in read else max(read)
        held = saved.held[position].values
        known = [key for key in load.content if key in held]
        keys = tuple(key for key in known if load.content[key] not in held[key])
        due = (
            saved.held[base].values if base is not None and base != position and base in saved.held and off else {}
        )
        if keys:
            yield Altered(index, rank, position, keys, len(known), None if position in read else max(read))
        elif base is not None and due and set(load.content) <= set(due):
            # Whole, and of another step than the rest. (Where the rank's state is right, it was another file.)
            yield Altered(index, rank, base, tuple(load.content), len(load.content), position)


def read_intact(history: History, timeline: Timeline, inc: Incarnation) -> bool:
    """Whether a lifetime was seen to read checkpoints, those files among them that a fault had altered, and all that
    came back is what was saved: then what is wrong afterwards is not the doing of altered bytes."""
    saved = timeline.saved_before(inc)
    loads = [load for lifetime in inc.ranks.values() for load in last_loads(lifetime) if saved.read_by(load)]
    for load in loads:
        named = saved.named(load)
        held = saved.held[max(saved.read_by(load)) if named is None else named].values
        if any(value not in held[key] for key, value in load.content.items() if key in held):
            return False
    files = altered_files(history, inc.start)
    return bool(loads) and all(any(holds(load.path, file) for load in loads) for file in files)


def unlike(
    timeline: Timeline, reference: Reference, first: Mapping[tuple[int, int, str], int]
) -> Iterator[Unlike]:
    """What saves hold beside the reference's saves, as long as the rank had not diverged from the reference in
    anything else; `first` is where it did (see `checks.comparison`). With another number of ranks all but counts of
    tokens have diverged."""
    diverged_before: dict[tuple[int, int], int] = {}
    for (index, rank, _), at in first.items():
        diverged_before[index, rank] = min(at, diverged_before.get((index, rank), at))
    for inc in timeline.history.incarnations:
        base = timeline.base(inc.index)
        for rank, lifetime in inc.ranks.items() if base is not None else ():
            controls = [control.incarnations[0].ranks.get(rank) for control in reference.controls]
            known = [control for control in controls if control is not None]
            if len(known) < len(controls):
                continue
            moving, live = _moving(known[0]), _live(known[0], reference)
            tensors = known[0].tensors.values()
            names = frozenset(name for known_then in tensors for named in known_then.values() for name in named)
            # What is made of all steps can only be compared where all steps can.
            once = saved_once(known[0]) if timeline.bitwise else frozenset[str]()
            parameters = parameters_of(known[0])
            for n in sorted({save.n for save in lifetime.saves}):
                position = (base or 0) + n
                if diverged_before.get((inc.index, rank), position + 2) <= position + 1:
                    continue
                own, (wanted, *others) = _written(lifetime, n), [_written(control, position) for control in known]
                found: dict[tuple[bool, str], list[tuple[int, str]]] = {}
                resized = inc.index in timeline.resized
                for key, value in wanted.items():
                    if resized and not (COUNTS.search(key[1]) and value.startswith("=")):
                        continue
                    agreed = all(other.get(key) == value for other in others)
                    telling = key[1] in moving or key[1] in once
                    if not (agreed and telling and _differ(key[1], own.get(key, value), value)):
                        continue
                    is_live = key[1] in live
                    if is_live and (held := lifetime.tensors.get(n + 1)):
                        if _holds(held, key[1], own[key]):
                            continue
                    elif is_live and not live[key[1]] <= timeline.comparable:
                        continue
                    if not is_live or not _stands_elsewhere(key[1], own[key], wanted, names):
                        file = _file(known[0], position, key[0]) if key[1] in once else ""
                        found.setdefault((is_live, file), []).append(key)
                for (is_live, file), keys in found.items():
                    values = own[keys[0]], wanted[keys[0]]
                    loses = sorted({component for _, name in keys for component in live.get(name, ())})
                    only = tuple(name for _, name in keys)
                    alike = bool(parameters) and all(name.endswith(parameters) for name in only)
                    yield Unlike(inc.index, rank, position, only, is_live, values, tuple(loses), file, alike)


def _holds(held: Tensors, key: str, value: str) -> bool:
    """Whether a rank held a value when it saved it: under the name in the key, or, where the key has no name of a
    tensor, under any."""
    named = [(name, one) for part, own in held.items() if part != "average" for name, one in own.items()]
    own = [one for name, one in named if key == name or key.endswith(f".{name}")]
    return value in (own or [one for _, one in named])


#: A place in a sequence, or the number that an optimizer gives to a parameter.
NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def _stands_elsewhere(key: str, own: str, wanted: Mapping[tuple[int, str], str], names: frozenset[str]) -> bool:
    """Whether a key that has a number in the place of a parameter's name holds what another such key should hold: the
    groups of an optimizer may be built in another order, and their tensors change places in the file."""
    parts = key.split(".")
    if any(".".join(parts[at:]) in names for at in range(len(parts))):
        return False
    like = NUMBER.sub("#", key)
    return like != key and any(
        value == own and NUMBER.sub("#", name) == like for (_, name), value in wanted.items()
    )


def wrong(lifetime: RankLifetime, reference: Reference, n: int, position: int) -> tuple[str, ...] | None:
    """The tensors, by key, that a rank gave to the saves after its step `n` and that are not those which the
    reference saves at that position; None if nothing could be compared."""
    controls = [control.incarnations[0].ranks.get(lifetime.rank) for control in reference.controls]
    own = _written(lifetime, n)
    wanted, *others = [_written(control, position) if control is not None else {} for control in controls]
    moving = _moving(controls[0]) if controls[0] is not None else frozenset()
    both = [
        key
        for key, value in wanted.items()
        if key in own and key[1] in moving and TENSOR.fullmatch(value)
        if all(other.get(key) == value for other in others) and not CLOCKS.search(key[1])
    ]
    return tuple(key[1] for key in both if own[key] != wanted[key]) if both else None


def _differ(name: str, own: str, wanted: str) -> bool:
    """Whether two values of a key differ in a way that means something."""
    telling = TELLING.fullmatch(own) and TELLING.fullmatch(wanted) and not CLOCKS.search(name)
    return bool(telling) and own != wanted


def _written(lifetime: RankLifetime, n: int) -> dict[tuple[int, str], str]:
    """What was given to the saves after step `n` that succeeded, by their order and key."""
    made = _made(lifetime, n)
    return {(number, key): value for number, save in enumerate(made) for key, value in save.content.items()}


def _made(lifetime: RankLifetime, n: int) -> list[Save]:
    return [save for save in lifetime.saves if save.n == n and save.ok and save.content]


def _file(lifetime: RankLifetime, n: int, number: int) -> str:
    """The name of the file that save `number` of those after step `n` wrote."""
    return PurePosixPath(_made(lifetime, n)[number].path).name


def _moving(lifetime: RankLifetime) -> frozenset[str]:
    """The keys whose values change from save to save: only of these can it be told that they were put back."""
    seen: dict[str, set[str]] = {}
    for save in lifetime.saves:
        for key, value in save.content.items():
            seen.setdefault(key, set()).add(value)
    return frozenset(key for key, values in seen.items() if len(values) > 1)


def _live(lifetime: RankLifetime, reference: Reference) -> dict[str, set[str]]:
    """The keys under which saves hold tensors of the live state, as far as single tensors are known there, and the
    components that these belong to."""
    found: dict[str, set[str]] = {}
    for save in lifetime.saves:
        live: dict[str, set[str]] = {}
        for component, named in reference.tensors(lifetime.rank, save.n + 1).items():
            for value in named.values() if component != "average" else ():
                live.setdefault(value, set()).add(component)
        for key, value in save.content.items():
            if value in live:
                found.setdefault(key, set()).update(live[value])
    return found


def poisoned(
    history: History, reference: Reference | None
) -> Iterator[tuple[Incarnation, RankLifetime, Save, str]]:
    """Saves that hold a value that is not finite at a key where the reference never does."""
    usual = {
        key
        for control in (reference.controls if reference is not None else ())
        for lifetime in control.incarnations[0].ranks.values()
        for save in lifetime.saves
        for key in save.nonfinite
    }
    for inc in history.incarnations:
        for lifetime in inc.ranks.values():
            for save in lifetime.saves:
                for key in save.nonfinite:
                    if key not in usual:
                        yield inc, lifetime, save, key
                        break
