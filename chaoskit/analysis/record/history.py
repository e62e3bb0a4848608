"""`History`: the record of one run, put in order: incarnations, what every rank did in each, what was broken.

A pure view of the events under `runs/<id>/events/`; it opens nothing but those files, and it can be built from a
list of events by hand, which is how the checks are tested. `docs/reference/format.md` lists the kinds of event.

Words. A *launch* is one start of the job's command. An *incarnation* is one lifetime of the ranks: a launch, a restart
by the elastic agent inside it, or what follows on a rollback in their processes (`rollbacks`). A *position*
is a number of completed optimizer steps: step k leads from position k-1 to position k. Counts in an incarnation
(`Step.n`, `Save.n`) begin at its own start; what true position they stand for is found by `alignment`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaoskit.analysis.record.column import Packing, is_constant
from chaoskit.analysis.record.harness_record import (
    CutLog,
    FaultRecord,
    LaunchRecord,
    LogLine,
    NodeRecord,
    NoticeRecord,
    WindowRecord,
    out_of,
)
from chaoskit.analysis.record.in_process_rollback import Rollbacks
from chaoskit.analysis.record.process_record import ProcessRecord, RecordFiles
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.record.step_lines import Entry
from chaoskit.protocol.events import Event, RecordGap


@dataclass
class Incarnation:
    """One lifetime of the ranks: `index` counts from 0 over the whole run. `taken` is how many steps its processes had
    taken before it began, with a rollback; 0 where they are new."""

    index: int
    launch: int
    restart: int
    world_size: int
    ranks: dict[int, RankLifetime] = field(default_factory=dict)
    taken: int = 0

    @property
    def restarted(self) -> bool:
        """Whether its agent had started its processes again, inside one launch."""
        return self.restart > 0 and not self.taken

    @property
    def start(self) -> float:
        """When its first rank came up."""
        return min(lifetime.start for lifetime in self.ranks.values())

    @property
    def first_step(self) -> float | None:
        """When its first optimizer step was about to be taken on any rank."""
        return min((lifetime.steps.times[0] for lifetime in self.ranks.values() if lifetime.steps), default=None)


@dataclass
class History:
    """The whole record. `end` is what the run came to: `finished`, `gave-up` (relaunches used up), `hang`,
    `deadline`, `interrupted`, or None where the harness died. `quiet` is for how many seconds a job that hangs had done
    nothing, and `longest_quiet` for how long before that, or its reference, at most; None of any other. `gave_up` says
    why the job's controller started nothing again: `code` of the diagnosis, `reason`, `text`; None if it did. `window`
    says from what a run began that did not train from the first step. Its `end` is `window` if chaoskit ended it once
    the job equalled its reference again."""

    incarnations: list[Incarnation] = field(default_factory=list)
    launches: list[LaunchRecord] = field(default_factory=list)
    nodes: list[NodeRecord] = field(default_factory=list)
    faults: list[FaultRecord] = field(default_factory=list)
    stacks: dict[int, str] = field(default_factory=dict)
    files: list[Event] = field(default_factory=list)
    gaps: list[RecordGap] = field(default_factory=list)
    log: tuple[LogLine, ...] = ()
    cut_logs: list[CutLog] = field(default_factory=list)
    notices: list[NoticeRecord] = field(default_factory=list)
    end: str | None = None
    quiet: float | None = None
    longest_quiet: float | None = None
    gave_up: Mapping[str, str] | None = None
    window: WindowRecord | None = None

    @property
    def ranks(self) -> list[int]:
        """Every rank that ever lived, in order."""
        return sorted({rank for inc in self.incarnations for rank in inc.ranks})

    @property
    def world_size(self) -> int:
        """That of the first incarnation; 0 where no rank came up."""
        return self.incarnations[0].world_size if self.incarnations else 0

    @classmethod
    def read(cls, run_dir: Path, *, like: History | None = None, files: RecordFiles | None = None) -> History:
        """The history of a stored run; lines that were cut short are left out and damaged ones kept as gaps. What its
        ranks did just as those of `like`, such as a control of its reference, is kept in memory once. What `files` know
        is not read again."""
        paths = sorted((run_dir / "events").glob("*.jsonl"))
        with _uncollected():
            return cls._put_in_order((files or RecordFiles()).read(paths), like)

    @classmethod
    def read_controls(cls, run_dirs: Iterable[Path], *, files: RecordFiles | None = None) -> list[History]:
        """The histories of several runs of one kind, in which all that equals the first is kept in memory once."""
        found: list[History] = []
        for run_dir in run_dirs:
            found.append(cls.read(run_dir, like=found[0] if found else None, files=files))
        return found

    @classmethod
    def of(cls, entries: Iterable[Event | RecordGap]) -> History:
        """The history that these events tell, in whatever order they come from different sources."""
        sources: dict[str, list[Entry]] = {}
        for entry in entries:
            sources.setdefault(entry.source, []).append(entry)
        return cls._put_in_order(map(ProcessRecord.of, sources.values()))

    @classmethod
    def _put_in_order(cls, records: Iterable[ProcessRecord], like: History | None = None) -> History:
        """One process after the other, so that the events of all ranks are never held at once."""
        history, packing = cls(), Packing()
        known = (
            {rank: own.steps for rank, own in like.incarnations[0].ranks.items()} if like and like.ranks else {}
        )
        found: dict[tuple[int, int], list[tuple[int, RankLifetime]]] = {}
        for record in records:
            history.gaps += record.gaps
            if record.lifetime is not None:
                lifetime = record.lifetime
                lifetime.steps.pack(packing, like=known.get(lifetime.rank))
                found.setdefault((record.launch, record.restart), []).append((record.world, lifetime))
            elif record.events:
                _read_harness(history, record.events)
        for launch in sorted({launch for launch, _ in found}):
            restarts = {restart: many for (of, restart), many in sorted(found.items()) if of == launch}
            if len({lifetime.node for many in restarts.values() for _, lifetime in many}) > 1:
                history.incarnations += _rounds(launch, restarts)
            else:
                for restart, many in restarts.items():
                    history.incarnations += _incarnations(launch, restart, many)
        _settle_untouched(history, packing)
        rollbacks = Rollbacks()
        history.incarnations = [
            replace(inc, ranks=part.ranks, taken=part.taken)
            for inc in history.incarnations
            for part in rollbacks.parts(inc.ranks)
        ]
        for index, inc in enumerate(history.incarnations):
            inc.index = index
        _settle_corruptions(history)
        return history


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cycles: reading makes very many objects and no cycle, and looking for some among them
    takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _incarnations(launch: int, restart: int, found: list[tuple[int, RankLifetime]]) -> list[Incarnation]:
    """The incarnations of one restart: one, or several where the command itself started the ranks again.

    Of the processes that carried a rank the ones that stepped were it, one lifetime after the other; if none did, the
    last.
    """
    by_rank: dict[int, list[tuple[int, RankLifetime]]] = {}
    for world_size, lifetime in sorted(found, key=lambda one: one[1].start):
        by_rank.setdefault(lifetime.rank, []).append((world_size, lifetime))
    made: list[Incarnation] = []
    for rank, own in sorted(by_rank.items()):
        lived = [one for one in own if one[1].steps] or own[-1:]
        for generation, (world_size, lifetime) in enumerate(lived):
            if generation == len(made):
                made.append(Incarnation(-1, launch, restart, world_size))
            made[generation].ranks[rank] = lifetime
    return made


def _rounds(launch: int, found: Mapping[int, list[tuple[int, RankLifetime]]]) -> list[Incarnation]:
    """The incarnations of a launch over several nodes, whose agents count their restarts each on its own: one for each
    time that they met. Nobody meets again before everybody has ended, so that they follow one another."""
    every = [(restart, *one) for restart, many in found.items() for one in many]
    made: list[Incarnation] = []
    restarts: dict[str, int] = {}
    for restart, world_size, lifetime in sorted(every, key=lambda one: one[2].start):
        now = made[-1] if made else None
        met = now is not None and now.world_size == world_size and lifetime.rank not in now.ranks
        if now is None or not met or restarts.get(lifetime.node, restart) != restart:
            now = Incarnation(-1, launch, len(made), world_size)
            made.append(now)
            restarts.clear()
        restarts[lifetime.node] = restart
        now.ranks[lifetime.rank] = lifetime
    return made


def _read_harness(history: History, events: Sequence[Event]) -> None:
    """The harness's own file: launches, faults, the end."""
    launches: dict[int, dict[str, Any]] = {}
    faults: dict[int, dict[str, Any]] = {}
    log: list[LogLine] = []
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
            added = tuple(map(str, event.get("added", ())))
            code = event.get("stops_with")
            launches[int(event["launch"])] = {
                "begun": event.t, "out": out_of(event), "added": added, "stops_with": code,
                "command": tuple(map(str, event.get("command", ()))),
            }  # fmt: skip
        elif event.kind == "launch.how":
            launches.setdefault(int(event["launch"]), {"begun": event.t})["how"] = str(event["how"])
        elif event.kind == "launch.end":
            launches.setdefault(int(event["launch"]), {"begun": event.t}).update(
                ended=event.t,
                code=event["code"],
                cause=str(event["cause"]),
                survivors=tuple(event.get("survivors", ())),
                why=str(event.get("why", "")),
                requeued=bool(event.get("requeued", False)),
            )
        elif event.kind == "supervisor.end":
            history.gave_up = {name: str(event[name]) for name in ("code", "reason", "text")}
        elif event.kind in ("node.start", "node.end"):
            _read_node(history.nodes, event)
        elif event.kind == "files":
            history.files.append(event)
        elif event.kind == "hang":
            history.quiet, history.longest_quiet = float(event["quiet"]), float(event["longest"])
        elif event.kind == "stack":
            history.stacks[int(event["rank"])] = str(event["text"])
        elif event.kind == "log":
            log.append(LogLine(*(event[name] for name in ("launch", "restart", "by", "line", "step", "loss"))))
        elif event.kind == "log.cut":
            history.cut_logs.append(CutLog(str(event["file"]), int(event["left_out"]), int(event["limit"])))
        elif event.kind == "notice":
            history.notices.append(NoticeRecord(event.t, int(event["launch"]), str(event["text"])))
        elif event.kind == "window":
            history.window = WindowRecord(int(event["save"]), int(event["at"]), int(event["of"]))
        elif event.kind == "run.end":
            history.end = str(event["status"])
    history.launches += [LaunchRecord(index, **fields) for index, fields in sorted(launches.items())]
    history.log += tuple(log)
    found = [FaultRecord(index, **fields) for index, fields in sorted(faults.items())]
    history.faults += [fault for fault in found if not fault.was_not_due]


def _read_node(nodes: list[NodeRecord], event: Event) -> None:
    """A node whose agent was started, or the newest one of that name, which has ended."""
    launch, node = int(event["launch"]), str(event["node"])
    if event.kind == "node.start":
        address, how = str(event.get("address", "")), str(event.get("how", ""))
        nodes.append(NodeRecord(launch, node, event.t, address=address, how=how))
        return
    for at in reversed(range(len(nodes))):
        if (nodes[at].launch, nodes[at].node, nodes[at].ended) == (launch, node, None):
            end = {"ended": event.t, "code": event.get("code"), "cause": str(event.get("cause", "itself"))}
            nodes[at] = replace(nodes[at], **end)
            return


#: The fingerprint of a random stream that is as the process found it: nobody seeded it, nobody drew from it.
UNTOUCHED = "untouched"


def _settle_untouched(history: History, packing: Packing) -> None:
    """Give streams that are still as some process of the run found them one name.

    Python seeds `random` anew in every process, so that their states differ and mean nothing, also where a checkpoint
    carries one on into the next incarnation.
    """
    first = {(stream, value) for _, lifetime in lifetimes(history) for stream, value in lifetime.first_rng.items()}
    for _, lifetime in lifetimes(history):
        for stream in {stream for stream, _ in first} & set(lifetime.steps.columns):
            column = lifetime.steps.columns[stream]
            if not is_constant(column) or (stream, column[0]) in first:
                found = [UNTOUCHED if (stream, value) in first else value for value in column]
                lifetime.steps.columns[stream] = packing.column(found, like=column)
        lifetime.begins = {
            n: {
                at: {name: UNTOUCHED if (name, value) in first else value for name, value in named.items()}
                for at, named in points.items()
            }
            for n, points in lifetime.begins.items()
        }
        if lifetime.halted is not None:
            own = lifetime.halted.components
            settled = {name: UNTOUCHED if (name, value) in first else value for name, value in own.items()}
            lifetime.halted = replace(lifetime.halted, components=settled)


def _settle_corruptions(history: History) -> None:
    """Give faults that changed a number the time at which they did: it is the rank that knows it."""
    times = {
        (inc.launch, lifetime.rank, int(event["n"]), event["component"]): event.t
        for inc, lifetime in lifetimes(history)
        for event in lifetime.corrupted
    }
    for number, fault in enumerate(history.faults):
        own = fault.evidence
        if not {"rank", "n", "component"} <= own.keys():
            continue
        key = (own.get("launch"), own["rank"], own["n"], own["component"])
        if key in times:
            history.faults[number] = replace(fault, evidence={**own, "since": times[key]})


def lifetimes(history: History) -> Iterator[tuple[Incarnation, RankLifetime]]:
    """Every rank of every incarnation, in order."""
    for inc in history.incarnations:
        for lifetime in inc.ranks.values():
            yield inc, lifetime


def saves_whole(histories: Iterable[History]) -> bool:
    """Whether a save in any of them is a whole checkpoint. Weights alone are an export then; a job that saves nothing
    else resumes from those."""
    return any(save.full for history in histories for _, own in lifetimes(history) for save in own.saves)


def longest_save(histories: Iterable[History]) -> float | None:
    """The seconds of the longest save that was completed in any of them; None if none was."""
    every = (save for history in histories for _, own in lifetimes(history) for save in own.saves)
    return max((save.ended - save.begun for save in every if save.ended is not None and save.ok), default=None)
