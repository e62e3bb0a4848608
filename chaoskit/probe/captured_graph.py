"""`CapturedGraph`: the parts of a step that one CUDA graph of a job repeats."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class CapturedGraph:
    """The forward passes in training mode with their inputs, whose memory stays the same; the losses from which
    backward passes begin; and the optimizer that steps, if any does."""

    forwards: list[tuple[Any, Any, Any]] = field(default_factory=list)
    losses: list[Any] = field(default_factory=list)
    optimizer: Any = None
    #: In a replay that takes a step: state, parts and tensors by name as they were before it.
    before: tuple[Any, Any, Any] | None = None
