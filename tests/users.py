"""Ordinary users: how to be one for a command or for whole tests, and what they, or we, are not given here."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

NOBODY = 65534
REPOSITORY = Path(__file__).resolve().parents[1]
IS_ROOT = os.getuid() == 0
#: For tests that are run once more as an ordinary user.
as_root_only = pytest.mark.skipif(not IS_ROOT, reason="whoever runs these tests is an ordinary user already")


def ordinary() -> list[str]:
    """What comes before a command that an ordinary user is to run; nothing, where we are one.

    What Python consists of may lie where only root can look. The right to look everywhere would not do, since it ends
    at the border of a user namespace: the command sees these directories, at their own places, in directories that are
    open to all.
    """
    if not IS_ROOT:
        return []
    lines = ["set -e", "umask 022", "aside=$(mktemp -d)"]
    for number, (closed, places) in enumerate(_closed().items()):
        lines += [f"mkdir $aside/{number}-{at}" for at in range(len(places))]
        lines += [f"mount --bind {shlex.quote(p)} $aside/{number}-{at}" for at, p in enumerate(places)]
        lines += [f"mount -t tmpfs -o mode=755 none {shlex.quote(closed)}"]
        lines += [f"mkdir -p {shlex.quote(p)}; mount --move $aside/{number}-{at} {shlex.quote(p)}; "
                  f"rmdir $aside/{number}-{at}" for at, p in enumerate(places)]  # fmt: skip
    lines += ["rmdir $aside", f'exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "$@"']
    return ["unshare", "--mount", "sh", "-c", "\n".join(lines), "sh"]


def _closed() -> dict[str, list[str]]:
    """The topmost directories on the way to what Python consists of that are not open to all, and what lies there."""
    found: dict[str, list[str]] = {}
    for place in sorted({os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix), str(REPOSITORY)}):
        above = [parent for parent in Path(place).parents if not parent.stat().st_mode & 1]
        if above and not any(Path(place).is_relative_to(other) for other in found.get(str(above[-1]), ())):
            found.setdefault(str(above[-1]), []).append(place)
    return found


@contextmanager
def home() -> Iterator[Path]:
    """A directory of an ordinary user's own."""
    made = Path(tempfile.mkdtemp(prefix="theirs-"))
    try:
        if IS_ROOT:
            os.chown(made, NOBODY, NOBODY)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def run_as_ordinary(command: list[str], place: Path, *, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a command as an ordinary user at home; all that it says is its standard output."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "XDG_"))}
    return subprocess.run(
        [*ordinary(), *command],
        cwd=place, env={**env, "HOME": str(place), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
    )  # fmt: skip


@cache
def refused() -> str | None:
    """Why an ordinary user has no virtual hosts here, None where he has."""
    code = "from chaoskit.environments.netns.environment import NetnsEnvironment as It; print(It.available())"
    with home() as place:
        try:
            done = run_as_ordinary([sys.executable, "-c", code], place, timeout=300)
        except OSError as error:
            return f"unshare (util-linux) is needed to become an ordinary user: {error}"
    said = done.stdout.strip()
    return None if said == "None" else f"an ordinary user has no virtual hosts here: {said}"


def must_have(request: pytest.FixtureRequest, why_not: str | None) -> None:
    """Skip the test where something is missing; with --chaos-require, fail it."""
    if why_not is not None:
        (pytest.fail if request.config.getoption("chaos_require") else pytest.skip)(why_not)


def repeat(request: pytest.FixtureRequest, path: str, *words: str, timeout: float = 900) -> None:
    """Run the tests of a file once more, as an ordinary user; none of them may be skipped."""
    must_have(request, refused())
    with home() as place:
        words = (*words, "--basetemp", str(place / "tmp"), "--chaos-require", "-p", "no:cacheprovider", "-q")
        done = run_as_ordinary([sys.executable, "-m", "pytest", path, *words], place, timeout=timeout)
    assert done.returncode == 0, done.stdout
