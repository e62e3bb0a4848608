"""The contents of checkpoints: what each save wrote, what each load returned, and whether they agree.

The source is the calls themselves, key by key, so renaming files does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.checkpoints.damage import above, numbers_in
from chaoskit.analysis.checkpoints.exports import parameters_of, saved_once
from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.record.rank_lifetime import Load, RankLifetime, Save
from chaoskit.analysis.reference.reference import Reference

#: What differs from one run to the next, or after a relaunch, without anything being wrong.
CLOCKS = re.compile(
    r"time(?!step)|(?<!up)date|elapsed|duration|second|clock|host|uuid|path|dir|mem|speed|throughput|pid|restart|attempt|launch|resum",
    re.IGNORECASE,
)
#: What counts the same however many ranks there are.
COUNTS = re.compile(r"tokens", re.IGNORECASE)
#: Tensors and whole numbers must be put back. A mean loss since the last log line need not.
TELLING = re.compile(r"[0-9a-f]{32}|=-?\d+")
TENSOR = re.compile(r"[0-9a-f]{32}")
#: A load is taken for one of a checkpoint when this share of what came back had been saved there.
ALIKE = 0.5


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

    `live` says that they are copies of live state, so that the save wrote down what the run did not hold; else they
    hold something that no component shows: an average, a counter. `once` is the name of the file, if the job saves them
    once in the whole training, as an export at its end; `like_parameters`: they have the names of parameters.
    """

    incarnation: int
    rank: int
    position: int
    keys: tuple[str, ...]
    live: bool
    values: tuple[str, str] = ("", "")
    once: str = ""
    like_parameters: bool = False

    def __str__(self) -> str:
        keys = show_keys(self.keys)
        if self.live:
            return f"rank {self.rank}: the save of step {self.position} differs from the state of the run: {keys}"
        got, wanted = (value.removeprefix("=") for value in self.values)
        pair = f" ({got} instead of {wanted})" if self.values[0].startswith("=") else ""
        where = f"{self.once}, saved once, at" if self.once else "the checkpoint of"
        return f"rank {self.rank}: {keys} in {where} step {self.position} differs from the reference{pair}"

    def to_json(self) -> dict[str, Any]:
        """For the evidence."""
        told = {name: value for name, value in asdict(self).items() if name != "like_parameters"}
        return told if self.once else {name: value for name, value in told.items() if name != "once"}


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
        saved = _saved_before(history, timeline, inc)
        for rank, lifetime in inc.ranks.items():
            own = start.ranks.get(rank)
            if own is not None:
                off = start.base is not None and bool(own.off(start.base))
                for one in _altered(lifetime, index, rank, start.base, saved, off=off):
                    keys = tuple(key for key in one.keys if _comparable(key, inc, saved[one.position]))
                    if keys:
                        yield replace(one, keys=keys)


@dataclass
class _Held:
    """What all the saves at one position were given: the values by key, the paths that they went to, and how many ranks
    there were."""

    values: dict[str, set[str]] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    worlds: set[int] = field(default_factory=set)


def _comparable(key: str, inc: Incarnation, held: _Held) -> bool:
    """Whether a key can be compared at all: it was saved by as many ranks, or it is alike on all of them."""
    if held.worlds == {inc.world_size}:
        return True
    loaded = {
        load.content[key] for lifetime in inc.ranks.values() for load in lifetime.loads if key in load.content
    }
    return len(loaded) == len(held.values.get(key, ())) == 1


def _saved_before(history: History, timeline: Timeline, inc: Incarnation) -> dict[int, _Held]:
    saved: dict[int, _Held] = {}
    for earlier in history.incarnations[: inc.index]:
        base = timeline.base(earlier.index)
        for lifetime in earlier.ranks.values() if base is not None else ():
            for save in lifetime.saves:
                held = saved.setdefault((base or 0) + save.n, _Held())
                held.paths.add(save.path)
                held.worlds.add(earlier.world_size)
                for key, value in save.content.items():
                    held.values.setdefault(key, set()).add(value)
    return saved


def _altered(
    lifetime: RankLifetime, index: int, rank: int, base: int | None, saved: Mapping[int, _Held], *, off: bool
) -> Iterator[Altered]:
    # A file that was read, refused and read elsewhere does no harm: what came last counts.
    last: dict[frozenset[str], Load] = {}
    for load in lifetime.loads:
        if load.ok and load.content and load.n == 0:
            last[frozenset(load.content)] = load
    for load in last.values():
        alike = {at: _share(load.content, held) for at, held in saved.items()}
        full = [at for at, share in alike.items() if share == 1.0]
        position = _named(load, saved)
        if position is None:
            best = max(alike, key=lambda at: (alike[at], at == base, at), default=None)
            if best is None or alike[best] < ALIKE:
                continue
            position = best if best in full or base is None or alike.get(base, 0.0) < ALIKE else base
        known = [key for key in load.content if key in saved[position].values]
        keys = tuple(key for key in known if load.content[key] not in saved[position].values[key])
        due = saved[base].values if base is not None and base != position and base in saved and off else {}
        if keys:
            yield Altered(index, rank, position, keys, len(known), full[-1] if full else None)
        elif base is not None and due and set(load.content) <= set(due):
            # Whole, and of another step than the rest. (Where the rank's state is right, it was another file.)
            yield Altered(index, rank, base, tuple(load.content), len(load.content), position)


def _named(load: Load, saved: Mapping[int, _Held]) -> int | None:
    """The position of the checkpoint that a load read, where its path tells it: that of the saves of one position
    alone, or by the number in their paths. The numbers in the name of a copy that lies elsewhere tell nothing."""
    paths = [path for held in saved.values() for path in held.paths]
    home, place = above(paths), above([load.path, *paths])
    if not load.path.startswith(home):
        return None
    named = [at for at, held in saved.items() if load.path in held.paths]
    if len(named) != 1:
        numbers = numbers_in(load.path, below=place)
        numbered = {at: [numbers_in(path, below=place) for path in held.paths] for at, held in saved.items()}
        named = [at for at in numbers.intersection(saved) if all(at in own for own in numbered[at])]
        # What others have in their paths too, such as the number of a day or a second, is no step's.
        named = [
            at for at in named if not any(at in own for one in numbered if one != at for own in numbered[one])
        ]
    if len(named) != 1:
        return None
    shared = sum(key in saved[named[0]].values for key in load.content)
    return named[0] if shared > ALIKE * len(load.content) else None


def _share(content: Mapping[str, str], held: _Held) -> float:
    return sum(value in held.values.get(key, ()) for key, value in content.items()) / len(content)


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
                    if agreed and telling and _differ(key[1], own.get(key, value), value):
                        file = _file(known[0], position, key[0]) if key[1] in once else ""
                        found.setdefault((key[1] in live, file), []).append(key)
                for (is_live, file), keys in found.items():
                    values = own[keys[0]], wanted[keys[0]]
                    names = tuple(key for _, key in keys)
                    alike = bool(parameters) and all(key.endswith(parameters) for key in names)
                    yield Unlike(inc.index, rank, position, names, is_live, values, file, alike)


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


def _live(lifetime: RankLifetime, reference: Reference) -> frozenset[str]:
    """The keys under which saves hold tensors of the live state, as far as single tensors are known there."""
    found: set[str] = set()
    for save in lifetime.saves:
        known = reference.tensors(lifetime.rank, save.n + 1)
        live = {value for part, named in known.items() if part != "average" for value in named.values()}
        found.update(key for key, value in save.content.items() if value in live)
    return frozenset(found)


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
