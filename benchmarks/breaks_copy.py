"""A copy of the sources with its own virtual environment: breaks one thing at a time there and runs tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from breaks_catalogue import Break

#: Put into the tests' process: which test begins, which fails, and whose chaoskit it is that they see.
WATCH = """
import json, os
import chaoskit

def _say(**what):
    with open(os.environ["BREAKS_SAID"], "a") as file:
        file.write(json.dumps(what) + "\\n")

_say(package=chaoskit.__file__)

def pytest_runtest_logstart(nodeid, location):
    _say(begins=nodeid)

def pytest_runtest_logreport(report):
    if report.failed:
        _say(failed=report.nodeid, why=str(report.longrepr)[-400:])

def pytest_collectreport(report):
    if report.failed:
        _say(error=report.nodeid, why=str(report.longrepr)[-400:])
"""


@dataclass(frozen=True)
class Outcome:
    """What a run of tests came to: `passed`, `failed`, `hung`, `stopped` at its limit, or `error`. `test` is the one
    that failed or hung, `all` are all that failed."""

    what: str
    test: str = ""
    why: str = ""
    all: tuple[str, ...] = ()


class Copy:
    """The files of `root` that git knows, and its virtual environment, copied below `work`."""

    def __init__(self, root: Path, work: Path) -> None:
        self.tree, self.venv = work / "tree", work / "venv"
        self._work, self._touched = work, int(time.time())
        shutil.rmtree(self.tree, ignore_errors=True)
        for name in _files(root):
            target = self.tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target, follow_symlinks=False)
        _copy_venv(Path(sys.prefix), self.venv, instead={sys.prefix: self.venv, str(root): self.tree})
        plugins = work / "plugin"
        plugins.mkdir(exist_ok=True)
        (plugins / "breaks_watch.py").write_text(WATCH)
        foreign = ("PYTHONPATH", "PYTEST_")
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        self._env |= {
            "PYTHONPATH": str(plugins),
            "BREAKS_MARK": str(work),
            "BREAKS_SAID": str(work / "said.jsonl"),
        }
        self._env["PATH"] = os.pathsep.join((str(self.venv / "bin"), os.environ.get("PATH", "")))
        self._must_be_seen()

    def _must_be_seen(self) -> None:
        """Raises RuntimeError unless fresh interpreters and scripts of the copied environment import the copy."""
        bare = {"PATH": self._env["PATH"]}
        asked = [
            str(self.venv / "bin" / "python"),
            "-c",
            "import chaoskit, sys; print(chaoskit.__file__, sys.prefix)",
        ]
        said = subprocess.run(asked, env=bare, cwd="/", capture_output=True, text=True).stdout.split()
        script = (self.venv / "bin" / "chaoskit").read_text().splitlines()[0]
        if said != [str(self.tree / "chaoskit" / "__init__.py"), str(self.venv)] or str(self.venv) not in script:
            raise RuntimeError(f"what runs in {self.venv} does not see {self.tree}: {said}, {script}")

    @contextmanager
    def broken(self, one: Break) -> Iterator[None]:
        """Break it for the duration of the context. Raises SyntaxError if the broken file cannot be compiled."""
        path = self.tree / one.file
        whole = path.read_text()
        lines = whole.splitlines(keepends=True)
        changed = "".join([*lines[: one.line], one.text, *lines[one.line :]])
        compile(changed, str(path), "exec")
        self._write(path, changed)
        try:
            yield
        finally:
            self._write(path, whole)

    def _write(self, path: Path, text: str) -> None:
        """Give each version its own modification time, so that Python never loads a stale compiled file."""
        path.write_text(text)
        self._touched += 1
        os.utime(path, (self._touched, self._touched))

    def test(
        self,
        what: Sequence[str],
        *,
        marks: str = "",
        without: Sequence[str] = (),
        to_the_end: bool = False,
        limit: float,
        patience: float,
    ) -> Outcome:
        """Run tests until one fails, or `to_the_end`. A test hangs after `patience` seconds; `limit` is for all."""
        said = Path(self._env["BREAKS_SAID"])
        said.write_text("")
        place = Path(tempfile.mkdtemp(prefix="breaks-"))
        command = [str(self.venv / "bin" / "python"), "-m", "pytest", "-q", "-p", "breaks_watch"]
        command += [] if to_the_end else ["-x"]
        command += [
            "-p",
            "no:cacheprovider",
            "--tb=short",
            f"--basetemp={place / 'tests'}",
            *(["-m", marks] * bool(marks)),
        ]
        command += [f"--deselect={each}" for each in without] + list(what)
        try:
            with (self._work / "pytest.log").open("wb") as log:
                process = subprocess.Popen(
                    command, cwd=self.tree, env={**self._env, "TMPDIR": str(place)},
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
                late = _wait(process, said, limit=limit, patience=patience)
        finally:
            self._clean(place)
        return self._outcome(said, process.returncode, late)

    def _outcome(self, said: Path, code: int, late: str) -> Outcome:
        told = [json.loads(line) for line in said.read_text().splitlines()]
        packages = [each["package"] for each in told if "package" in each]
        if any(not each.startswith(str(self.tree)) for each in packages):
            raise RuntimeError(f"the tests saw {packages[0]}, which is not the copy in {self.tree}")
        bad = [each for each in told if "failed" in each or "error" in each]
        if bad:
            tests = [each.get("failed") or each["error"] for each in bad]
            return Outcome("failed", tests[0], bad[0]["why"], tuple(tests))
        begun = [each["begins"] for each in told if "begins" in each]
        if late:
            return Outcome(late, begun[-1] if begun else "")
        if code in (0, 5):
            return Outcome("passed")
        tail = (self._work / "pytest.log").read_text(errors="replace")[-600:]
        # A session that dies at its first import fails `make test`, too.
        return Outcome("failed" if not packages and code > 0 else "error", "(the session itself)", tail)

    def _clean(self, place: Path) -> None:
        """Kill the processes that broken launchers have left: those that carry our mark, or run from the copy."""
        marks = (f"BREAKS_MARK={self._work}\0".encode(), f"{place}/".encode(), f"{self.venv}/".encode())
        for path in Path("/proc").iterdir():
            if path.name.isdecimal() and int(path.name) != os.getpid():
                with suppress(OSError):
                    seen = (path / "environ").read_bytes() + (path / "cmdline").read_bytes()
                    if any(mark in seen for mark in marks):
                        os.kill(int(path.name), signal.SIGKILL)
        shutil.rmtree(place, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], said: Path, *, limit: float, patience: float) -> str:
    """Wait until it ends. Returns `hung` or `stopped` if it had to be killed, otherwise an empty string."""
    begun = moved = time.monotonic()
    size = 0
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
            return ""
        now = time.monotonic()
        if (grown := said.stat().st_size) != size or b'"begins"' not in said.read_bytes()[:4096]:
            size, moved = grown, now  # until the first test begins, pytest collects, which may take long
        if now - moved > patience or now - begun > limit:
            process.kill()
            process.wait()
            return "hung" if now - moved > patience else "stopped"


def _files(root: Path) -> list[str]:
    listed = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, check=True, text=True).stdout.split("\0")
    return [name for name in names if name and (root / name).is_file()]


def _copy_venv(venv: Path, target: Path, *, instead: Mapping[str, Path]) -> None:
    """Copy it by hard links, and rewrite the files that contain the old paths."""

    old = re.compile("|".join(re.escape(place) for place in sorted(instead, key=len, reverse=True)))

    if not (target / ".copied").exists():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(venv, target, symlinks=True, copy_function=_link)
        (target / ".copied").touch()
    # Every time: the entry points change with the sources.
    own = [venv / "pyvenv.cfg", *(venv / "bin").iterdir()]
    own += [*venv.glob("lib/python*/site-packages/*.pth"), *venv.glob("lib/python*/site-packages/chaoskit*/*")]
    for path in own:
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20:
            with suppress(UnicodeDecodeError):
                text = old.sub(lambda found: str(instead[found[0]]), path.read_text())
                made = target / path.relative_to(venv)
                made.unlink(missing_ok=True)  # the other name of the file keeps what it says
                made.write_text(text)
                made.chmod(path.stat().st_mode)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
