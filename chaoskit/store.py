"""`Store`: where runs are kept: `.chaoskit/` in the project of the user.

    .chaoskit/
        .gitignore              `*`: nothing in here belongs into anybody's repository
        runs/<id>/              one run; the id begins with its time in UTC, so names sort by age
            run.json            what was run, by whom, and what became of it (`REQUIRED` lists its keys)
            events/*.jsonl      the record, one file a process (`chaoskit.events`)
            verdicts.json       the checks that were applied and what they said
            out/                the job's `{out}`; removed again from runs that passed
            aside-*/            what a fault took out of `{out}` and did not put back
            journal/            what the job did to its storage, where that was recorded (`chaoskit.journal`)
            slots/<n>/          where its job is shown states of its checkpoints; gone when that is over
        references/<digest>/    uninterrupted runs, shared by experiments and workers

Every JSON file carries `format`; one of another format is refused with a message, never guessed at.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaoskit import journal
from chaoskit.environments import owner
from chaoskit.errors import ExitCode, StoreError
from chaoskit.verdict import Outcome, Verdict

FORMAT = 1
NAME = ".chaoskit"
#: Every run.json has these; `finish` may add more.
REQUIRED = ("id", "created", "status", "owner", "experiment", "environment", "job", "schedule", "reference")
#: Less than this free under the store, and no run is begun.
SPACE_NEEDED = 64 * 2**20


@dataclass(frozen=True)
class Judged:
    """What verdicts.json holds: the checks as `to_json` gave them, and their verdicts."""

    checks: tuple[Mapping[str, Any], ...]
    verdicts: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        """Whether anything was judged and all of it passed."""
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
        """Make the directories; harmless when they are there."""
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
        environment: str = "local",
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

    def new_control(self, digest: str, number: int, *, job: Mapping[str, Any], environment: str = "local") -> Path:
        """A fresh directory for an uninterrupted run of a reference, in place of one that was there."""
        self.prepare()
        self.check_space()
        run_dir = self.references / digest / f"control-{number}"
        with self.writing():
            shutil.rmtree(run_dir, ignore_errors=True)
            run_dir.mkdir(parents=True)
        # The id names processes and temporary directories, so it is of this attempt alone.
        return self._begin(
            run_dir,
            f"{digest[:8]}-{number}-{secrets.token_hex(4)}",
            experiment="reference",
            environment=environment,
            job=dict(job),
            schedule=[],
            reference=None,
        )

    def new_slot(self, run_dir: Path, number: int) -> Path:
        """A fresh directory inside of a run, to show its job one state of its checkpoints after the other."""
        told = self.read(run_dir)
        slot = run_dir / "slots" / str(number)
        with self.writing():
            shutil.rmtree(slot, ignore_errors=True)
            slot.mkdir(parents=True)
        about = {name: told[name] for name in ("experiment", "environment", "job", "schedule", "reference")}
        return self._begin(slot, f"{told['id']}-{number}", **about)

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
        """Rewrite run.json with these fields changed or added; a reader sees the old file or the new one."""
        self._write(run_dir / "run.json", {**self.read(run_dir), **fields})

    def finish(self, run_dir: Path, status: str, **fields: Any) -> None:
        """`update` with the status that the run came to."""
        self.update(run_dir, status=status, **fields)

    def read(self, run_dir: Path) -> dict[str, Any]:
        """The content of run.json, validated; raises StoreError with one sentence for anything else."""
        if not run_dir.is_dir():
            raise _not_ours(run_dir, "is not a directory", "give the id or the directory of a run under runs/")
        data = self._read(run_dir / "run.json", missing="has no run.json, so it is not a run of chaoskit")
        missing = [key for key in REQUIRED if key not in data]
        if missing:
            raise _not_ours(run_dir / "run.json", f"lacks {', '.join(missing)}", "it was damaged or is not ours")
        if not (run_dir / "events").is_dir():
            raise _not_ours(run_dir, "has no events/, so there is nothing to judge", "it was only partly copied")
        return data

    def resolve(self, text: str) -> Path:
        """The directory that a path, an id or the unique beginning of an id names."""
        path = Path(text)
        if path.exists():
            return path.absolute()
        found = [run for run in self.all_runs() if run.name.startswith(text)] if text and "/" not in text else []
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(run.name for run in found[:4]) + (", ..." if len(found) > 4 else "")
            raise _not_ours(Path(text), f"is the beginning of {len(found)} runs ({names})", "give more of it")
        raise _not_ours(Path(text), "names no stored run", f"they are in {self.runs} (see --dir)")

    def all_runs(self) -> list[Path]:
        """The directories of all runs, the oldest first."""
        return sorted(p for p in self.runs.iterdir() if p.is_dir()) if self.runs.is_dir() else []

    def write_verdicts(
        self, run_dir: Path, *, checks: Iterable[Mapping[str, Any]], verdicts: Iterable[Verdict]
    ) -> None:
        """Keep what was asked of a run and what came of it, in place of what was there."""
        content = {"checks": [dict(c) for c in checks], "verdicts": [v.to_json() for v in verdicts]}
        self._write(run_dir / "verdicts.json", content)

    def read_verdicts(self, run_dir: Path) -> Judged:
        """What was last judged; raises StoreError where nothing was, or the file is damaged."""
        path = run_dir / "verdicts.json"
        data = self._read(path, missing="does not exist: no check was applied to that run")
        try:
            verdicts = tuple(Verdict.from_json(entry) for entry in data["verdicts"])
            return Judged(tuple(data["checks"]), verdicts)
        except (KeyError, ValueError, TypeError) as error:
            raise _not_ours(path, f"holds no verdicts ({error!r})", "it was damaged or is not ours") from error

    def check_space(self) -> None:
        """Raises StoreError when there is no room for a run."""
        free = shutil.disk_usage(self.root).free
        if free < SPACE_NEEDED:
            raise _full(self.root, f"{free // 2**20} MiB free, {SPACE_NEEDED // 2**20} needed")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Around what writes below `root`: a full disk, or a place that is not ours, becomes a StoreError."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _full(self.root, str(error)) from error
            refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
            if refused and str(error.filename).startswith(str(self.root)):
                remedy = "give a place that can be written with --dir (in pytest: --chaos-dir)"
                message = f"cannot keep runs in {self.root} ({error}): {remedy}"
                raise StoreError(message, path=str(self.root)) from error
            raise

    def keep(self, newest: int = 50, *, spare: Collection[str] = ()) -> int:
        """Remove passed runs but the newest ones and those of the ids in `spare`, and of these `out/` and the bytes of
        a journal; failed ones stay.

        Returns how many went.
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
            (run_dir / journal.NAME / "data").unlink(missing_ok=True)
        return len(gone)

    def clear(self) -> tuple[int, int]:
        """Remove every stored run and reference that nobody is at work on; returns how many of each."""
        runs = [run_dir for run_dir in self.all_runs() if not self._in_use(run_dir)]
        kept = [p for p in self.references.iterdir() if p.is_dir()] if self.references.is_dir() else []
        free = [p for p in kept if not any(self._in_use(control) for control in p.iterdir())]
        for path in (*runs, *free):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.root.glob("crash-*.txt"):
            path.unlink(missing_ok=True)
        return len(runs), len(free)

    def keep_crash(self, text: str) -> Path:
        """Write the traceback of an error inside chaoskit to a file of its own; returns its path."""
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
        text = json.dumps({"format": FORMAT, **content}, indent=1) + "\n"
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        with self.writing():
            try:
                draft.write_text(text)
                os.replace(draft, path)
            except OSError:
                draft.unlink(missing_ok=True)
                raise

    def _read(self, path: Path, *, missing: str) -> dict[str, Any]:
        try:
            data = json.loads(path.read_text())
        except FileNotFoundError as error:
            raise _not_ours(path.parent if path.name == "run.json" else path, missing) from error
        except (ValueError, OSError) as error:
            raise _not_ours(path, "is truncated or no JSON", "it was damaged or is not ours") from error
        if not isinstance(data, dict) or "format" not in data:
            raise _not_ours(path, "is JSON, but not of chaoskit (it names no format)")
        if data["format"] != FORMAT:
            remedy = "read it with the chaoskit that wrote it"
            raise _not_ours(path, f"is of format {data['format']!r}, this chaoskit reads {FORMAT}", remedy)
        del data["format"]
        return data


def new_name(now: datetime) -> str:
    """A name for what begins at that time in UTC: names sort by age, and no two are alike."""
    return f"{now:%Y%m%d-%H%M%S-%f}{secrets.token_hex(2)}"


def _busy(who: Mapping[str, Any]) -> bool:
    """Whether another process, still alive, owns the run."""
    return who.get("pid") != os.getpid() and not owner.is_dead(who)


def _not_ours(path: Path, what: str, remedy: str = "") -> StoreError:
    return StoreError(f"{path} {what}" + (f": {remedy}" if remedy else ""), path=str(path))


def _full(root: Path, what: str) -> StoreError:
    remedy = "make room, run 'chaoskit clean --all', or give another place with --dir (in pytest: --chaos-dir)"
    message = f"the disk under {root} is full ({what}): {remedy}"
    return StoreError(message, path=str(root), exit_code=ExitCode.INTERNAL)
