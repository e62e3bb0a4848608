"""A directory that is a file system of ours, for tests: processes in it, its journal, and what the journal comes to."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaoskit.environments.fusefs.storage import Storage
from chaoskit.environments.launch.host import enter
from chaoskit.protocol.io_journal import Journal, Operation

ACTOR = Path(__file__).with_name("actor.py")
#: It tells the mounts of this test process from those of others on this machine.
RUN_ID = f"test-{os.getpid()}"


class Acting:
    """A process that carries out what it is told, in a directory of its own or in the mounted one."""

    def __init__(self, place: Path, host: Mapping[str, str] | None = None, *, alone: bool = False) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(ACTOR)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=alone,
            preexec_fn=None if host is None else lambda: enter(host, str(place)),
            cwd=place if host is None else "/",
        )  # fmt: skip

    def __call__(self, do: str, *_: Any, **told: Any) -> Any:
        """What came of it: a value, or the name of an error."""
        self.tell(do, **told)
        return self.hear()

    def tell(self, do: str, **told: Any) -> None:
        self.process.stdin.write(json.dumps({"do": do, **told}) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        said = json.loads(self.process.stdout.readline())
        return said["failed"] if "failed" in said else said["done"]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@dataclass
class Mounted:
    """`out` is the plain directory, `run_dir` where the journal is."""

    out: Path
    run_dir: Path
    storage: Storage
    acting: list[Acting] = field(default_factory=list)

    @property
    def journal(self) -> Journal:
        self.storage.settle()
        return Journal.read(self.run_dir)

    def kinds(self, since: int = 0) -> list[str]:
        return [operation.kind for operation in self.journal.operations[since:]]

    def actor(self, *, alone: bool = False) -> Acting:
        """A process in there; `alone` in a session of its own."""
        self.acting.append(Acting(self.out, self.storage.host, alone=alone))
        return self.acting[-1]

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        host, cwd = self.storage.host, str(self.out)
        return subprocess.Popen(words, preexec_fn=lambda: enter(host, cwd), text=True, **options)

    def run(self, *words: str, **options: Any) -> str:
        """What a command says that runs in there."""
        process = self.start(*words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return said


@contextmanager
def mounted(place: Path, *, recorded: bool = True) -> Iterator[Mounted]:
    """Such a directory in `place`."""
    out = place / "out"
    out.mkdir()
    made = Mounted(out, place, Storage(RUN_ID, out=out, run_dir=place, recorded=recorded))
    try:
        yield made
    finally:
        for each in made.acting:
            each.end()
        made.storage.close()


def left_of(source: str = f"chaoskit-{RUN_ID}") -> list[str]:
    """The processes that see a mount of this test process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            if f" {source} " in path.read_text():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def tree(root: Path) -> dict[str, tuple[Any, int]]:
    """What lies in a directory: by path the bytes of a file, the words of a link, None for a directory; and the mode,
    but that of links."""
    found: dict[str, tuple[Any, int]] = {}
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(directory, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                found[str(path.relative_to(root))] = (os.readlink(path), 0)
            else:
                content = None if stat.S_ISDIR(mode) else path.read_bytes()
                found[str(path.relative_to(root))] = (content, stat.S_IMODE(mode))
    return found


class Replay:
    """A tree that the operations of a journal are carried out on, from nothing."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._names: dict[str, int] = {}
        self._contents: dict[int, Any] = {}
        self._modes: dict[int, int] = {}
        for operation in journal.operations:
            getattr(self, operation.kind)(operation)

    def tree(self) -> dict[str, tuple[Any, int]]:
        found = {}
        for path, number in self._names.items():
            content = self._contents[number]
            found[path] = (
                bytes(content) if isinstance(content, bytearray) else content,
                self._modes.get(number, 0),
            )
        return found

    def create(self, made: Operation) -> None:
        self._make(made, bytearray())

    def mkdir(self, made: Operation) -> None:
        self._make(made, None)

    def symlink(self, made: Operation) -> None:
        self._make(made, made.to)
        self._modes[made.file] = 0

    def _make(self, made: Operation, content: Any) -> None:
        assert made.path not in self._names and made.file not in self._contents, made
        self._names[made.path] = made.file
        self._contents[made.file] = content
        self._modes[made.file] = made.mode

    def link(self, made: Operation) -> None:
        assert self._names[made.path] == made.file and made.to not in self._names, made
        self._names[made.to] = made.file

    def write(self, made: Operation) -> None:
        content = self._contents[made.file]
        content.extend(bytes(max(0, made.offset + made.size - len(content))))
        content[made.offset : made.offset + made.size] = self._journal.bytes_of(made)

    def truncate(self, made: Operation) -> None:
        content = self._contents[made.file]
        del content[made.size :]
        content.extend(bytes(made.size - len(content)))

    def chmod(self, made: Operation) -> None:
        self._modes[made.file] = made.mode

    def unlink(self, made: Operation) -> None:
        assert self._names.pop(made.path) == made.file, made

    rmdir = unlink

    def rename(self, made: Operation) -> None:
        assert self._names[made.path] == made.file, made
        assert self._names.get(made.to) == made.replaced, made
        moved, others = self._below(made.path), self._below(made.to)
        for path in (*moved, *others):
            del self._names[path]
        for path, number in moved.items():
            self._names[made.to + path[len(made.path) :]] = number
        for path, number in others.items() if made.exchange else ():
            self._names[made.path + path[len(made.to) :]] = number

    def _below(self, path: str) -> dict[str, int]:
        return {p: n for p, n in self._names.items() if p == path or p.startswith(path + "/")}

    def fsync(self, made: Operation) -> None:
        assert made.since <= made.n, made

    fsyncdir = fsync
