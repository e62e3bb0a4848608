"""`Storage`: the harness's connection to the process that serves the file system over a job's `{out}`."""

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

from chaoskit.capabilities import InjectedIOError
from chaoskit.environments.machine import scratch
from chaoskit.environments.machine.helper_process import HelperProcess, HelperRefused
from chaoskit.environments.netns.client import why_not
from chaoskit.errors import ChaoskitError, UsageError
from chaoskit.protocol import io_journal

_SERVER = Path(__file__).with_name("server.py")
_WRITER = Path(__file__).parents[1] / "launch" / "host.py"


class Storage:
    """Starts a file system server, which runs until `close`, or until the harness dies. `host` are the namespaces
    in which `out` is the file system, for `chaoskit.environments.launch.host`.

    The server writes the journal to `run_dir`, with the bytes if `recorded`. Raises UsageError if this machine
    cannot mount the file system, with the reason and the remedy.

    `source` is the directory whose content appears at `out`, if that is not `out` itself. With `log_accesses` the
    server records what is read. `within` are the namespaces to mount it in, by kind and path; by default it makes
    new ones.
    """

    def __init__(
        self,
        run_id: str,
        *,
        out: Path,
        run_dir: Path,
        recorded: bool = False,
        source: Path | None = None,
        log_accesses: bool = False,
        within: Mapping[str, str] | None = None,
    ) -> None:
        self._helper = HelperProcess(_SERVER, run_id, called="the file system server")
        try:
            begun = self._helper.ask(
                "begin",
                out=str(out.resolve()),
                source=str((source or out).resolve()),
                journal=str(run_dir.absolute() / io_journal.NAME),
                recorded=recorded,
                log_accesses=log_accesses,
                within=dict(within) if within is not None else None,
            )
        except BaseException as error:
            self.close()
            if isinstance(error, HelperRefused):
                raise UsageError(_why_not(error)) from error
            raise
        self.host: Mapping[str, str] = begun["host"]

    def settle(self) -> None:
        """Wait until everything that the job has written is in the source directory."""
        self._helper.ask("settle")

    def seen(self) -> frozenset[tuple[str, str]]:
        """What was read so far, and where, below `out`: see `chaoskit.environments.fusefs.access_log`."""
        return frozenset((what, path) for what, path in self._helper.ask("seen"))

    def fail(self, trouble: InjectedIOError) -> int:
        """See `CanFailStorage`."""
        made: int = self._helper.ask("fail", trouble=asdict(trouble))
        return made

    def know(self, node: str, network: int) -> None:
        """Attribute requests from this network namespace (its inode) to `node`."""
        self._helper.ask("know", node=node, network=network)

    def mend(self, trouble: int) -> None:
        """See `CanFailStorage`."""
        self._helper.ask("mend", trouble=trouble)

    def met(self, trouble: int) -> Mapping[str, Any]:
        """See `CanFailStorage`."""
        found: Mapping[str, Any] = self._helper.ask("met", trouble=trouble)
        return found

    def fileno(self) -> int:
        """Readable when the server has ended."""
        return self._helper.fileno()

    def must_stand(self) -> None:
        """Raises ChaoskitError if the server has ended, and the file system with it."""
        self._helper.must_stand()

    def close(self) -> None:
        """End the server. Processes that still use the file system get errors. May be called again."""
        self._helper.close()


@cache
def trial() -> str | None:
    """None if this machine can mount our file system over a directory, else the reason and the remedy."""
    name = f"trial-{os.getpid()}"
    try:
        place = scratch.make(name)
    except UsageError as error:
        return str(error)
    try:
        return _try_out(place)
    except ChaoskitError as error:
        return str(error)
    except (OSError, subprocess.TimeoutExpired, io_journal.JournalError) as error:
        return f"chaoskit's file system can be mounted, but does not answer: {error}"
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
            return f"chaoskit's file system can be mounted, but not used: {_last_line(done.stderr)}"
        if not io_journal.Journal.read(place).operations:
            return "chaoskit's file system can be mounted, but is not where a process writes"
        return None
    finally:
        storage.close()


def _why_not(error: HelperRefused) -> str:
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
