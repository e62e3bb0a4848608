"""`Store`: keeps runs and references in `.chaoskit/`, in the project of the user.

    .chaoskit/
        .gitignore              `*`: nothing in here belongs in a repository
        runs/<id>/              one run; the id begins with its time in UTC, so names sort by age
            run.json            the job, the faults, the owner and the status (see `RunRecord`)
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
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

from chaoskit.engine import origin
from chaoskit.engine.stored_json import FORMAT as FORMAT
from chaoskit.engine.stored_json import disk_full, read_json, unreadable, write_json
from chaoskit.environments import DEFAULT_ENVIRONMENT
from chaoskit.environments.machine import owner
from chaoskit.errors import StoreError
from chaoskit.files.private import make_directories, make_directory
from chaoskit.files.removal import must_lie_in, remove
from chaoskit.files.whole_files import replace_file
from chaoskit.protocol.secret_words import redact_text
from chaoskit.validation import check_path
from chaoskit.verdict import Outcome, Verdict

NAME = ".chaoskit"
#: No run begins with less free space than this under the store, in bytes.
SPACE_NEEDED = 64 * 2**20


class _EveryRun(TypedDict):
    id: str
    created: str
    status: str
    owner: dict[str, Any]
    experiment: str
    environment: str
    job: dict[str, Any]
    schedule: list[dict[str, Any]]
    reference: str | None


class RunRecord(_EveryRun, total=False):
    """The content of run.json. `finish` may add more fields."""

    mark: str
    put_back: list[str]


class JudgedRecord(TypedDict):
    """The content of verdicts.json."""

    checks: list[dict[str, Any]]
    verdicts: list[Verdict]


@dataclass(frozen=True)
class JudgedRun:
    """The content of verdicts.json: the checks as `to_json` gave them, and their verdicts."""

    checks: tuple[Mapping[str, Any], ...]
    verdicts: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        """Whether there are verdicts, and all of them are passes."""
        return bool(self.verdicts) and all(v.outcome is Outcome.PASS for v in self.verdicts)


#: Errors of a directory that cannot have runs.
_REFUSED = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP,
)  # fmt: skip


class Store:
    """The directory `root`, made on first use. Raises StoreError, naming the path and the remedy."""

    def __init__(self, root: Path | str = NAME) -> None:
        self.root = Path(check_path("Store", "root", root)).absolute()

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
            make_directories(self.runs)
            make_directory(self.references, exist_ok=True)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                replace_file(ignore, b"*\n")

    def must_take_runs(self) -> None:
        """Raises StoreError unless runs can be stored: before anything is launched for them."""
        self.prepare()
        with self.writing(), tempfile.TemporaryFile(dir=self.runs):
            pass
        self.check_space()

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
                    make_directory(self.runs / name)
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

    def new_run_beside(
        self, digest: str, name: str, *, job: Mapping[str, Any], environment: str = DEFAULT_ENVIRONMENT
    ) -> Path:
        """A fresh directory for another run beside the controls of a reference; an older one is removed."""
        return self._new_beside(digest, name, name, job=job, environment=environment)

    def _new_beside(self, digest: str, name: str, short: str, *, job: Mapping[str, Any], environment: str) -> Path:
        self.prepare()
        self.check_space()
        run_dir = self.references / digest / name
        with self.writing():
            self._make_way(run_dir)
            make_directories(run_dir)
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
            self._make_way(slot)
            make_directories(slot)
        about = {name: run[name] for name in ("experiment", "environment", "job", "schedule", "reference")}
        return self._begin(slot, f"{run['id']}-{number}", **about)

    def _begin(self, run_dir: Path, name: str, **fields: Any) -> Path:
        with self.writing():
            for part in ("events", "logs", "out"):
                make_directory(run_dir / part)
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        record = {"id": name, "created": created, "status": "running", "owner": owner.current(), **fields}
        self._write(run_dir / "run.json", {**record, "mark": origin.mark(run_dir, record)})
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
        missing = "has no run.json, so it is not a run of chaoskit"
        data = dict(read_json(run_dir / "run.json", RunRecord, missing=missing))
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

    def is_judged(self, run_dir: Path) -> bool:
        """Whether there are verdicts on a run, even damaged ones."""
        return os.path.lexists(run_dir / "verdicts.json")

    def read_verdicts(self, run_dir: Path) -> JudgedRun:
        """The last checks and verdicts; raises StoreError where there are none, or the file is damaged."""
        missing = "does not exist: no check was applied to that run"
        data = read_json(run_dir / "verdicts.json", JudgedRecord, missing=missing)
        return JudgedRun(tuple(data["checks"]), tuple(data["verdicts"]))

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
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise disk_full(self.root, str(error)) from error
            named = Path(str(error.filename))
            if error.errno in _REFUSED and (named.is_relative_to(self.root) or self.root.is_relative_to(named)):
                remedy = "give a directory that can be written with --dir (in pytest: --chaos-dir)"
                message = f"cannot keep runs in {self.root} ({error}): {remedy}"
                raise StoreError(message, path=str(self.root)) from error
            raise

    def keep_crash(self, text: str) -> Path:
        """Write the traceback of an internal error to a file of its own; returns its path."""
        self.prepare()
        path = self.root / f"crash-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.txt"
        with self.writing():
            replace_file(path, redact_text(text).encode(errors="backslashreplace"))
        return path

    def _make_way(self, path: Path) -> None:
        """Remove what lies where something new is to be made. Raises OSError if a link leads out of the store."""
        if path.parent.exists():
            must_lie_in(path, self.root)
        remove(path, within=self.root)

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        with self.writing():
            write_json(path, content)


def new_name(now: datetime) -> str:
    """A unique name that begins with the time in UTC, so that names sort by age."""
    return f"{now:%Y%m%d-%H%M%S-%f}{secrets.token_hex(2)}"
