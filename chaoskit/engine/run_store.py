"""`Store`: keeps runs and references in `.chaoskit/`, in the project of the user.

    .chaoskit/
        .gitignore              `*`: nothing in here belongs in a repository
        runs/<id>/              one run; the id begins with its time in UTC, so names sort by age
            run.json            the job, the faults, the owner and the status (`REQUIRED` lists its keys)
            events/*.jsonl      the record, one file for each process (`chaoskit.protocol.events`)
            verdicts.json       the checks that were applied and their verdicts
            out/                the job's `{out}`; removed again from runs that passed
            aside-*/            what a fault moved out of `{out}` and did not put back
            journal/            the job's file operations, where they were recorded (`chaoskit.protocol.io_journal`)
            slots/<n>/          where its job resumes from states of its checkpoints; removed afterwards
        references/<digest>/    uninterrupted runs, shared by experiments and workers
            kept/               one more, which keeps the state of its ranks, if it was ever to be put back

Every JSON file has a `format`. A file of another format is refused with a message.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaoskit.engine.stored_json import FORMAT as FORMAT
from chaoskit.engine.stored_json import disk_full, read_json, unreadable, write_json
from chaoskit.environments import DEFAULT_ENVIRONMENT
from chaoskit.environments.machine import owner
from chaoskit.errors import StoreError
from chaoskit.protocol import io_journal
from chaoskit.verdict import Outcome, Verdict

NAME = ".chaoskit"
#: Every run.json has these; `finish` may add more.
REQUIRED = ("id", "created", "status", "owner", "experiment", "environment", "job", "schedule", "reference")
#: No run begins with less free space than this under the store, in bytes.
SPACE_NEEDED = 64 * 2**20


@dataclass(frozen=True)
class JudgedRun:
    """The content of verdicts.json: the checks as `to_json` gave them, and their verdicts."""

    checks: tuple[Mapping[str, Any], ...]
    verdicts: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        """Whether there are verdicts, and all of them are passes."""
        return bool(self.verdicts) and all(v.outcome is Outcome.PASS for v in self.verdicts)


class Store:
    """The directory `root`, made on first use. Raises StoreError, naming the path and the remedy."""

    def __init__(self, root: Path | str = NAME) -> None:
        self.root = Path(root).absolute()

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    @property
    def runs(self) -> Path:
        """The directory of the runs."""
        return self.root / "runs"

    @property
    def references(self) -> Path:
        """The directory of the references."""
        return self.root / "references"

    def prepare(self) -> None:
        """Make the directories, if they do not exist."""
        with self.writing():
            self.runs.mkdir(parents=True, exist_ok=True)
            self.references.mkdir(exist_ok=True)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")

    def new_run(
        self,
        *,
        job: Mapping[str, Any],
        schedule: Sequence[Mapping[str, Any]] = (),
        experiment: str = "",
        environment: str = DEFAULT_ENVIRONMENT,
        reference: str | None = None,
    ) -> Path:
        """A fresh directory with its run.json (status `running`, owned by this process) and an empty `events/`."""
        self.prepare()
        self.check_space()
        now = datetime.now(UTC)
        with self.writing():
            while True:
                name = new_name(now)
                try:
                    (self.runs / name).mkdir()
                    break
                except FileExistsError:
                    continue
        return self._begin(
            self.runs / name,
            name,
            experiment=experiment,
            environment=environment,
            job=dict(job),
            schedule=[dict(fault) for fault in schedule],
            reference=reference,
        )

    def new_control(
        self, digest: str, number: int, *, job: Mapping[str, Any], environment: str = DEFAULT_ENVIRONMENT
    ) -> Path:
        """A fresh directory for a control of a reference; an older one is removed."""
        return self._new_beside(digest, f"control-{number}", str(number), job=job, environment=environment)

    def new_keeping_run(
        self, digest: str, *, job: Mapping[str, Any], environment: str = DEFAULT_ENVIRONMENT
    ) -> Path:
        """A fresh directory for an uninterrupted run that keeps its state, beside the controls of the reference that it
        must equal; an older one is removed."""
        return self._new_beside(digest, "kept", "kept", job=job, environment=environment)

    def _new_beside(self, digest: str, name: str, short: str, *, job: Mapping[str, Any], environment: str) -> Path:
        self.prepare()
        self.check_space()
        run_dir = self.references / digest / name
        with self.writing():
            shutil.rmtree(run_dir, ignore_errors=True)
            run_dir.mkdir(parents=True)
        # The id names processes and temporary directories, so it is of this attempt alone.
        return self._begin(
            run_dir,
            f"{digest[:8]}-{short}-{secrets.token_hex(4)}",
            experiment="reference",
            environment=environment,
            job=dict(job),
            schedule=[],
            reference=None,
        )

    def new_slot(self, run_dir: Path, number: int) -> Path:
        """A fresh directory inside a run, in which its job resumes from states of its checkpoints."""
        run = self.read(run_dir)
        slot = run_dir / "slots" / str(number)
        with self.writing():
            shutil.rmtree(slot, ignore_errors=True)
            slot.mkdir(parents=True)
        about = {name: run[name] for name in ("experiment", "environment", "job", "schedule", "reference")}
        return self._begin(slot, f"{run['id']}-{number}", **about)

    def _begin(self, run_dir: Path, name: str, **fields: Any) -> Path:
        with self.writing():
            for part in ("events", "logs", "out"):
                (run_dir / part).mkdir()
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(
            run_dir / "run.json",
            {"id": name, "created": created, "status": "running", "owner": owner.current(), **fields},
        )
        return run_dir

    def update(self, run_dir: Path, **fields: Any) -> None:
        """Rewrite run.json with these fields changed or added; a reader sees either the old file or the new one."""
        self._write(run_dir / "run.json", {**self.read(run_dir), **fields})

    def finish(self, run_dir: Path, status: str, **fields: Any) -> None:
        """Set the final status of the run, and other fields."""
        self.update(run_dir, status=status, **fields)

    def read(self, run_dir: Path) -> dict[str, Any]:
        """The content of run.json; raises StoreError, with one sentence, where it is missing or damaged."""
        if not run_dir.is_dir():
            raise unreadable(run_dir, "is not a directory", "give the id or the directory of a run under runs/")
        data = read_json(run_dir / "run.json", missing="has no run.json, so it is not a run of chaoskit")
        missing = [key for key in REQUIRED if key not in data]
        if missing:
            raise unreadable(
                run_dir / "run.json", f"lacks {', '.join(missing)}", "it was damaged, or chaoskit did not write it"
            )
        if not (run_dir / "events").is_dir():
            raise unreadable(run_dir, "has no events/, so there is nothing to judge", "it was only partly copied")
        return data

    def resolve(self, text: str) -> Path:
        """The directory of the run that is given by its path, its id or the unique beginning of its id."""
        path = Path(text)
        if path.exists():
            return path.absolute()
        found = [run for run in self.all_runs() if run.name.startswith(text)] if text and "/" not in text else []
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(run.name for run in found[:4]) + (", ..." if len(found) > 4 else "")
            raise unreadable(Path(text), f"is the beginning of {len(found)} runs ({names})", "give more of it")
        raise unreadable(Path(text), "names no stored run", f"they are in {self.runs} (see --dir)")

    def all_runs(self) -> list[Path]:
        """The directories of all runs, the oldest first."""
        return sorted(p for p in self.runs.iterdir() if p.is_dir()) if self.runs.is_dir() else []

    def environments(self) -> set[str]:
        """The names of the environments that stored runs and references ran in."""
        found = set()
        for path in (*self.runs.glob("*/run.json"), *self.references.glob("*/*/run.json")):
            with suppress(StoreError):
                found.add(str(self.read(path.parent).get("environment")))
        return found

    def write_verdicts(
        self, run_dir: Path, *, checks: Iterable[Mapping[str, Any]], verdicts: Iterable[Verdict]
    ) -> None:
        """Store the checks that were applied to a run and their verdicts, in place of older ones."""
        content = {"checks": [dict(c) for c in checks], "verdicts": [v.to_json() for v in verdicts]}
        self._write(run_dir / "verdicts.json", content)

    def read_verdicts(self, run_dir: Path) -> JudgedRun:
        """The last checks and verdicts; raises StoreError where there are none, or the file is damaged."""
        path = run_dir / "verdicts.json"
        data = read_json(path, missing="does not exist: no check was applied to that run")
        try:
            verdicts = tuple(Verdict.from_json(entry) for entry in data["verdicts"])
            return JudgedRun(tuple(data["checks"]), verdicts)
        except (KeyError, ValueError, TypeError) as error:
            raise unreadable(
                path, f"holds no verdicts ({error!r})", "it was damaged, or chaoskit did not write it"
            ) from error

    def check_space(self) -> None:
        """Raises StoreError where the disk has too little space for a run."""
        free = shutil.disk_usage(self.root).free
        if free < SPACE_NEEDED:
            raise disk_full(self.root, f"{free // 2**20} MiB free, {SPACE_NEEDED // 2**20} needed")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Wraps code that writes below `root`: a full disk or an unwritable directory becomes a StoreError."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise disk_full(self.root, str(error)) from error
            refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
            if refused and str(error.filename).startswith(str(self.root)):
                remedy = "give a directory that can be written with --dir (in pytest: --chaos-dir)"
                message = f"cannot keep runs in {self.root} ({error}): {remedy}"
                raise StoreError(message, path=str(self.root)) from error
            raise

    def keep(self, newest: int = 50, *, spare: Collection[str] = ()) -> int:
        """Remove the passed runs except for the newest and those whose ids are in `spare`, and from these `out/` and
        the bytes of the journal. Failed runs stay.

        Returns how many were removed.
        """
        passed = []
        for run_dir in self.all_runs():
            try:
                run, judged = self.read(run_dir), self.read_verdicts(run_dir)
            except StoreError:
                continue
            if judged.passed and run["status"] != "running" and not _busy(run["owner"]):
                passed.append(run_dir)
        gone = [run_dir for run_dir in passed[: max(0, len(passed) - newest)] if run_dir.name not in spare]
        for run_dir in gone:
            shutil.rmtree(run_dir, ignore_errors=True)
        for run_dir in set(passed) - set(gone):
            for left in (run_dir / "out", *run_dir.glob("aside-*")):
                shutil.rmtree(left, ignore_errors=True)
            (run_dir / io_journal.NAME / "data").unlink(missing_ok=True)
        return len(gone)

    def clear(self) -> tuple[int, int]:
        """Remove every stored run and reference that no process is working on; returns how many of each."""
        runs = [run_dir for run_dir in self.all_runs() if not self._in_use(run_dir)]
        kept = [p for p in self.references.iterdir() if p.is_dir()] if self.references.is_dir() else []
        free = [p for p in kept if not any(self._in_use(control) for control in p.iterdir())]
        for path in (*runs, *free):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.root.glob("crash-*.txt"):
            path.unlink(missing_ok=True)
        return len(runs), len(free)

    def keep_crash(self, text: str) -> Path:
        """Write the traceback of an internal error to a file of its own; returns its path."""
        self.prepare()
        path = self.root / f"crash-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.txt"
        with self.writing():
            path.write_text(text)
        return path

    def _in_use(self, run_dir: Path) -> bool:
        try:
            run = self.read(run_dir)
        except StoreError:
            return False
        return run["status"] == "running" and _busy(run["owner"])

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        with self.writing():
            write_json(path, content)


def new_name(now: datetime) -> str:
    """A unique name that begins with the time in UTC, so that names sort by age."""
    return f"{now:%Y%m%d-%H%M%S-%f}{secrets.token_hex(2)}"


def _busy(who: Mapping[str, Any]) -> bool:
    """Whether another process, still alive, owns the run."""
    return who.get("pid") != os.getpid() and not owner.is_dead(who)
