"""The kinds of faults that a stored schedule may name by an earlier name."""

from __future__ import annotations

from typing import Any

#: By the name in runs that earlier versions stored: the kind's name today.
EARLIER_KINDS = {
    "corrupt": "packet_corruption",
    "flip": "file_bitflip",
    "grow": "add_node",
    "loss": "packet_loss",
    "shrink": "remove_node",
}


def kind_of(action: Any) -> str | None:
    """The kind of a stored action, by its name today; None for what is no action."""
    kind = action.get("kind") if isinstance(action, dict) else None
    return EARLIER_KINDS.get(kind, kind) if isinstance(kind, str) else None
