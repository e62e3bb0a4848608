"""`CapturedGraph`: what one CUDA graph of a job repeats."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class CapturedGraph:
    """The training forwards with their inputs, whose memory stays the same, the losses that
    backward passes begin from, and the optimizer that steps, if any does."""

    forwards: list[tuple[Any, Any, Any]] = field(default_factory=list)
    losses: list[Any] = field(default_factory=list)
    optimizer: Any = None
    #: In a replay that takes a step: state, parts and tensors by name as they were before it.
    before: tuple[Any, Any, Any] | None = None
