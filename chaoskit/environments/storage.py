"""`Storage`: the harness's end of the line to a storekeeper, who serves the file system over a job's `{out}`."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from chaoskit import journal
from chaoskit.capabilities import Trouble
from chaoskit.environments import scratch
from chaoskit.environments.servant import Refused, Servant
from chaoskit.environments.switchboard import why_not
from chaoskit.errors import ChaoskitError, UsageError

_KEEPER = Path(__file__).with_name("storekeeper.py")
_WRITER = Path(__file__).parent.parent / "launch" / "host.py"


class Storage:
    """Starts a storekeeper, which serves until `close`, or until the harness dies. `host` are the namespaces in which
    `out` is the file system, for `chaoskit.launch.host`.

    The journal is written to `run_dir`, with the bytes if it is to be `recorded`. Raises UsageError where this machine
    has no such file system, saying why and what would help.

    `beneath` is a directory that stands in for `out`, where that itself is not to be touched; with `sights` it is noted
    what is looked at.
    """

    def __init__(
        self,
        run_id: str,
        *,
        out: Path,
        run_dir: Path,
        recorded: bool = False,
        beneath: Path | None = None,
        sights: bool = False,
    ) -> None:
        self._servant = Servant(_KEEPER, run_id, called="the storekeeper")
        try:
            begun = self._servant.ask(
                "begin",
                out=str(out.resolve()),
                beneath=str((beneath or out).resolve()),
                journal=str(run_dir.absolute() / journal.NAME),
                recorded=recorded,
                sights=sights,
            )
        except BaseException as error:
            self.close()
            if isinstance(error, Refused):
                raise UsageError(_why_not(error)) from error
            raise
        self.host: Mapping[str, str] = begun["host"]

    def settle(self) -> None:
        """Wait until all that the job has written lies in the directory itself: some of it may be on its way."""
        self._servant.ask("settle")

    def seen(self) -> frozenset[tuple[str, str]]:
        """What was looked at so far, and where, below `out`: see `chaoskit.environments.sights`."""
        return frozenset((what, path) for what, path in self._servant.ask("seen"))

    def fail(self, trouble: Trouble) -> int:
        """See `CanFailStorage`."""
        made: int = self._servant.ask("fail", trouble=asdict(trouble))
        return made

    def mend(self, trouble: int) -> None:
        """See `CanFailStorage`."""
        self._servant.ask("mend", trouble=trouble)

    def met(self, trouble: int) -> Mapping[str, Any]:
        """See `CanFailStorage`."""
        found: Mapping[str, Any] = self._servant.ask("met", trouble=trouble)
        return found

    def fileno(self) -> int:
        """Readable when the storekeeper has gone."""
        return self._servant.fileno()

    def must_stand(self) -> None:
        """Raises ChaoskitError if the storekeeper has gone, and the file system with it."""
        self._servant.must_stand()

    def close(self) -> None:
        """Let it go. Who is still in there has no file system any more; may be called again."""
        self._servant.close()


@cache
def trial() -> str | None:
    """None where this machine lets us put a file system over a directory, else why not and what would help."""
    name = f"trial-{os.getpid()}"
    try:
        place = scratch.make(name)
    except UsageError as error:
        return str(error)
    try:
        return _try_out(place)
    except ChaoskitError as error:
        return str(error)
    except (OSError, subprocess.TimeoutExpired, journal.JournalError) as error:
        return f"a file system of ours can be mounted, but does not answer: {error}"
    finally:
        scratch.remove(name)


def _try_out(place: Path) -> str | None:
    out = place / "out"
    out.mkdir()
    storage = Storage("trial", out=out, run_dir=place)
    try:
        code = "import runpy, sys; runpy.run_path(sys.argv[1])['enter'](eval(sys.argv[2]), sys.argv[3]); "
        words = [sys.executable, "-I", "-S", "-c", code + "open('tried', 'w').close()"]
        told = [str(_WRITER), repr(dict(storage.host)), str(out)]
        done = subprocess.run([*words, *told], capture_output=True, timeout=30)
        if done.returncode:
            return f"a file system of ours can be mounted, but not used: {_last_line(done.stderr)}"
        if not journal.Journal.read(place).operations:
            return "a file system of ours can be mounted, but is not where a process writes"
        return None
    finally:
        storage.close()


def _why_not(error: Refused) -> str:
    if "/dev/fuse" not in str(error):
        return why_not(error)
    if error.number in (errno.EACCES, errno.EPERM):
        return (
            "this user may not open /dev/fuse: sudo chmod 666 /dev/fuse, as it is on a desktop; "
            "in a container: --device /dev/fuse"
        )
    return f"there is no /dev/fuse ({error}): sudo modprobe fuse; in a container: --device /dev/fuse"


def _last_line(said: bytes) -> str:
    return said.decode(errors="replace").strip().rpartition("\n")[2]
