"""`Windows`: what is stored about the windows of one job: the kept states, and whether windows may be used.

The stored result is `windows.json` beside the controls. It applies to the controls that it names: a job that changed
has others, and must earn its windows again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from filelock import FileLock
from xxhash import xxh3_128

from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.run_store import Store
from chaoskit.engine.stored_json import read_json, write_json
from chaoskit.engine.windows.kept_outs import KeptOuts
from chaoskit.errors import StoreError
from chaoskit.protocol.stored_files import LONGEST_RECORD, read_stored

#: The directory of the states in that of the run in which they were kept, and the file with the result.
OUTS, RESULT = "outs", "windows.json"


class EarnedRecord(TypedDict):
    """The content of windows.json. `why`: why the job is not run in windows, empty if it is. `controls`: the controls
    to which that applies, by the ids of their runs. `source`: the directory of the run in which the states were kept.
    `record`: the digests of its record, by file name. `audits`: the experiments whose whole runs showed that windows
    are right."""

    why: str
    controls: list[str]
    source: str
    record: Mapping[str, str]
    audits: list[str]


@dataclass(frozen=True)
class Windows:
    """The states of one job's uninterrupted run in `source`, from which windows may begin. `why` says why there are no
    windows; empty if there are. `controls` are the ids of the controls, `record` the digests of the run's record,
    `audits` the experiments whose whole runs agreed with their windows."""

    source: Path
    states: KeptOuts
    why: str
    controls: tuple[str, ...]
    record: Mapping[str, str]
    audits: tuple[str, ...] = ()

    def verify(self) -> None:
        """Raises StoreError if the record of the run was altered."""
        if digests(self.source) != self.record:
            raise StoreError(f"{self.source / 'events'} was altered since it was recorded", path=str(self.source))

    def give_up(self, why: str) -> None:
        """Run the job whole from now on: a window of it was wrong."""
        self._change(why=why)

    def add_audit(self, experiment: str) -> None:
        """Record an experiment whose whole run agreed with its window."""
        self._change(audit=experiment)

    def _change(self, *, why: str = "", audit: str | None = None) -> None:
        path = self.source.parent / RESULT
        with FileLock(f"{path}.lock"):
            now = read_json(path, EarnedRecord, missing="does not exist")
            if now["controls"] == list(self.controls):
                audits = dict.fromkeys([*now["audits"], *([audit] if audit is not None else [])])
                write_json(path, {**now, "why": why or now["why"], "audits": list(audits)})


def directory_of(store: Store, reference: Reference) -> Path:
    """The directory in which the controls of a reference are stored, and everything about its windows."""
    return store.references / reference.digest


def ids_of_controls(store: Store, reference: Reference) -> tuple[str, ...]:
    """The ids of the controls. If a job has changed, its new reference has other ids."""
    directory = directory_of(store, reference)
    return tuple(store.read(directory / f"control-{n}")["id"] for n in range(len(reference.controls)))


def load(directory: Path, controls: Sequence[str]) -> Windows | None:
    """What is stored for these controls; None if nothing is."""
    try:
        found = read_json(directory / RESULT, EarnedRecord, missing="does not exist")
    except StoreError:
        return None
    if found["controls"] != list(controls):
        return None
    source = directory / Path(found["source"]).name
    states = KeptOuts.read(source / OUTS)
    return Windows(source, states, found["why"], tuple(controls), found["record"], tuple(found["audits"]))


def keep(source: Path, controls: Sequence[str], *, why: str) -> Windows:
    """Store the result for these controls."""
    made = Windows(source, KeptOuts.read(source / OUTS), why, tuple(controls), digests(source))
    content: EarnedRecord = {
        "why": why, "controls": list(controls), "source": source.name, "record": made.record, "audits": [],
    }  # fmt: skip
    write_json(source.parent / RESULT, content)
    return made


def digests(source: Path) -> dict[str, str]:
    """The digests of the files in the record of a run, by name."""
    paths = sorted((source / "events").glob("*.jsonl"))
    return {path.name: xxh3_128(read_stored(path, longest=LONGEST_RECORD)).hexdigest() for path in paths}
