"""How faults name the nodes of a job: by number from 0, in the order of `env.nodes()`, negative from the last."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.errors import UsageError

#: One node (negative: from the last), several, or every one of them.
NodeSpec = int | tuple[int, ...] | str


def check_node(name: str, node: int, *, argument: str = "node") -> None:
    """Raises UsageError unless `node` is a whole number."""
    if isinstance(node, bool) or not isinstance(node, int):
        raise UsageError(f"{name}: {argument} must be a whole number, 0 for the first node, not {node!r}")


def check_node_spec(name: str, node: NodeSpec) -> None:
    """Raises UsageError unless `node` is a node, a tuple of different nodes or 'all'."""
    several = node if isinstance(node, tuple) else (node,)
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in several)
    if node != "all" and (not several or not whole):
        raise UsageError(f"{name}: node must be a whole number, a tuple of them or 'all', not {node!r}")
    if len(set(several)) < len(several):
        raise UsageError(f"{name}: node {node!r} names one of them twice; name each once")


def numbers(node: NodeSpec) -> tuple[int, ...]:
    """The numbers that were named; of 'all', none."""
    return () if isinstance(node, str) else node if isinstance(node, tuple) else (node,)


def as_json(node: NodeSpec) -> int | str | list[int]:
    """The form that a stored schedule keeps."""
    return list(node) if isinstance(node, tuple) else node


def resolve_nodes(name: str, node: NodeSpec, known: Sequence[str]) -> tuple[str, ...]:
    """The names of the nodes meant, of those that are up; raises LookupError for one that is not."""
    if node == "all":
        return tuple(known)
    for each in numbers(node):
        if not -len(known) <= each < len(known):
            raise LookupError(f"{name}: node {each} is not up; up are {', '.join(known) or 'none'}")
    return tuple(dict.fromkeys(known[each] for each in numbers(node)))


def show_nodes(node: NodeSpec) -> str:
    """'node 1', 'nodes 0, 1', 'all nodes', 'the last node'."""
    if node == "all":
        return "all nodes"
    if node in (-1, (-1,)):
        return "the last node"
    named = ", ".join(map(str, numbers(node)))
    return f"node{'s' if len(numbers(node)) > 1 else ''} {named}"
