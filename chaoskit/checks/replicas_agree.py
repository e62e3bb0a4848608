"""`replicas_agree`: replicas of one model hold the same bits at every step; no reference is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.corruption.injected import is_corruption
from chaoskit.analysis.finding import show_ranks
from chaoskit.analysis.record.history import Incarnation, lifetimes
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.record.replicas import replica_groups, why_no_replicas
from chaoskit.analysis.record.thin_steps import places_known_apart
from chaoskit.checks.check import Check
from chaoskit.checks.explanation import apart, components, named
from chaoskit.checks.registry import check
from chaoskit.checks.thinned import REMEDY
from chaoskit.verdict import Verdict, failed, inconclusive, passed

#: What replicas have in common where they have it in common at all: all but the model may be each rank's own.
ALIKE = ("model", "optimizer", "ema", "lr", "options", "scaler")


@dataclass(frozen=True)
class Split:
    """The first step (`n` in the incarnation) in which ranks of a group differ, and in what."""

    incarnation: int
    n: int
    group: tuple[int, ...]
    names: frozenset[str]


@dataclass(frozen=True)
class ReplicasAgree:
    """See `replicas_agree`."""

    name = "replicas_agree"

    def __call__(self, case: Case) -> Verdict:
        if not any(lifetime.steps for _, lifetime in lifetimes(case.history)):
            return inconclusive(self.name, "the probe recorded no optimizer step of the run", "probe-blind")
        compared, thin, found = 0, 0, None
        groups = [(inc, group) for inc in case.history.incarnations for group in replica_groups(inc)]
        for inc, group in groups:
            count = min(len(inc.ranks[rank].steps) for rank in group)
            compared += count
            marks = [own[:count] for rank in group if (own := inc.ranks[rank].steps.thin)]
            thin += sum(map(any, zip(*marks, strict=True)))
            found = found or _split(inc, group)
        if not groups:
            why = next(filter(None, map(why_no_replicas, case.history.incarnations)), "")
            sentence = why or (
                "no rank holds a replica of another's model: no two of them began with equal parameters, so it is "
                "unknown which should be equal"
            )
            return inconclusive(self.name, sentence, "probe-blind")
        if found is not None:
            return self._shown(case, found)
        sizes = ", ".join(dict.fromkeys(show_ranks(group) for _, group in groups))
        if thin and thin == compared:
            sentence = f"the state of the replicas of {sizes} was recorded at no common step; {REMEDY}"
            return inconclusive(self.name, sentence, "probe-blind")
        sentence = f"the replicas of {sizes} were equal in each of {compared} steps"
        if thin:
            sentence = (
                f"the replicas of {sizes} were equal in each of {compared - thin} steps at which the state of all of "
                f"them was recorded, of {compared} (--record-every)"
            )
        return passed(self.name, sentence, compared=compared - thin)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _shown(self, case: Case, split: Split) -> Verdict:
        inc = case.history.incarnations[split.incarnation]
        base = case.timeline.base(inc.index)
        step = split.n + (base or 0)
        wrong, how = _wrong(case, inc, split, step)
        at, tensors = _tensors(inc, split, wrong)
        later = f", recorded {at - split.n} steps later" if tensors and at > split.n else ""
        whom = show_ranks(wrong) if wrong else f"ranks {' and '.join(map(str, split.group))}"
        verb = "differs from" if len(wrong) == 1 else "differ from"
        other = f"{verb} the other replicas ({how})" if wrong else "differ from each other"
        where = f"step {step}" if base is not None else f"step {split.n} of incarnation {inc.index}"
        sentence = f"in {where} {whom} {other} in {components(set(split.names))}{named(tensors)}{later}"
        return failed(
            self.name,
            sentence,
            "ranks-diverged",
            step=step,
            ranks=list(wrong or split.group),
            components=sorted(split.names),
            tensors=tensors[:50],
        )


def _split(inc: Incarnation, group: Sequence[int]) -> Split | None:
    """Where the ranks of a group first differ; None if they never do."""
    first, *others = (inc.ranks[rank].steps for rank in group)
    found: dict[int, set[str]] = {}
    for other in others:
        count = min(len(first), len(other))
        while count and first.numbers[count - 1] != other.numbers[count - 1]:
            count -= 1  # where the record has gaps, as far as it has none
        for name in ALIKE:
            a, b = first.columns.get(name), other.columns.get(name)
            if a is None or b is None or not count:
                continue
            # A sharded optimizer is no replica; it shows once it has state.
            if name != "model" and a[min(1, count - 1)] != b[min(1, count - 1)]:
                continue
            for place in islice(places_known_apart(name, first, other, count=count), 1):
                found.setdefault(first.numbers[place], set()).add(name)
    if not found:
        return None
    n = min(found)
    return Split(inc.index, n, tuple(group), frozenset(found[n]))


def _wrong(case: Case, inc: Incarnation, split: Split, step: int) -> tuple[tuple[int, ...], str]:
    """Return the ranks that are wrong, and how that is known; no rank if it is unknown."""
    name = min(split.names, key=ALIKE.index)
    found = {rank: _value(inc.ranks[rank], name, split.n) for rank in split.group}
    values = {rank: value for rank, value in found.items() if value is not None}
    (right, most), *_ = Counter(values.values()).most_common()
    if most > len(values) - most:
        return tuple(rank for rank, value in values.items() if value != right), "the minority"
    if case.reference is not None and case.timeline.base(inc.index) is not None:
        wanted = {rank: case.reference.step(rank, step) for rank in split.group}
        off = tuple(
            rank for rank, value in values.items() if (one := wanted[rank]) and one.components.get(name) != value
        )
        if off and len(off) < len(values):
            return off, "and from the reference"
    struck = {int(fault.evidence["rank"]) for fault in case.history.faults if is_corruption(fault)}
    if struck and struck < set(split.group):
        return tuple(sorted(struck)), "the one that the fault struck"
    return (), ""


def _value(lifetime: RankLifetime, name: str, n: int) -> str | None:
    """Return a component of a rank at a step; None if the rank did not take that step or has no such component."""
    place = lifetime.steps.past(n - 1)
    there = name in lifetime.steps.columns and n in lifetime.steps.numbers[place : place + 1]
    return lifetime.steps.columns[name][place] if there else None


def _tensors(inc: Incarnation, split: Split, wrong: Sequence[int]) -> tuple[int, list[str]]:
    """The tensors that differ, in that step or the first one after it of which they were recorded."""
    one = wrong[0] if wrong else split.group[0]
    other = next((rank for rank in split.group if rank != one and rank not in wrong), None)
    if other is None:
        return split.n, []
    own, right = inc.ranks[one].tensors, inc.ranks[other].tensors
    for n in sorted(at for at in own if at >= split.n and at in right):
        found = [
            key
            for name in sorted(split.names, key=ALIKE.index)
            for key in apart(own[n].get(name, {}), right[n].get(name, {}))
        ]
        if found:
            return n, list(dict.fromkeys(found))
    return split.n, []


@check("ranks-diverged")
def replicas_agree() -> Check:
    """At every step the ranks that hold replicas of one model hold the same parameters, optimizer state, averages,
    learning rates, options and scaler, to the bit. Buffers may be each rank's own. With `--record-every`, steps count
    that all of them recorded.

    Replicas are the ranks of a DistributedDataParallel, else those whose models are equal in the first step of their
    incarnation. The check needs no reference and no fault. Fails with `ranks-diverged` and names the step, the
    components, the tensors as far as they were recorded, and the rank: the minority; of two, the one that differs
    from the reference, else the one that the fault struck. Inconclusive if no rank holds a replica of another, as
    under FSDP.
    """
    return ReplicasAgree()
