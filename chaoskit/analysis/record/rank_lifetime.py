"""`RankLifetime`: what one rank did in one incarnation: its steps, its saves, its loads, as its own record tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chaoskit.analysis.record.steps import Step, Steps
from chaoskit.protocol.events import Event

#: Fields of a step that are components of the state, in the order in which tables show them.
COMPONENTS = ("model", "buffers", "optimizer", "options", "lr", "scaler", "ema", "rng", "batch")


def component_order(name: str) -> tuple[int, str]:
    """The place of a component in tables: the parts of one stand together, unknown ones at the end."""
    family = name.partition(".")[0]
    return (COMPONENTS.index(family) if family in COMPONENTS else len(COMPONENTS), name)


#: The fingerprints of single tensors, by component and name.
Tensors = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Save:
    """One call that writes checkpoint data, on one rank, after `n` steps of its incarnation.

    `ended` is None while it had not returned (for an asynchronous one: while its future was open); `ok` is False
    when it raised. `full` is False for an export of weights, which nobody resumes from: it holds no optimizer.
    `content` maps key paths to what was given to the save: fingerprints of tensors, other values as '=15360';
    `nonfinite` are the key paths of values that are not finite. `files` has the size of each file that it wrote, by
    its name below `path` ('' is the path itself); empty if they were not recorded.
    """

    n: int
    begun: float
    ended: float | None
    path: str
    api: str
    ok: bool = True
    full: bool = True
    content: Mapping[str, str] = field(default_factory=dict)
    nonfinite: tuple[str, ...] = ()
    files: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Load:
    """One call that reads checkpoint data, on one rank, after `n` steps of its incarnation. `content` is what came
    back, as in `Save`."""

    n: int
    begun: float
    ended: float | None
    path: str
    api: str
    ok: bool = True
    error: str = ""
    content: Mapping[str, str] = field(default_factory=dict)


@dataclass
class RankLifetime:
    """What one rank did in one incarnation. `end` is None for a rank that was killed or crashed hard. `ticks` is when
    its process began, in clock ticks of its machine; 0 where the record does not say.

    `tensors` holds, for some steps by number (the first of the process, and those that follow a save or a load), the
    fingerprints of single tensors as they were in that step. `begins` holds, for the same steps, the random streams as
    the step began: as its batch was drawn (`draw`), and as its first forward pass began (`forward`). `idle_draws` are
    draws of which nobody used the number, by stream: the state before, and after. `held` holds what an elastic job had
    after some steps, by their number, as it wrote a checkpoint: the step after, as far as no forward pass moves it.
    `group_timeout` is after how many seconds its collectives give up, `node` the name of its host where there are
    several. `left` is when its process said that it ends, by an exception too. `halted` is the step that it was about
    to take when it was killed at the gate: it has not taken it, but ranks that it had given its gradients to may have.
    `loaded` are the steps before which a checkpoint was read in mid-lifetime, `left_out` those whose update was left
    out, as far as that was seen. `replicas` are the ranks that hold the same model by the job's own design, `shards`
    how many of its parameters are parts of larger ones; `grouped` says whether it made a process group. `corrupted` are
    the events that tell what an order of ours changed. `settings` are the versions and flags that it computes with,
    where it stepped. `uncaught` is the exception that its process ended with.
    """

    rank: int
    pid: int
    start: float
    ticks: int = field(default=0, kw_only=True)
    node: str = field(default="", kw_only=True)
    steps: Steps = field(default_factory=Steps)
    saves: list[Save] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    tensors: dict[int, Tensors] = field(default_factory=dict)
    begins: dict[int, Tensors] = field(default_factory=dict)
    idle_draws: dict[str, dict[str, str]] = field(default_factory=dict)
    held: dict[int, Step] = field(default_factory=dict)
    epochs: list[int] = field(default_factory=list)
    blind: dict[str, str] = field(default_factory=dict)
    first_rng: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    end: float | None = None
    left: float | None = None
    halted: Step | None = None
    uncaught: str = ""
    group_timeout: float | None = None
    loaded: list[int] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)
    replicas: tuple[int, ...] = ()
    shards: int = 0
    grouped: bool = False
    corrupted: list[Event] = field(default_factory=list)
    settings: Mapping[str, str] = field(default_factory=dict)

    def until(self, n: int, t: float) -> RankLifetime:
        """Its first `n` steps, and what belongs to them, up to time `t`, when it left off as if it had ended."""
        return replace(
            self,
            steps=self.steps.part(0, self.steps.past(n)),
            saves=[save for save in self.saves if save.begun < t],
            loads=[load for load in self.loads if load.begun < t],
            tensors={at: named for at, named in self.tensors.items() if at <= n},
            begins={at: named for at, named in self.begins.items() if at <= n},
            held={at: step for at, step in self.held.items() if step.t < t},
            epochs=[at for at in self.epochs if at < n],
            loaded=[at for at in self.loaded if at <= n],
            left_out=[at for at in self.left_out if at <= n],
            corrupted=[event for event in self.corrupted if int(event["n"]) <= n],
            halted=None,
            end=t,
            left=t,
        )

    @property
    def reached(self) -> int:
        """The number of the last step that it took or was about to take; 0 for none."""
        return self.halted.n if self.halted is not None else self.steps.numbers[-1] if self.steps else 0

    def since(self, n: int, t: float) -> RankLifetime:
        """What follows on its first `n` steps, as a lifetime that began at time `t` and counts from 1 again."""
        return replace(
            self,
            start=t,
            steps=self.steps.part(self.steps.past(n), len(self.steps), less=n),
            saves=[replace(save, n=save.n - n) for save in self.saves if save.begun >= t],
            loads=[replace(load, n=load.n - n) for load in self.loads if load.begun >= t],
            tensors={at - n: named for at, named in self.tensors.items() if at > n},
            begins={at - n: named for at, named in self.begins.items() if at > n},
            held={at - n: replace(step, n=step.n - n) for at, step in self.held.items() if step.t >= t},
            epochs=[at - n for at in self.epochs if at >= n],
            loaded=[at - n for at in self.loaded if at > n],
            left_out=[at - n for at in self.left_out if at > n],
            corrupted=[event for event in self.corrupted if int(event["n"]) > n],
            halted=replace(self.halted, n=self.halted.n - n) if self.halted is not None else None,
        )


def common_settings(lifetimes: Iterable[RankLifetime]) -> dict[str, str]:
    """The versions and flags that these computed with, as far as they are the same in all."""
    first, *others = [lifetime.settings for lifetime in lifetimes]
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def fill(lifetime: RankLifetime, entries: Sequence[Event | Steps]) -> None:
    """Put what the events of its process tell into a lifetime; steps may have been put together already."""
    late: dict[int, dict[str, Any]] = {}
    events = [entry for entry in entries if isinstance(entry, Event)]
    for event in events:
        if event.kind == "late":
            late.setdefault(int(event["n"]), {}).update(event.data)
    open_saves: dict[int, Event] = {}
    open_loads: dict[int, Event] = {}
    found = {int(event["id"]): str(event["path"]) for event in events if event.kind == "save.found"}
    parts: list[Steps] = []
    single = Steps()
    for entry in entries:
        if isinstance(entry, Steps):
            parts.append(entry)
            lifetime.halted, single = None, Steps()
            continue
        event = entry
        match event.kind:
            case "step":
                n = int(event["n"])
                if not single:
                    parts.append(single)
                _take(single, n, event, late.get(n, {}))
                if event.get("loaded"):
                    lifetime.loaded.append(n)
                if event.get("left_out"):
                    lifetime.left_out.append(n)
                lifetime.halted = None
            case "halt":
                lifetime.halted = step_of(event.data, event.t)
            case "tensors":
                lifetime.tensors[int(event["n"])] = event["tensors"]
            case "begin":
                lifetime.begins[int(event["n"])] = event["streams"]
            case "idle_draw":
                drawn = lifetime.idle_draws.setdefault(str(event["stream"]), {})
                drawn[str(event["before"])] = str(event["after"])
            case "held":
                lifetime.held[int(event["n"])] = step_of({**event.data, "n": int(event["n"]) + 1}, event.t)
            case "save.begin":
                open_saves[int(event["id"])] = event
            case "save.end":
                begin = open_saves.pop(int(event["id"]), event)
                place = found.get(int(event["id"]))
                # What was written to a temporary file, and copied nowhere, is no checkpoint.
                if place is not None or not begin.get("passing"):
                    lifetime.saves.append(_save(begin, event, place))
            case "load.begin":
                open_loads[int(event["id"])] = event
            case "load.end":
                begin = open_loads.pop(int(event["id"]), event)
                lifetime.loads.append(_load(begin, event))
            case "rng0":
                lifetime.first_rng[f"rng.{event['stream']}"] = str(event["value"])
            case "epoch":
                lifetime.epochs.append(int(event["n"]))
            case "replicas":
                lifetime.replicas = tuple(int(rank) for rank in event["ranks"])
            case "shards":
                lifetime.shards = int(event["parameters"])
            case "settings":
                lifetime.settings = event["values"]
            case "corrupted":
                lifetime.corrupted.append(event)
            case "group":
                lifetime.grouped = True
                if event.get("timeout") is not None:
                    lifetime.group_timeout = float(event["timeout"])
            case "blind":
                lifetime.blind[str(event["component"])] = str(event["reason"])
            case "probe.error":
                lifetime.errors.append(f"{event.get('where', '?')}: {event.get('error', '?')}")
            case "probe.lost":
                lifetime.errors.append(f"{event['events']} events could not be written (disk full?)")
            case "process.end":
                lifetime.left = event.t
                lifetime.uncaught = str(event.get("uncaught", ""))
                lifetime.end = event.t if event.get("clean", True) else lifetime.end
    lifetime.steps = Steps.joined(parts)
    lifetime.saves.extend(_save(begin, None) for begin in open_saves.values())
    lifetime.loads.extend(_load(begin, None) for begin in open_loads.values())
    lifetime.saves.sort(key=lambda save: save.begun)
    lifetime.loads.sort(key=lambda load: load.begun)


def step_of(data: Mapping[str, Any], t: float) -> Step:
    """The step that the fields of a `step` event describe."""
    components, parts = ({str(k): str(v) for k, v in data.get(name, {}).items()} for name in ("state", "parts"))
    losses, samples = tuple(data.get("losses", ())), tuple(data.get("samples", ()))
    nonfinite, rows = tuple(data.get("nonfinite", ())), tuple(str(data.get("rows", "")).split())
    own, thin = data.get("own"), bool(data.get("thin", False))
    return Step(int(data["n"]), t, losses, components, samples, nonfinite, parts, rows, own, thin)


def _take(steps: Steps, n: int, event: Event, late: Mapping[str, Any]) -> None:
    """Add a step: one that is as most are, of which there may be very many, straight from its event."""
    data = event.data
    if late or "nonfinite" in data or "parts" in data:
        steps.append(_step(event, late))
    else:
        losses, samples, state = data.get("losses", ()), data.get("samples", ()), data.get("state", {})
        thin = data.get("thin", False)
        steps.add(n, event.t, losses, samples, state, rows=data.get("rows", ""), own=data.get("own"), thin=thin)


def _step(event: Event, late: Mapping[str, Any]) -> Step:
    merged = {**event.data, **late}
    merged["state"] = {**event.get("state", {}), **late.get("state", {})}
    return step_of(merged, event.t)


def _call(begin: Event, end: Event | None) -> dict[str, Any]:
    """What a save and a load have in common; one that has not ended is not known to have failed."""
    return {
        "n": int(begin["n"]),
        "begun": begin.t,
        "ended": end.t if end is not None else None,
        "path": str(begin.get("path", "")),
        "api": str(begin.get("api", "")),
        "ok": bool(end.get("ok", True)) if end is not None else True,
    }


def _save(begin: Event, end: Event | None, place: str | None = None) -> Save:
    call = _call(begin, end)
    contents = {"content": begin.get("content", {}), "nonfinite": tuple(begin.get("nonfinite", ()))}
    contents["files"] = end.get("files", {}) if end is not None else {}
    return Save(**{**call, "path": place or call["path"]}, full=bool(begin.get("full", True)), **contents)


def _load(begin: Event, end: Event | None) -> Load:
    error, content = ("", {}) if end is None else (str(end.get("error", "")), end.get("content", {}))
    return Load(**_call(begin, end), error=error, content=content)
