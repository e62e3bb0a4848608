"""The fields of each kind of event that readers use, and their types. Other kinds, and other fields, may hold anything.

Standard library only; ranks import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, TypedDict

from chaoskit.schema import Count, Range, SchemaError, Seconds, check_fields

#: The number of a step, a launch, a restart, a rank: what counts steps and processes stays small.
Number = Annotated[int, Range(0, 2**31)]
#: The ranks of a job: there are fewer than this.
World = Annotated[int, Range(1, 2**20)]
Fingerprints = Mapping[str, str]
Strings = Sequence[str]
Plain = Mapping[str, Any]

_STEP: dict[str, Any] = {
    "losses": Strings, "state": Fingerprints, "parts": Fingerprints, "samples": Strings, "rows": str,
    "nonfinite": Strings, "loaded": bool, "left_out": bool, "thin": bool, "own": Seconds | None,
}  # fmt: skip
_CALL: dict[str, Any] = {"path": str, "api": str, "content": Fingerprints, "nonfinite": Strings, "full": bool,
                         "passing": bool}  # fmt: skip
_END: dict[str, Any] = {"ok": bool, "error": str, "content": Fingerprints, "files": Mapping[str, Count]}


class SaveCall(TypedDict):
    """A save, known by how many steps its process had taken."""

    launch: Number
    restart: Number
    n: Number


class AlteredFile(TypedDict):
    """A file that a fault altered."""

    file: str


class StruckRank(TypedDict):
    """Another rank of which a fault changed numbers."""

    rank: Number


class _EverySource(TypedDict):
    path: str


class SourceFile(_EverySource, total=False):
    """A file that a rank has read."""

    size: Count
    hash: str


class NoticedNode(TypedDict):
    """What became of a node that got notice (see `CanPreempt.preempted`)."""

    received: Sequence[Plain]
    asked: Number
    refused: Number
    ended: Seconds | None
    killed: Seconds | None


#: What the evidence of every fault may have, as far as the analysis reads it.
EVIDENCE: dict[str, Any] = {
    "since": float | None, "used_up": float | None, "missed": str, "processes": Strings,
}  # fmt: skip
_OF_SAVES: dict[str, Any] = {
    "save": SaveCall | None, "saves": Sequence[SaveCall], "spared": Sequence[SaveCall], "mended": Sequence[SaveCall],
    "files": Sequence[AlteredFile],
}  # fmt: skip
#: By the fields that tell what it is evidence of: its further fields, which mean something else in other evidence.
EVIDENCE_OF: dict[frozenset[str], dict[str, Any]] = {
    frozenset(("component", "rank", "n")): {
        "component": str, "rank": Number, "n": Number, "launch": Number, "restart": Number, "where": str,
        "before": Strings, "after": Strings, "changed": Count, "others": Sequence[StruckRank],
    },
    frozenset(("save",)): _OF_SAVES,
    frozenset(("saves",)): _OF_SAVES,
    frozenset(("cloud",)): {
        "cloud": str, "since": float, "grace": Seconds, "nodes": Strings | Mapping[str, NoticedNode],
    },
}  # fmt: skip
_EVIDENCE = check_fields({}, EVIDENCE)
_EVIDENCE_OF = {names: check_fields({}, own) for names, own in EVIDENCE_OF.items()}
_WHAT = check_fields({}, {"text": str, "action": Plain, "trigger": Plain | None})


def _of_fault(record: Mapping[str, Any]) -> None:
    _evidence(record.get("evidence", {}))
    try:
        _WHAT(record.get("what", {}))
    except SchemaError as error:
        raise error.below(".what") from None


def _evidence(evidence: Mapping[str, Any]) -> None:
    try:
        _EVIDENCE(evidence)
        for names, check in _EVIDENCE_OF.items():
            if names <= evidence.keys():
                check(evidence)
    except SchemaError as error:
        raise error.below(".evidence") from None


#: By kind of event: the fields that it must have, and those that it may have.
FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "process.start": (
        {"role": str, "rank": Number, "world": World, "launch": Number, "restart": Number, "pid": Count},
        {"start": Count, "node": str, "argv": Strings, "forked": bool},
    ),
    "process.end": ({}, {"clean": bool, "uncaught": str}),
    "rng0": ({"stream": str, "value": str}, {}),
    "torch": ({"version": str}, {}),
    "group": ({}, {"timeout": Seconds | None}),
    "meeting": ({}, {"at": str, "port": Number}),
    "epoch": ({"n": Number}, {}),
    "step": ({"n": Number}, _STEP),
    "halt": ({"n": Number}, _STEP),
    "late": ({"n": Number}, _STEP),
    "held": ({"n": Number}, _STEP),
    "settings": ({"values": Mapping[str, str]}, {}),
    "replicas": ({"ranks": Sequence[Number]}, {}),
    "shards": ({"parameters": Number}, {}),
    "idle_draw": ({"n": Number, "stream": str, "before": str, "after": str}, {}),
    "tensors": ({"n": Number, "tensors": Mapping[str, Fingerprints]}, {}),
    "begin": ({"n": Number, "streams": Mapping[str, Fingerprints]}, {}),
    "save.begin": ({"id": Number, "n": Number}, _CALL),
    "save.end": ({"id": Number, "n": Number}, {**_CALL, **_END}),
    "save.found": ({"id": Number, "path": str}, {}),
    "load.begin": ({"id": Number, "n": Number}, {**_CALL, "weights_only": bool}),
    "load.end": ({"id": Number, "n": Number}, {**_CALL, **_END}),
    "corrupted": ({"n": Number, "component": str}, {}),
    "blind": ({"component": str, "reason": str}, {}),
    "clock": ({"offset": float}, {}),
    "probe.error": ({"where": str, "error": str}, {}),
    "probe.lost": ({"events": Count}, {}),
    "state.kept": ({"file": str, "digest": str}, {}),
    "state.put": ({"components": Mapping[str, Strings]}, {}),
    "sources": ({"files": Sequence[SourceFile]}, {}),
    "modules": ({"names": Strings}, {}),
    "launch.how": ({"launch": Number, "how": str}, {}),
    "launch.start": ({"launch": Number}, {"command": Strings, "out": str, "added": Strings, "stops_with": int | None}),
    "launch.end": (
        {"launch": Number, "code": int | None, "cause": str},
        {"survivors": Sequence[Plain], "why": str, "requeued": bool},
    ),
    "node.start": ({"launch": Number, "node": str}, {"address": str, "how": str}),
    "node.end": ({"launch": Number, "node": str}, {"code": int | None, "cause": str}),
    "supervisor.end": ({"code": str, "reason": str, "text": str}, {}),
    "files": ({"launch": Number, "files": Sequence[tuple[str, Count]]}, {}),
    "hang": ({"quiet": Seconds, "longest": Seconds}, {}),
    "stack": ({"rank": Number, "text": str}, {}),
    "log": (
        {"launch": Number | None, "restart": Number | None, "by": str, "line": Count, "step": Count, "loss": str}, {},
    ),
    "log.cut": ({"file": str, "left_out": Count, "limit": Count}, {}),
    "notice": ({"launch": Number, "text": str}, {}),
    "window": ({"save": Number, "at": Number, "of": Number}, {}),
    "run.end": ({"status": str}, {}),
}  # fmt: skip
#: Of every stage of a fault.
_FAULT: tuple[dict[str, Any], dict[str, Any]] = ({"fault": Number}, {"what": Plain, "evidence": Plain})


def check_event(kind: str, record: Mapping[str, Any]) -> None:
    """Raises SchemaError for an event of this kind that lacks a field, or has one of another type."""
    for check in _checks(kind):
        check(record)


def add_evidence(known: dict[int, dict[str, Any]], record: Mapping[str, Any]) -> None:
    """Add the evidence of one stage of a fault to what earlier stages told, by the number of the fault. Raises
    SchemaError if it is not evidence of one and the same fault."""
    told = {**known.get(record["fault"], {}), **record.get("evidence", {})}
    _evidence(told)
    known[record["fault"]] = told


@lru_cache(maxsize=256)
def _checks(kind: str) -> tuple[Callable[[Mapping[str, Any]], None], ...]:
    if kind.partition(".")[0] == "fault":
        return check_fields(*_FAULT), _of_fault
    return (check_fields(*FIELDS[kind]),) if kind in FIELDS else ()
