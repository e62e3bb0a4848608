"""`look_closer`: a component that is not what it should be after a resume, tensor by tensor: whose values are they?

They may be those of another rank, of another name (state that was loaded by position), or those of a checkpoint that
did not hold what the run held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints.contents import AVERAGES
from chaoskit.analysis.finding import Finding
from chaoskit.analysis.record.rank_lifetime import RankLifetime

#: The components whose tensors are known one by one, and are saved one by one.
HELD = ("model", "buffers", "optimizer", "ema")

Named = Mapping[str, str]


def look_closer(case: Case, finding: Finding, lifetime: RankLifetime) -> Finding:
    """Return the finding with what its tensors tell. The case must have a reference."""
    assert case.reference is not None
    own = _first(lifetime).get(finding.component, {})
    wanted = case.reference.tensors(finding.rank, finding.step).get(finding.component, {})
    both = [name for name in wanted if name in own]
    apart = tuple(name for name in both if own[name] != wanted[name])
    missing = tuple(name for name in wanted if name not in own) if own else ()
    if not finding.found and (found := _of_another_rank(case, finding, lifetime, apart)) is not None:
        return found
    if apart and not missing and _is_unfaithful(case, finding, lifetime, own, apart):
        return replace(finding, code="checkpoint-unfaithful", tensors=apart, of=len(both))
    if finding.found:
        return finding
    given = tuple(_given(own, wanted, apart, finding.component)) if finding.component in HELD else ()
    code = "ema-not-restored" if _is_average(case, finding, apart) else finding.code
    return replace(finding, code=code, tensors=apart, of=len(both), missing=missing, given=given)


def _is_average(case: Case, finding: Finding, apart: Collection[str]) -> bool:
    """Whether these tensors of the model are those of an average that is a module of the model: no optimizer has them,
    something moves them all the same, and they began as copies of parameters that an optimizer has."""
    assert case.reference is not None
    first = case.reference.tensors(finding.rank, 1)
    then = case.reference.tensors(finding.rank, finding.step)
    began, wanted = first.get("model", {}), then.get("model", {})
    trained = {name for one in (first, then) for name in one.get("options", {})}
    copied = {value for name, value in began.items() if name in trained}
    return (
        finding.component == "model"
        and bool(apart)
        and all(
            name not in trained and began.get(name) in copied and began[name] != wanted[name] for name in apart
        )
    )


def without_followers(findings: Iterable[Finding], lifetime: RankLifetime, case: Case) -> list[Finding]:
    """The findings on one rank without those that follow from state that was loaded by position: the options and the
    learning rate of a parameter came with the moments, from the same other parameter."""
    assert case.reference is not None
    known = list(findings)
    given = {name: other for one in known if one.component == "optimizer" for name, other in one.given}
    options = [one for one in known if one.component in ("options", "lr")]
    if not given or not options:
        return known
    own = _first(lifetime).get("options", {})
    wanted = case.reference.tensors(lifetime.rank, options[0].step).get("options", {})
    apart = [name for name in wanted if own.get(name) != wanted[name]]
    follow = apart and all(own.get(name) == wanted.get(given.get(name, "")) for name in apart)
    return [one for one in known if one not in options] if follow else known


def _first(lifetime: RankLifetime) -> Mapping[str, Named]:
    """The tensors in the first step of a lifetime."""
    return lifetime.tensors.get(lifetime.steps.numbers[0], {})


def _of_another_rank(
    case: Case, finding: Finding, lifetime: RankLifetime, apart: Collection[str]
) -> Finding | None:
    """The finding if another rank has this value in the reference: as a whole at some step, or in all tensors that
    differ at the same step."""
    assert case.reference is not None
    value = lifetime.steps.columns[finding.component][0]
    own = _first(lifetime).get(finding.component, {})
    without: set[int] = set()  # columns that do not have the value: replicas share theirs
    for rank, steps in case.reference.traces():
        column = id(steps.columns.get(finding.component))
        if rank == finding.rank:
            continue
        if value is not None and column not in without and (places := steps.places(finding.component, value)):
            return replace(finding, found=places, whose=rank)
        without.add(column)
        theirs = case.reference.tensors(rank, finding.step).get(finding.component, {})
        if apart and all(theirs.get(name) == own[name] for name in apart):
            return replace(finding, found=(finding.expected,), whose=rank, tensors=tuple(apart), of=len(own))
    return None


def _is_unfaithful(case: Case, finding: Finding, lifetime: RankLifetime, own: Named, apart: Sequence[str]) -> bool:
    """Whether the checkpoint of the expected step held these values under the names of these tensors, and not those
    that any rank of the run held then: the load was faithful, the save was not.

    Either the save was given them, or nobody ever was, no fault changed the files, and yet the load returned them.
    """
    assert case.reference is not None
    if finding.component not in HELD:
        return False
    inc = case.history.incarnations[finding.incarnation]
    saved = case.timeline.saved_before(inc).held
    harmed = {at for one in case.resumes for at in (*one.damaged, *one.torn)}
    given = saved[finding.expected].values if finding.expected in saved else {}
    came: dict[str, set[str]] = {}
    for load in lifetime.loads if finding.expected not in harmed else ():
        for key, value in load.content.items() if load.ok else ():
            if not any(value in one.values.get(key, ()) for one in saved.values()):
                came.setdefault(key, set()).add(value)
    if finding.component == "buffers":
        # Single buffers are known as the forward pass left them, so they cannot be compared with what was loaded.
        return any(_values_of(name, "buffers", came) for name in own)
    ranks = range(case.reference.world_size)
    live = [case.reference.tensors(rank, finding.step).get(finding.component, {}) for rank in ranks]
    for name in apart:
        right = {one[name] for one in live if name in one}
        written, returned = (_values_of(name, finding.component, held) for held in (given, came))
        wrongly_given = own[name] in written and not written & right
        if own[name] in right or not (wrongly_given or own[name] in returned):
            return False
    return True


def _values_of(name: str, component: str, held: Mapping[str, Collection[str]]) -> set[str]:
    """What the keys that are those of a tensor hold."""
    return {value for key in held if _meant(key, name, component) for value in held[key]}


def _meant(key: str, name: str, component: str) -> bool:
    """Whether a key of a checkpoint is that of a tensor, by its name; the keys of an optimizer may have numbers in the
    place of the parameters' names."""
    if component == "optimizer":
        return key.rpartition(".")[2] == name.rpartition(".")[2]
    averaged = any(word in key.removesuffix(name).lower() for word in AVERAGES)
    return averaged == (component == "ema") and (key == name or key.endswith(f".{name}"))


def _given(own: Named, wanted: Named, apart: Sequence[str], component: str) -> Iterable[tuple[str, str]]:
    """The parameters that have what the reference has for another one, each with that other's name, where only one has
    that. All that an optimizer keeps of a parameter counts together."""

    def split(name: str) -> tuple[str, str]:
        parameter, _, key = name.rpartition(".") if component == "optimizer" else (name, "", "")
        return parameter, key

    holders: dict[tuple[str, str], set[str]] = {}
    for name, value in wanted.items():
        parameter, key = split(name)
        holders.setdefault((key, value), set()).add(parameter)
    others: dict[str, set[str]] = {}
    for name in apart:
        parameter, key = split(name)
        found = holders.get((key, own[name]), set())
        others[parameter] = others.get(parameter, found) & found
    for parameter, possible in others.items():
        if len(possible) == 1 and parameter not in possible:
            yield parameter, next(iter(possible))
