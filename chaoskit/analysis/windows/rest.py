"""`with_rest`: a run that was ended once it equalled its reference again, with the rest of the reference put behind it.

Checks then judge the training from its first step to its last one. What was watched, and what follows from the
reference, is in the record of the window.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import Convergence


def with_rest(history: History, reference: Reference, found: Convergence) -> History:
    """The history up to position `found.end`, and from there on that of the first control, as if the last incarnation
    had gone on to its end. The rest begins when the run was ended. What lay on the disk then is left out if the job had
    begun a later save, which is not in the history."""
    control = reference.controls[0]
    inc, other = history.incarnations[found.incarnation], control.incarnations[0]
    own_n = found.end - found.base
    last, end = history.launches[-1], control.launches[-1]
    listed = [event.t for event in history.files if event.t >= inc.start]
    stopped = max([*listed, *([last.ended] if last.ended is not None else [])], default=0.0)
    shift = max(
        max(lifetime.steps.times[own_n - 1], stopped) - other.ranks[rank].steps.times[found.end - 1]
        for rank, lifetime in inc.ranks.items()
    )
    out, control_out = _out(history), _out(control)
    ranks = {
        rank: _continued(lifetime, other.ranks[rank], found, shift, (control_out, out))
        for rank, lifetime in inc.ranks.items()
    }
    joined: Incarnation = replace(inc, ranks=ranks)
    incarnations = [joined if one.index == inc.index else one for one in history.incarnations]
    later = any(save.n > own_n for lifetime in inc.ranks.values() for save in lifetime.saves)
    files = [event for event in history.files if not (later and event.t in listed)]
    ended = end.ended + shift if end.ended is not None else None
    rest = replace(last, ended=ended, code=end.code, cause=end.cause, survivors=end.survivors)
    window = replace(history.window, end=found.end) if history.window is not None else None
    return replace(
        history,
        incarnations=incarnations,
        launches=[*history.launches[:-1], rest],
        files=files,
        end=control.end,
        window=window,
    )


def _out(history: History) -> str:
    return next((launch.out for launch in history.launches if launch.out), "")


def _continued(
    own: RankLifetime, other: RankLifetime, found: Convergence, shift: float, out: tuple[str, str]
) -> RankLifetime:
    """The lifetime of a rank up to the end of the window, with that of the control behind it."""
    n = found.end - found.base
    cut = own.steps.times[n] if n < len(own.steps) else float("inf")
    kept = own.until(n, cut)
    since = other.steps.times[found.end - 1]
    rest = other.since(found.end, since)
    moved: dict[str, Any] = {
        "saves": [*kept.saves, *(_moved(save, n, shift, out) for save in rest.saves if save.n)],
        "loads": [*kept.loads, *(_moved(load, n, shift, out) for load in rest.loads)],
    }
    for name in ("tensors", "begins"):
        moved[name] = {**getattr(kept, name), **{at + n: value for at, value in getattr(rest, name).items()}}
    moved["held"] = {
        **kept.held,
        **{at + n: replace(step, n=step.n + n, t=step.t + shift) for at, step in rest.held.items()},
    }
    for name in ("epochs", "loaded", "left_out"):
        moved[name] = [*getattr(kept, name), *(at + n for at in getattr(rest, name))]
    return replace(
        kept,
        **moved,
        steps=kept.steps.followed_by(rest.steps, more=n, later=shift),
        idle_draws={**other.idle_draws, **kept.idle_draws},
        end=other.end + shift if other.end is not None else None,
        left=other.left + shift if other.left is not None else None,
        uncaught=other.uncaught,
    )


def _moved(call: Any, n: int, shift: float, out: tuple[str, str]) -> Any:
    ended = call.ended + shift if call.ended is not None else None
    path = call.path.replace(*out) if all(out) else call.path
    return replace(call, n=call.n + n, begun=call.begun + shift, ended=ended, path=path)
