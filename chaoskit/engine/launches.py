"""`Launches`: starts the job's command, starts it again after a failure, and records each launch with its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaoskit.engine.progress import Progress
from chaoskit.environments.environment import Ended, Environment
from chaoskit.errors import SupervisorGaveUp, TooFewNodes
from chaoskit.job import Job, stop_code
from chaoskit.protocol.events import EventWriter
from chaoskit.protocol.secret_words import redact_text, redact_words

#: At most this many files of the job's directory are listed after a launch.
FILES_LISTED = 10_000


class Launches:
    """The launches of one run. `index` is that of the newest, from 0; `fault_hit_launcher` says whether a fault has
    killed its launcher, so that its end is no decision of the job; `told_to_stop`, whether one has told the job to
    leave. `resume_words` are those that a relaunch gets. With `late`, the first launch was that of another run, and the
    job is relaunched at once."""

    def __init__(
        self,
        *,
        env: Environment,
        job: Job,
        out: Path,
        writer: EventWriter,
        progress: Progress,
        resume_words: Callable[[], Sequence[str]],
        late: bool = False,
    ) -> None:
        self.index = 0 if late else -1
        self._late = late
        self.fault_hit_launcher = False
        self.told_to_stop = False
        self._env = env
        self._job = job
        self._out = out
        self._writer = writer
        self._progress = progress
        self._resume_words = resume_words

    @property
    def spent(self) -> bool:
        """Whether no relaunch is left."""
        return self.index >= self._job.relaunches + self._late

    def start(self) -> bool:
        """Start the next launch; False where too few nodes are left for it, or the job's controller starts none."""
        self.index += 1
        relaunch = self.index > 0
        added = list(self._resume_words()) if relaunch else []
        phase = f"relaunch {self.index - self._late} of {self._job.relaunches}" if relaunch else "launch"
        phase = "launch from a kept state" if self._late and self.index == 1 else phase
        bare = relaunch and self._job.resume_args and not added
        self._progress.phase(f"{phase}, without --resume-args: no save has settled yet" if bare else phase)
        self.fault_hit_launcher = self.told_to_stop = False
        command = self._job.words(out=self._out, relaunch=relaunch, resume_words=added)
        told: dict[str, Any] = {"added": redact_words(added)} if added else {}
        if (code := stop_code(self._job.stops_with)) is not None:
            told["stops_with"] = code
        self._writer.write("launch.start", launch=self.index, command=redact_words(command), out=str(self._out), **told)
        try:
            how = self._env.launch(self.index, command)
        except TooFewNodes:
            self._record_end(code=None, cause="too-few-nodes", survivors=())
            return False
        except SupervisorGaveUp as error:
            self._writer.write(
                "supervisor.end", launch=self.index, reason=error.reason, code=error.code, text=str(error)
            )
            self._record_end(code=None, cause="supervisor", survivors=())
            return False
        self._writer.write("launch.how", launch=self.index, how=how)
        return True

    def ended(self, event: Ended) -> None:
        """Record that the command has ended."""
        cause = "fault" if self.fault_hit_launcher else "itself"
        told: dict[str, Any] = {"why": event.why} if event.why else {}
        if event.requeued:
            told["requeued"] = True
        self._record_end(code=event.code, cause=cause, survivors=event.survivors, **told)

    def is_done(self, event: Ended) -> bool:
        """Whether the command has ended for good. A job that was told to leave may do so with 0 (see `Job`)."""
        return event.code == 0 and not (self.told_to_stop and stop_code(self._job.stops_with) == 0)

    def stop(self, cause: str) -> None:
        """End every process of the current launch, because of a `hang` or a `deadline`, or because the run was
        `interrupted`."""
        self._record_end(code=None, cause=cause, survivors=self._env.stop())

    def _record_end(
        self, *, code: int | None, cause: str, survivors: Sequence[Mapping[str, Any]], **told: Any
    ) -> None:
        self._writer.write(
            "launch.end",
            launch=self.index,
            code=code,
            cause=cause,
            survivors=[_described(survivor) for survivor in survivors],
            **told,
        )
        self._writer.write("files", launch=self.index, files=files_below(self._out))


def _described(survivor: Mapping[str, Any]) -> dict[str, Any]:
    told = {"command": redact_text(str(survivor["command"]))} if survivor.get("command") else {}
    return {**survivor, **told}


def files_below(out: Path) -> list[tuple[str, int]]:
    """The names and sizes, in bytes, of the files in a directory and below; at most `FILES_LISTED`."""
    found: list[tuple[str, int]] = []
    for directory, _, names in os.walk(out):
        for name in sorted(names):
            path = Path(directory, name)
            try:
                found.append((str(path.relative_to(out)), path.lstat().st_size))
            except FileNotFoundError:
                continue
            if len(found) == FILES_LISTED:
                return found
    return sorted(found)
