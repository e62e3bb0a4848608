"""What differs between processes that a scheduler starts with the same variables: on which node, and how often before.

A batch script has one set of variables for all its nodes, and when the scheduler starts it again. The node and the
number of restarts stand in variables of the scheduler's; `CHAOSKIT_NODE_IN` and `CHAOSKIT_RESTARTS_IN` name them.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

_NODE, _RESTARTS, _FIRST = "CHAOSKIT_NODE_IN", "CHAOSKIT_RESTARTS_IN", "CHAOSKIT_FIRST_LAUNCH"


def variables(node_in: str, restarts_in: str, *, first_launch: int) -> Mapping[str, str]:
    """Those for a job whose node stands in one variable, and the number of its restarts in another; its first start is
    the launch of that number."""
    return {_NODE: node_in, _RESTARTS: restarts_in, _FIRST: str(first_launch)}


def resolve(env: MutableMapping[str, str]) -> None:
    """Set `CHAOSKIT_NODE` and `CHAOSKIT_LAUNCH` as the scheduler's variables say; no effect without a scheduler. What
    an ancestor has set, perhaps on another node, is replaced."""
    if _NODE in env:
        env["CHAOSKIT_NODE"] = env.get(env[_NODE], "")
    if _RESTARTS in env:
        env["CHAOSKIT_LAUNCH"] = str(int(env.get(_FIRST, "0")) + int(env.get(env[_RESTARTS]) or "0"))
