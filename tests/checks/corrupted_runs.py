"""Runs in which a fault made a number wrong, told by hand: the ways that such a run can take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.history_writer import Writer, truth

#: What a finite wrong number looks like in the record.
FINITE = (1e20).hex()
STATE = ("model", "optimizer", "ema")


def off(
    since: int, *, until: int = 60, ranks: Sequence[int] = (0, 1), names: Sequence[str] = STATE
) -> dict[Any, str]:
    """A patch: from that true step on these components of these ranks are not the reference's."""
    return {
        (rank, step, name): f"{name}!{step}"
        for rank in ranks
        for step in range(since, until + 1)
        for name in names
    }


def wrong_losses(
    since: int, *, until: int = 60, ranks: Sequence[int] = (0, 1), loss: str = (7.0).hex()
) -> dict[Any, str]:
    """The losses that go with it."""
    return {(rank, step): loss for rank in ranks for step in range(since, until + 1)}


def unnoticed(
    *, at: int = 25, ranks: Sequence[int] = (0, 1), strike: Mapping[str, Any] | None = None, **how: Any
) -> Writer:
    """A number of rank 1 is wrong from step `at` on, and nobody notices; it shows a step later on `ranks`."""
    run = Writer(**how)
    patch, losses = off(at + 1, ranks=ranks), wrong_losses(at + 1, ranks=ranks)
    run.launch().live(strike={at: {"after": FINITE, **(strike or {})}}, patch=patch, losses=losses, ends=True)
    return run.exit(0).end()


def stopped(*, at: int = 25, last: int | None = None, base: int = 20, patch: Any = None, **options: Any) -> Writer:
    """The job stops in step `at`, or once it has taken step `last`, and the next launch goes on from `base`."""
    run = Writer().launch()
    if last is None:
        run.live(until=at - 1).corrupted(at)
    else:
        run.live(until=last, strike={at: {}}, patch=off(at + 1, until=last) if patch is None else patch)
    return run.died().launch().live(base=base, ends=True, **options).exit(0).end()


def rolled_back(
    *, at: int = 25, base: int = 20, omitted: Sequence[int] = (), until: int | None = None, **options: Any
) -> Writer:
    """The update of step `at` is left out, and the job goes back in its processes, past the steps `omitted`."""
    run = Writer(steps=options.pop("steps", 60)).launch()
    run.live(until=at, strike={at: {}}, losses=wrong_losses(at, until=at, ranks=(1,), loss="nan"))
    last = run.steps - len(omitted) if until is None else until
    due = [position for position in range(base, run.steps) if position + 1 not in omitted]
    patch = {
        (rank, step, "batch"): truth("batch", rank, due[step - base - 1])
        for rank in (0, 1)
        for step in range(base + 1, last + 1)
    }
    if omitted:
        first = min(omitted)
        patch |= off(first + 1, until=last)
        options.setdefault("losses", wrong_losses(first, until=last))
    patch |= options.pop("patch", {})
    return run.live(base=base, until=last, back=True, patch=patch, ends=True, **options).exit(0).end()


def left_out(
    *,
    at: int = 25,
    patch: Mapping[Any, str] | None = None,
    drift: bool = True,
    leaves: Sequence[int] = (),
    strike: Mapping[str, Any] | None = None,
    **options: Any,
) -> Writer:
    """The update of step `at` is left out and the job goes on, with a trajectory of its own from there."""
    own = {(rank, at + 1, name): truth(name, rank, at - 1) for rank in (0, 1) for name in STATE}
    if drift:
        own |= off(at + 2)
    losses = {(1, at): "nan", **wrong_losses(at + 1)}
    run = Writer(**options).launch()
    run.live(strike={at: strike or {}}, leaves=leaves, patch={**own, **(patch or {})}, losses=losses, ends=True)
    return run.exit(0).end()
