"""`KeptState`: what the ranks of a job had at some positions of an uninterrupted run, in files.

It comes from a further run without faults, the *keeping run*, which must equal the reference to the bit. It is stored
beside the controls of the reference, for all experiments that need it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from filelock import FileLock

from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.divergence import part
from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.execution import execute_uninterrupted
from chaoskit.engine.progress import Progress
from chaoskit.engine.run_store import Store
from chaoskit.engine.stored_json import read_json, write_json
from chaoskit.errors import StoreError, Undecided
from chaoskit.job import Job
from chaoskit.protocol import putting_back
from chaoskit.protocol.events import rank_events
from chaoskit.protocol.putting_back import Keep
from chaoskit.protocol.stored_files import open_stored
from chaoskit.schema import FileName

#: The directory of the files in the keeping run, and the file that says that they are complete.
FILES, INDEX = "state", "kept.json"


class KeptRecord(TypedDict):
    """The content of kept.json: the names of the files, with their digests."""

    positions: frozenset[int]
    components: frozenset[str]
    files: Mapping[FileName, str]


@dataclass(frozen=True)
class KeptState:
    """The files below `directory`, by name with their digests: the `components` of every rank at each of the
    `positions`."""

    directory: str
    positions: frozenset[int]
    components: frozenset[str]
    digests: Mapping[str, str]

    def holds(self, positions: Collection[int], components: Collection[str]) -> bool:
        """Whether all of this was kept."""
        return self.positions.issuperset(positions) and self.components.issuperset(components)


def keep(
    store: Store,
    job: Job,
    reference: Reference,
    *,
    environment: str,
    progress: Progress,
    positions: Collection[int],
    components: Collection[str],
) -> KeptState:
    """The state at these positions: that which is stored, if it is enough, else that of a new keeping run.

    Raises Undecided where the keeping run does not equal the reference, or could not keep everything.
    """
    store.prepare()
    with FileLock(store.references / f"{reference.digest}.kept.lock"):
        stored = _load(store, reference)
        if stored is not None and stored.holds(positions, components):
            return stored
        wanted = Keep(
            "/",
            tuple(sorted({*positions, *(stored.positions if stored else ())})),
            tuple(sorted({*components, *(stored.components if stored else ())})),
        )
        return _run(store, job, reference, environment, progress, wanted)


def _load(store: Store, reference: Reference) -> KeptState | None:
    """What is stored, if it is whole and was kept by a run of the same reference."""
    run_dir = store.references / reference.digest / "kept"
    try:
        content = read_json(run_dir / INDEX, KeptRecord, missing="does not exist")
        for name, digest in content["files"].items():
            with open_stored(run_dir / FILES / name) as file:
                if putting_back.digest_of(file.read()) != digest:
                    return None
        first = reference.controls[0]
        if part(first, History.read(run_dir, like=first), reference.idle) is not None:
            return None
        return KeptState(str(run_dir / FILES), content["positions"], content["components"], content["files"])
    except (OSError, StoreError):
        return None


def _run(
    store: Store, job: Job, reference: Reference, environment: str, progress: Progress, wanted: Keep
) -> KeptState:
    progress.phase("keeping the state of an uninterrupted run")
    job = job.with_secrets(os.environ)
    run_dir = store.new_run_beside(reference.digest, "kept", job=job.to_json(), environment=environment)
    files = run_dir / FILES
    with store.writing():
        files.mkdir()
        putting_back.write(replace(wanted, directory=str(files)), run_dir)
    status = execute_uninterrupted(
        run_dir, job, reference, store=store, environment=environment, progress=progress
    )
    history = History.read(run_dir)
    if status != "finished" or len(history.incarnations) != 1:
        raise Undecided(
            f"the run whose state chaoskit keeps did not finish ({status}), although no fault was injected",
            code="reference-failed",
        )
    if errors := [f"{event['where']}: {event['error']}" for event in rank_events(run_dir, "probe.error")]:
        raise Undecided(f"the state of an uninterrupted run could not be kept: {errors[0]}", code="probe-blind")
    if (divergence := part(reference.controls[0], history, reference.idle)) is not None:
        raise Undecided(
            f"the run whose state chaoskit keeps differs from the reference: {divergence.sentence}",
            code="not-deterministic",
        )
    digests = _digests(run_dir, files, reference, wanted)
    with store.writing():
        write_json(
            run_dir / INDEX,
            {"positions": list(wanted.positions), "components": list(wanted.components), "files": digests},
        )
    return KeptState(str(files), frozenset(wanted.positions), frozenset(wanted.components), digests)


def _digests(run_dir: Path, files: Path, reference: Reference, wanted: Keep) -> dict[str, str]:
    """The digest of each file, which must be the one that the rank told as it wrote it."""
    told = {str(event["file"]): str(event["digest"]) for event in rank_events(run_dir, "state.kept")}
    found = {path.name: putting_back.digest_of(path.read_bytes()) for path in sorted(files.glob("[!.]*"))}
    for position in wanted.positions:
        for rank in range(reference.world_size):
            name = putting_back.state_file(position, rank)
            if name not in told:
                raise Undecided(
                    f"rank {rank} did not keep its state at step {position}: no step after it was seen",
                    code="probe-blind",
                )
    if changed := [name for name, digest in told.items() if found.get(name) != digest]:
        raise Undecided(f"{files / changed[0]} is not what the rank wrote", code="probe-blind")
    return found
