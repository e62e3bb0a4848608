"""Numbers of nodes: from 0, in the order of `env.nodes()`, negative from the last."""

from __future__ import annotations

from collections.abc import Sequence

#: One node (negative: from the last), several, or every one of them.
NodeSpec = int | tuple[int, ...] | str


def numbers(node: NodeSpec) -> tuple[int, ...]:
    """The numbers that were given; none for 'all'."""
    return () if isinstance(node, str) else node if isinstance(node, tuple) else (node,)


def as_json(node: NodeSpec) -> int | str | list[int]:
    """The form that a stored schedule keeps."""
    return list(node) if isinstance(node, tuple) else node


def resolve_nodes(name: str, node: NodeSpec, known: Sequence[str]) -> tuple[str, ...]:
    """The names of the nodes; raises LookupError for one that is not up."""
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
