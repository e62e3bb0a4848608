"""Every stored file that chaoskit reads again: where it lies, what reads it, and valid content made of its types.

`test_every_format.py` damages it, `benchmarks/fuzz_readers.py` makes bytes guided by the coverage of the readers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from hypothesis import strategies as st

from chaoskit import checks, faults
from chaoskit.analysis.record.history import History
from chaoskit.engine.kept_state import KeptRecord
from chaoskit.engine.reference_store import ReferenceRecord
from chaoskit.engine.result import Result
from chaoskit.engine.run_store import JudgedRecord, RunRecord, Store
from chaoskit.engine.runner import stored
from chaoskit.engine.stored_json import read_json
from chaoskit.environments.cgroups import run_groups
from chaoskit.environments.kubernetes import intents
from chaoskit.environments.kubernetes.objects import NAME as OBJECTS
from chaoskit.environments.machine import scratch, sweep
from chaoskit.errors import ChaoskitError
from chaoskit.job import Job
from chaoskit.protocol import putting_back
from chaoskit.protocol.event_schema import EVIDENCE, EVIDENCE_OF, FIELDS, Number, Plain
from chaoskit.protocol.io_journal import Journal, JournalError, Operation
from chaoskit.protocol.putting_back import MOMENTS, WAYS
from chaoskit.studies.nights import archive
from chaoskit.studies.nights.archive import Archive
from chaoskit.studies.nights.baseline import Baseline, StoredBaseline
from chaoskit.studies.nights.conditions import Conditions
from chaoskit.studies.nights.stored_suite import DocumentHead, EndLine, SuiteDocument, SuiteHead
from chaoskit.studies.problems.problem import Proof
from tests.arguments.calls import every_call
from tests.stored.documents import FILE_NAMES, OWN, TEXTS, Damage, Free, damaged, documents, hints_of, needed_of

#: What a reader may raise: one sentence for the user.
SENTENCES = (ChaoskitError, JournalError)


@dataclass(frozen=True)
class Part:
    """A document of the type `kind` in a file, and the fields that its file adds."""

    kind: Any
    document: Any
    more: dict[str, Any] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """As JSON."""
        content = {**self.more, **self.document} if isinstance(self.document, dict) else self.document
        return json.dumps(content).encode()


@dataclass(frozen=True)
class Format:
    """The file at `place` below a store, what `read` makes of it (given the store and the file), and the errors that it
    `raises`, as its docstring says. `parts` makes valid ones: the lines of a file of lines, else one document. `told`
    is what a reader that raises nothing says of the damage; None where it says nothing."""

    place: str
    read: Callable[[Path, Path], Any]
    raises: tuple[type[Exception], ...] = SENTENCES
    parts: st.SearchStrategy[list[Part]] | None = None
    told: Callable[[Any], str] | None = None

    @property
    def name(self) -> str:
        """Its place, without what differs from file to file."""
        return self.place.replace("/x", "")

    def made_in(self, root: Path) -> Path:
        """The path of the file below a store, its directory made."""
        path = root / self.place
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name in ("run.json", "verdicts.json"):
            (path.parent / "events").mkdir(exist_ok=True)
        return path

    def says(self, root: Path, path: Path) -> str | None:
        """The sentence about the damaged file; None if it was read."""
        try:
            made = self.read(root, path)
        except self.raises as error:
            return str(error)
        return (self.told(made) or None) if self.told is not None else None


# The types of documents, where a reader checks more than the annotations of one class say.


class What(TypedDict, total=False):
    """What a fault is."""

    text: str
    action: Plain


@cache
def event_kind(name: str) -> Any:
    """The type of an event, from the table of the fields that readers use."""
    needed, further = FIELDS[name]
    return TypedDict(name, {**needed, **{each: NotRequired[kind] for each, kind in further.items()}})  # type: ignore[operator]


def _fault_kind(names: frozenset[str], further: dict[str, Any]) -> Any:
    """The type of a stage of a fault whose evidence has all of these names."""
    hints = {**EVIDENCE, **further}
    evidence = TypedDict("evidence", {name: NotRequired[kind] for name, kind in hints.items()})  # type: ignore[misc]
    own = {name: documents(kind) for name, kind in hints.items()}
    OWN[evidence] = st.fixed_dictionaries(
        {name: one for name, one in own.items() if name in names},
        optional={name: one for name, one in own.items() if name not in names},
    )
    return TypedDict(  # type: ignore[misc]
        "fault", {"fault": Number, "what": NotRequired[What], "evidence": NotRequired[evidence]}
    )


_FAULTS = tuple(_fault_kind(names, further) for names, further in [(frozenset(), {}), *EVIDENCE_OF.items()])
_OF_HARNESS = (
    "launch.how", "launch.start", "launch.end", "node.start", "node.end", "supervisor.end", "files", "hang", "stack",
    "log", "log.cut", "notice", "run.end",
)  # fmt: skip
_OF_RANK = tuple(name for name in FIELDS if name not in _OF_HARNESS and name != "process.start")


def _either(first: Any, second: Any) -> Any:
    """The fields of both, the second's types first."""
    hints = {**hints_of(first), **hints_of(second)}
    needed = needed_of(first) | needed_of(second)
    return TypedDict("both", {n: h if n in needed else NotRequired[h] for n, h in hints.items()})  # type: ignore[misc]


def _with(kind: Any, **types: Any) -> Any:
    """The fields of a type, some of them of another type."""
    return _either(kind, TypedDict("more", types, total=False))  # type: ignore[misc]


_Run = _with(RunRecord, job=Job)
_Scheduled, _Judged = _with(RunRecord, schedule=list[Free]), _with(JudgedRecord, checks=list[Free])
_Baseline = _either(Baseline, StoredBaseline)


@st.composite
def _baselines(draw: st.DrawFn) -> dict[str, Any]:
    """Every column of every rank has as many steps as the baseline."""
    steps = draw(st.integers(1, 4))
    words = st.lists(st.from_regex(r"[a-z0-9]{1,4}", fullmatch=True), min_size=steps, max_size=steps)
    holes = st.lists(st.none() | st.from_regex(r"[a-z0-9]{1,4}", fullmatch=True), min_size=steps, max_size=steps)
    column = words.map(" ".join) | holes
    ranks = st.dictionaries(st.integers(0, 9).map(str), st.dictionaries(TEXTS, column, max_size=2), max_size=2)
    made = {n: draw(documents(h)) for n, h in hints_of(_Baseline).items() if n not in ("ranks", "steps")}
    return {**made, "steps": steps, "ranks": draw(ranks)}


@st.composite
def _orders(draw: st.DrawFn) -> dict[str, Any]:
    """One of the two orders, with components and steps that there are."""
    components = st.lists(st.sampled_from(putting_back.COMPONENTS), min_size=1, max_size=2)
    steps = st.integers(1, 99)
    if draw(st.booleans()):
        keep = {"positions": draw(st.lists(steps, min_size=1, max_size=3)), "components": draw(components)}
        return {"format": 1, "directory": "/x", "keep": keep}
    one = st.fixed_dictionaries(
        {
            "launch": st.integers(0, 9), "restart": st.integers(0, 9), "position": steps,
            "ranks": st.dictionaries(st.integers(0, 9).map(str), components, max_size=2),
        }
    )  # fmt: skip
    put_back = {
        "moment": draw(st.sampled_from(MOMENTS)), "way": draw(st.sampled_from(WAYS)),
        "digests": draw(st.dictionaries(FILE_NAMES, TEXTS, max_size=2)),
        "resumed": draw(st.lists(one, min_size=1, max_size=2)),
    }  # fmt: skip
    return {"format": 1, "directory": "/x", "put_back": put_back}


@st.composite
def _documents_of_json(draw: st.DrawFn) -> dict[str, Any]:
    """What `--json` writes: its verdict is that of its experiments."""
    from chaoskit.engine.result import overall
    from chaoskit.schema import conform

    found = draw(st.lists(documents(Result), max_size=3))
    made = {"verdict": str(overall([conform(Result, one) for one in found])), "experiments": found}
    more = {
        "suite": draw(documents(DocumentHead)), "proofs": draw(st.lists(documents(Proof), max_size=1)),
        "baselines": draw(st.dictionaries(TEXTS, _baselines(), max_size=1)),
        "conditions": draw(st.dictionaries(TEXTS, documents(Conditions), max_size=1)),
    }  # fmt: skip
    return {**made, **{name: value for name, value in more.items() if draw(st.booleans())}}


_Document = _with(SuiteDocument, baselines=dict[str, _Baseline])


@cache
def _example_faults() -> list[Any]:
    named = {make.__name__ for make in faults.REGISTRY.values()}
    return [each.make(**each.given).at_step(9).to_json() for each in every_call() if each.name in named]


@cache
def _example_checks() -> list[Any]:
    return [each.make(**each.given).to_json() for each in every_call() if each.name in checks.REGISTRY]


OWN |= {_Baseline: _baselines(), putting_back.StoredOrder: _orders(), _Document: _documents_of_json()}


# Files.


def _one(kind: Any, **more: Any) -> st.SearchStrategy[list[Part]]:
    return documents(kind).map(lambda document: [Part(kind, document, more)])


def _with_examples(kind: Any, name: str, examples: Callable[[], list[Any]]) -> st.SearchStrategy[list[Part]]:
    """Documents whose field of that name has some of the examples, which no schema describes."""
    whole = RunRecord if name == "schedule" else JudgedRecord
    some = st.lists(st.deferred(lambda: st.sampled_from(examples())), min_size=1, max_size=3)
    hints = {each: documents(hint) for each, hint in hints_of(whole).items() if each in needed_of(whole)}
    if "job" in hints:
        hints["job"] = documents(Job)
    return st.fixed_dictionaries({**hints, name: some}).map(lambda document: [Part(kind, document, {"format": 1})])


@st.composite
def _suite_lines(draw: st.DrawFn) -> list[Part]:
    found = draw(st.lists(documents(Result), max_size=4))
    head = {**draw(documents(SuiteHead)), "id": "x"}
    lines = [Part(SuiteHead, head, {"e": "suite", "format": 1}), *(Part(Result, one, {"e": "result"}) for one in found)]
    if draw(st.integers(0, 3)):
        end = {**draw(documents(EndLine)), "results": len(found)}
        lines.append(Part(EndLine, end, {"e": "end"}))
    return [*lines, *(Part(Proof, one, {"e": "proof"}) for one in draw(st.lists(documents(Proof), max_size=1)))]


def _events(names: tuple[str, ...], first: Any = None) -> st.SearchStrategy[list[Part]]:
    kinds = st.sampled_from(names).map(lambda name: (name, event_kind(name)))
    kinds |= st.sampled_from(_FAULTS).map(lambda kind: ("fault.applied", kind)) if first is None else st.nothing()
    one = kinds.flatmap(lambda of: documents(of[1]).map(lambda document: Part(of[1], document, {"e": of[0]})))
    begun = [] if first is None else [first]
    return st.lists(one, min_size=1, max_size=6).map(
        lambda told: [
            replace(each, more={"i": at, "t": float(at), **each.more}) for at, each in enumerate([*begun, *told])
        ]
    )


_BEGUN = Part(
    event_kind("process.start"),
    {"role": "rank", "rank": 0, "world": 2, "launch": 0, "restart": 0, "pid": 7},
    {"e": "process.start"},
)


def _fresh(root: Path) -> Archive:
    """An archive that remembers no file: a clock may be too coarse to tell two contents of one file apart."""
    archive._stored.cache_clear()
    archive._stored_conditions.cache_clear()
    return Archive(Store(root))


def _gaps(history: History) -> str:
    return "; ".join(map(str, history.gaps))


def _replayed(root: Path, path: Path) -> None:
    """The faults of a stored schedule, as `replay` makes them."""
    for fault in Store(root).read(path.parent)["schedule"]:
        faults.from_json(fault)


def _judged(root: Path, path: Path) -> None:
    """The checks of stored verdicts, as `analyze` makes them."""
    for check in Store(root).read_verdicts(path.parent).checks:
        checks.from_json(check)


FORMATS = (
    Format("suites/x.jsonl", lambda root, path: Archive(Store(root / "elsewhere")).read(path), parts=_suite_lines()),
    Format(
        "runs/x/events/rank-0.jsonl",
        lambda root, path: History.read(path.parents[1]),
        parts=_events(_OF_RANK, _BEGUN),
        told=_gaps,
    ),
    Format(
        "runs/x/events/harness.jsonl",
        lambda root, path: History.read(path.parents[1]),
        parts=_events(_OF_HARNESS),
        told=_gaps,
    ),
    Format(
        "runs/x/run.json",
        lambda root, path: (read_json(path, RunRecord, missing=""), stored(path.parent, Store(root))),
        parts=_one(_Run, format=1),
    ),
    Format(
        "runs/x/verdicts.json",
        lambda root, path: read_json(path, JudgedRecord, missing=""),
        parts=_one(JudgedRecord, format=1),
    ),
    Format(
        "runs/x/putting-back.json",
        lambda root, path: putting_back.read(path.parent),
        (ValueError,),
        parts=_one(putting_back.StoredOrder),
    ),
    Format(
        "runs/x/journal/operations.jsonl",
        lambda root, path: Journal.read(path.parents[1]),
        parts=st.lists(documents(Operation).map(lambda one: Part(Operation, one)), min_size=1, max_size=4),
    ),
    Format(
        "suites/baselines/x.json",
        lambda root, path: _fresh(root)._baseline("x", root / "suites" / "s.jsonl"),
        parts=_one(_Baseline),
    ),
    Format(
        "suites/conditions/x.json",
        lambda root, path: _fresh(root)._conditions("x", root / "suites" / "s.jsonl"),
        parts=_one(Conditions),
    ),
    Format("night.json", lambda root, path: Archive(Store(root)).read(path), parts=_one(_Document, schema=1)),
    Format(
        "references/x/reference.json",
        lambda root, path: read_json(path, ReferenceRecord, missing=""),
        parts=_one(ReferenceRecord, format=1),
    ),
    Format(
        "references/x/kept/kept.json",
        lambda root, path: read_json(path, KeptRecord, missing=""),
        parts=_one(KeptRecord, format=1),
    ),
    Format("runs/schedule/run.json", _replayed, parts=_with_examples(_Scheduled, "schedule", _example_faults)),
    Format("runs/checks/verdicts.json", _judged, parts=_with_examples(_Judged, "checks", _example_checks)),
    # These are read to clean up: what cannot be read says nothing.
    Format("swept/runs/x/run.json", lambda root, path: list(sweep._unfinished(path.parents[2])), (), _one(_Run)),
    Format(
        f"runs/x/{OBJECTS}",
        lambda root, path: intents.left(path),
        (),
        st.lists(documents(intents.IntentLine).map(lambda one: Part(intents.IntentLine, one)), min_size=1, max_size=4),
    ),
    Format(
        "runs/x/owner.json",
        lambda root, path: scratch.is_abandoned(path.parent),
        (),
        documents(TypedDict("owner", {"pid": int, "start": int, "host": str, "boot": str})).map(  # type: ignore[misc]
            lambda document: [Part(dict[str, Any], document)]
        ),
    ),
    Format(
        f"runs/x/{run_groups.NAME}",
        lambda root, path: run_groups.remove_left(path.parent, "x"),
        (),
        documents(list[str]).map(lambda document: [Part(list[str], document)]),
    ),
)


@st.composite
def damaged_files(draw: st.DrawFn, parts: st.SearchStrategy[list[Part]]) -> tuple[list[Part], Damage, int]:
    """A file with one damaged part, the damage, and which part it is."""
    every = draw(parts)
    at = draw(st.integers(0, len(every) - 1))
    damage = draw(damaged(every[at].kind, st.just(every[at].document)))
    return [*every[:at], replace(every[at], document=damage.document), *every[at + 1 :]], damage, at
