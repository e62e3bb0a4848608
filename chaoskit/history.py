"""`History`: the record of one run, put in order: incarnations, what every rank did in each, what was broken.

A pure view of the events under `runs/<id>/events/`; it opens nothing but those files, and it can be built from a
list of events by hand, which is how the checks are tested. `docs/format.md` lists the kinds of event.

Words. A *launch* is one start of the job's command. An *incarnation* is one life of the ranks: a launch, or a
restart by the elastic agent inside it. A *position* is a number of completed optimizer steps: step k leads from
position k-1 to position k. Counts in an incarnation (`Step.n`, `Save.n`) begin at its own start; what true
position they stand for is found by `alignment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaoskit.events import Event, Gap, read_events

#: Fields of a step that are components of the state, in the order in which tables show them.
COMPONENTS = ("model", "buffers", "optimizer", "lr", "scaler", "ema", "rng", "batch")


@dataclass(frozen=True)
class Step:
    """One optimizer step of one rank, as it was about to be taken.

    `n` counts from 1 in the incarnation. `losses` are `float.hex` of each backward since the step before.
    `components` maps model, buffers, optimizer, lr, scaler, ema, `rng.<stream>` and batch to fingerprints; what the
    job does not have is absent.
    """

    n: int
    t: float
    losses: tuple[str, ...]
    components: Mapping[str, str]


@dataclass(frozen=True)
class Save:
    """One call that writes checkpoint data, on one rank, after `n` steps of its incarnation.

    `ended` is None while it had not returned (for an asynchronous one: while its future was open); `ok` is False
    when it raised. `full` is False for an export of weights, which nobody resumes from: it holds no optimizer.
    """

    n: int
    begun: float
    ended: float | None
    path: str
    api: str
    ok: bool = True
    full: bool = True


@dataclass(frozen=True)
class Load:
    """One call that reads checkpoint data, on one rank, after `n` steps of its incarnation."""

    n: int
    begun: float
    ended: float | None
    path: str
    api: str
    ok: bool = True
    error: str = ""


@dataclass
class Life:
    """What one rank did in one incarnation. `end` is None for a rank that was killed or crashed hard."""

    rank: int
    pid: int
    start: float
    steps: list[Step] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    blind: dict[str, str] = field(default_factory=dict)
    first_rng: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    end: float | None = None


@dataclass
class Incarnation:
    """One life of the ranks: `index` counts from 0 over the whole run."""

    index: int
    launch: int
    restart: int
    world_size: int
    ranks: dict[int, Life] = field(default_factory=dict)

    @property
    def start(self) -> float:
        """When its first rank came up."""
        return min(life.start for life in self.ranks.values())

    @property
    def first_step(self) -> float | None:
        """When its first optimizer step was about to be taken on any rank."""
        return min((life.steps[0].t for life in self.ranks.values() if life.steps), default=None)


@dataclass(frozen=True)
class FaultRecord:
    """What became of fault number `index`: the times are None where it did not get that far."""

    index: int
    what: Mapping[str, Any]
    requested: float | None = None
    applied: float | None = None
    observed: float | None = None
    healed: float | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How the fault calls itself, for instance 'kill rank 1 at step 25'."""
        return str(self.what.get("text", "fault"))


@dataclass(frozen=True)
class LaunchRecord:
    """One start of the command. `code` is its exit code, negative for a signal; `cause` is what ended it:
    `itself`, `fault` (we killed the launcher), `deadline` or `interrupted`. None while it had not ended."""

    index: int
    begun: float
    ended: float | None = None
    code: int | None = None
    cause: str | None = None
    survivors: tuple[Mapping[str, Any], ...] = ()


@dataclass
class History:
    """The whole record. `end` is what the run came to: `finished`, `gave-up` (relaunches used up), `deadline`,
    `interrupted`, or None where the harness died."""

    incarnations: list[Incarnation] = field(default_factory=list)
    launches: list[LaunchRecord] = field(default_factory=list)
    faults: list[FaultRecord] = field(default_factory=list)
    stacks: dict[int, str] = field(default_factory=dict)
    files: list[Event] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    end: str | None = None

    @property
    def ranks(self) -> list[int]:
        """Every rank that ever lived, in order."""
        return sorted({rank for inc in self.incarnations for rank in inc.ranks})

    @property
    def world_size(self) -> int:
        """That of the first incarnation; 0 where no rank came up."""
        return self.incarnations[0].world_size if self.incarnations else 0

    @classmethod
    def read(cls, run_dir: Path) -> History:
        """The history of a stored run; lines that were cut short are left out and damaged ones kept as gaps."""
        entries: list[Event | Gap] = []
        for path in sorted((run_dir / "events").glob("*.jsonl")):
            entries.extend(read_events(path))
        return cls.of(entries)

    @classmethod
    def of(cls, entries: Iterable[Event | Gap]) -> History:
        """The history that these events tell, in whatever order they come from different sources."""
        events: list[Event] = []
        history = cls()
        for entry in entries:
            if isinstance(entry, Gap):
                history.gaps.append(entry)
            else:
                events.append(entry)
        sources: dict[str, list[Event]] = {}
        for event in events:
            sources.setdefault(event.source, []).append(event)
        for own in sources.values():
            if own[0].kind == "process.start":
                _read_process(history, own)
            else:
                _read_harness(history, own)
        _order(history)
        _settle_untouched(history)
        return history


def _read_process(history: History, events: list[Event]) -> None:
    """A file of one process; only ranks matter, and a process that never stepped may still have loaded."""
    start = events[0]
    if start.get("role") != "rank":
        return
    launch, restart = int(start["launch"]), int(start["restart"])
    for inc in history.incarnations:
        if (inc.launch, inc.restart) == (launch, restart):
            break
    else:
        inc = Incarnation(-1, launch, restart, int(start["world"]))
        history.incarnations.append(inc)
    life = Life(int(start["rank"]), int(start["pid"]), start.t)
    older = inc.ranks.get(life.rank)
    # Two processes with one rank in one incarnation: the one that stepped, else the later, is the rank.
    _fill(life, events[1:])
    if older is None or (len(life.steps), life.start) > (len(older.steps), older.start):
        inc.ranks[life.rank] = life


def _fill(life: Life, events: list[Event]) -> None:
    late: dict[int, dict[str, Any]] = {}
    for event in events:
        if event.kind == "late":
            late.setdefault(int(event["n"]), {}).update(event.data)
    open_saves: dict[int, Event] = {}
    open_loads: dict[int, Event] = {}
    for event in events:
        match event.kind:
            case "step":
                life.steps.append(_step(event, late.get(int(event["n"]), {})))
            case "save.begin":
                open_saves[int(event["id"])] = event
            case "save.end":
                begin = open_saves.pop(int(event["id"]), event)
                life.saves.append(_save(begin, event))
            case "load.begin":
                open_loads[int(event["id"])] = event
            case "load.end":
                begin = open_loads.pop(int(event["id"]), event)
                life.loads.append(_load(begin, event))
            case "rng0":
                life.first_rng[f"rng.{event['stream']}"] = str(event["value"])
            case "epoch":
                life.epochs.append(int(event["n"]))
            case "blind":
                life.blind[str(event["component"])] = str(event["reason"])
            case "probe.error":
                life.errors.append(f"{event.get('where', '?')}: {event.get('error', '?')}")
            case "probe.lost":
                life.errors.append(f"{event['events']} events could not be written (disk full?)")
            case "process.end" if event.get("clean", True):
                life.end = event.t
    life.saves.extend(_save(begin, None) for begin in open_saves.values())
    life.loads.extend(_load(begin, None) for begin in open_loads.values())
    life.saves.sort(key=lambda save: save.begun)
    life.loads.sort(key=lambda load: load.begun)


def step_of(data: Mapping[str, Any], t: float) -> Step:
    """The step that the fields of a `step` event describe."""
    components = {str(k): str(v) for k, v in data.get("state", {}).items()}
    return Step(int(data["n"]), t, tuple(data.get("losses", ())), components)


def _step(event: Event, late: Mapping[str, Any]) -> Step:
    merged = dict(event.data)
    if late:
        merged["state"] = {**event.get("state", {}), **late.get("state", {})}
        if "losses" in late:
            merged["losses"] = late["losses"]
    return step_of(merged, event.t)


def _save(begin: Event, end: Event | None) -> Save:
    return Save(
        n=int(begin["n"]),
        begun=begin.t,
        ended=end.t if end is not None else None,
        path=str(begin.get("path", "")),
        api=str(begin.get("api", "")),
        ok=bool(end.get("ok", True)) if end is not None else True,
        full=bool(begin.get("full", True)),
    )


def _load(begin: Event, end: Event | None) -> Load:
    return Load(
        n=int(begin["n"]),
        begun=begin.t,
        ended=end.t if end is not None else None,
        path=str(begin.get("path", "")),
        api=str(begin.get("api", "")),
        ok=bool(end.get("ok", True)) if end is not None else True,
        error=str(end.get("error", "")) if end is not None else "",
    )


def _read_harness(history: History, events: list[Event]) -> None:
    """The harness's own file: launches, faults, the end."""
    launches: dict[int, dict[str, Any]] = {}
    faults: dict[int, dict[str, Any]] = {}
    for event in events:
        family, _, stage = event.kind.partition(".")
        if family == "fault":
            record = faults.setdefault(int(event["fault"]), {"what": {}, "evidence": {}})
            if stage in ("requested", "applied", "observed", "healed"):
                record[stage] = event.t
            if "what" in event.data:
                record["what"] = event["what"]
            record["evidence"] = {**record["evidence"], **event.get("evidence", {})}
        elif event.kind == "launch.start":
            launches[int(event["launch"])] = {"begun": event.t}
        elif event.kind == "launch.end":
            launches.setdefault(int(event["launch"]), {"begun": event.t}).update(
                ended=event.t,
                code=event["code"],
                cause=str(event["cause"]),
                survivors=tuple(event.get("survivors", ())),
            )
        elif event.kind == "files":
            history.files.append(event)
        elif event.kind == "stack":
            history.stacks[int(event["rank"])] = str(event["text"])
        elif event.kind == "run.end":
            history.end = str(event["status"])
    history.launches += [LaunchRecord(index, **fields) for index, fields in sorted(launches.items())]
    history.faults += [FaultRecord(index, **fields) for index, fields in sorted(faults.items())]


#: The fingerprint of a random stream that is as the process found it: nobody seeded it, nobody drew from it.
UNTOUCHED = "untouched"


def _settle_untouched(history: History) -> None:
    """Give streams that are still as some process of the run found them one name.

    Python seeds `random` anew in every process, so that their states differ and mean nothing, also where a checkpoint
    carries one on into the next incarnation.
    """
    first = {(stream, value) for _, life in lives(history) for stream, value in life.first_rng.items()}
    for _, life in lives(history):
        for index, step in enumerate(life.steps):
            named = {
                name: UNTOUCHED if (name, value) in first else value for name, value in step.components.items()
            }
            if named != step.components:
                life.steps[index] = replace(step, components=named)


def _order(history: History) -> None:
    history.incarnations.sort(key=lambda inc: (inc.launch, inc.restart))
    for index, inc in enumerate(history.incarnations):
        inc.index = index
        inc.ranks = dict(sorted(inc.ranks.items()))


def lives(history: History) -> Iterator[tuple[Incarnation, Life]]:
    """Every rank of every incarnation, in order."""
    for inc in history.incarnations:
        for life in inc.ranks.values():
            yield inc, life
