"""`ParameterNames`: the parameters of a rank by the names that their modules give them.

State belongs to a name. A job may build the groups of its optimizers in another order after a resume, or move a
parameter to another group, so the place in a group says nothing. Names are made once, and again only when a parameter
comes to a group or a module comes or goes.
"""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any

#: Prefixes that wrappers add to a module's own name: torch.compile, FSDP, activation checkpointing.
_WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")

#: Per root module: the number of its walk, and its parameters by name, a tied one by the first of its names.
_walked: weakref.WeakKeyDictionary[Any, tuple[int, list[tuple[str, Any]]]] = weakref.WeakKeyDictionary()
_walks = count()


@dataclass(frozen=True, eq=False)
class ParameterNames:
    """`names` maps the identity of every parameter to its name, in the order of the names; those that only an optimizer
    knows come last, in the order of the groups.

    `runs` tells, in the same order, which groups (counted over all optimizers) hold how many parameters in a row;
    `groups` are those with a parameter, by the first name in each.
    """

    names: Mapping[int, str]
    runs: Sequence[tuple[tuple[int, ...], int]]
    groups: Sequence[int]


def naming(optimizers: Sequence[Any], roots: Sequence[Any]) -> ParameterNames:
    """The names of all parameters of these optimizers and modules."""
    global _last
    groups = [group["params"] for optimizer in optimizers for group in optimizer.param_groups]
    held = tuple(map(len, groups)), tuple(id(parameter) for group in groups for parameter in group)
    if _last[0] != (held, _walks_of(roots)):
        _walked.clear()
        found = _name(groups, roots)
        _last = (held, _walks_of(roots)), found
    return _last[1]


#: What was named last, by identities alone: it keeps nothing alive.
_last: tuple[Any, ParameterNames] = None, ParameterNames({}, (), ())


def parameters(optimizers: Sequence[Any], roots: Sequence[Any]) -> list[Any]:
    """Every parameter of the optimizers and the modules, in the order of their names."""
    names = naming(optimizers, roots).names
    found = {id(p): p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    for root in roots:
        found.update((id(p), p) for _, p in _parameters_of(root))
    return [found[identity] for identity in names if identity in found]


def in_order(roots: Sequence[Any]) -> list[Any]:
    """The modules in an order that does not depend on which of them was called first: the largest come first."""
    return sorted(roots, key=_rank) if len(roots) > 1 else list(roots)


def own_name(name: str) -> str:
    """The name without the prefixes of wrappers."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    while name.startswith("module."):
        name = name.removeprefix("module.")
    return name


def free(name: str, taken: Container[str]) -> str:
    """A name that is not taken: two modules may use one name for different tensors."""
    number, found = 2, name
    while found in taken:
        number, found = number + 1, f"{name}~{number}"
    return found


def _name(groups: Sequence[Sequence[Any]], roots: Sequence[Any]) -> ParameterNames:
    names: dict[int, str] = {}
    taken: set[str] = set()

    def take(entries: Iterator[tuple[str, Any]]) -> list[int]:
        new = []
        for name, parameter in entries:
            if id(parameter) not in names:
                names[id(parameter)] = own = free(own_name(name), taken)
                taken.add(own)
                new.append(id(parameter))
        return new

    named = take(entry for root in in_order(roots) for entry in _parameters_of(root))
    rest = take(
        (f"group{number}.{index}", parameter)
        for number, group in enumerate(groups)
        for index, parameter in enumerate(group)
    )
    order = [*sorted(named, key=names.__getitem__), *rest]
    holders: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        for parameter in group:
            holders.setdefault(id(parameter), []).append(number)
    held = (tuple(holders[identity]) for identity in order if identity in holders)
    runs = [(own, sum(1 for _ in same)) for own, same in groupby(held)]
    groups_in_order = list(dict.fromkeys(number for own, _ in runs for number in own))
    return ParameterNames({identity: names[identity] for identity in order}, runs, groups_in_order)


def _walk(root: Any) -> tuple[int, list[tuple[str, Any]]]:
    if root not in _walked:
        _walked[root] = next(_walks), list(root.named_parameters())
    return _walked[root]


def _parameters_of(root: Any) -> list[tuple[str, Any]]:
    return _walk(root)[1]


def _walks_of(roots: Sequence[Any]) -> tuple[int, ...]:
    """Some jobs make a loss module anew for every step: what has no parameter does not count."""
    return tuple(number for number, found in map(_walk, roots) if found)


def _rank(root: Any) -> tuple[int, str, list[tuple[str, tuple[int, ...]]]]:
    found = _parameters_of(root)
    return -len(found), type(root).__qualname__, [(own_name(name), tuple(p.shape)) for name, p in found[:8]]
