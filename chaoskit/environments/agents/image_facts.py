"""`ImageFacts`: what an image is like inside: its Python, its torch, its user. The image says so itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from chaoskit.errors import UsageError

#: Where images have their Python, in the order in which they are tried.
PYTHONS = (
    "python3", "python", "/opt/conda/bin/python", "/opt/venv/bin/python", "/usr/local/bin/python3", "/usr/bin/python3",
    "/venv/bin/python", "/app/.venv/bin/python",
)  # fmt: skip
OLDEST = (3, 11)
_LONGEST_REASON = 200
#: Run by whatever Python is found, also by an old one. It looks for the interpreter of the job's command, which has
#: torch, and has that describe itself.
ASK = r"""
import json, os, subprocess, sys
code = '''
import json, os, platform, sys
try:
    from importlib.util import find_spec
    torch = find_spec("torch") is not None
except Exception:
    torch = False
boot = open("/proc/sys/kernel/random/boot_id").read().strip()
print(json.dumps({"python": sys.executable, "version": list(sys.version_info[:3]), "torch": torch, "uid": os.getuid(),
                  "kind": platform.python_implementation().lower(), "machine": platform.machine(), "cwd": os.getcwd(),
                  "libc": " ".join(platform.libc_ver()), "boot": boot, "home": os.path.expanduser("~")}))
'''
def found(word):
    places = [""] if os.sep in word else os.environ.get("PATH", os.defpath).split(os.pathsep)
    for place in places:
        path = os.path.join(place, word)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
def interpreter(word):
    path = found(word)
    if path is None:
        return None
    if os.path.basename(path).startswith("python"):
        return path
    with open(path, "rb") as file:
        first = file.readline(256)
    words = first[2:].decode().split() if first.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [found(each) for each in words[1:] if not each.startswith("-")]
    return words[0] if words and words[0] and "python" in os.path.basename(words[0]) else None
for python in (interpreter(sys.argv[1]), sys.executable):
    if python:
        try:
            print(subprocess.check_output([python, "-c", code]).decode().strip().splitlines()[-1])
            break
        except Exception:
            pass
"""


@dataclass(frozen=True)
class ImageFacts:
    """`id` is the image's digest. `python` runs the job, as `version`; `uid` is the user of the image, `cwd` its
    working directory."""

    id: str
    name: str
    python: str
    version: tuple[int, ...]
    uid: int
    cwd: str


def answer_in(output: str) -> dict[str, Any] | None:
    """The answer to `ASK` in the output of a container; None if there is none."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            said: dict[str, Any] = json.loads(line)
            return said
    return None


def no_python(name: str, last: str) -> UsageError:
    """The error for an image with this name in which no Python starts; `last` is what was said last."""
    said = " ".join(last.split()) or "no output"
    if len(said) > _LONGEST_REASON:
        # The cause is named last; it is not cut in the middle of a word.
        said = f"… {said[-_LONGEST_REASON:].partition(' ')[2]}"
    oldest = ".".join(map(str, OLDEST))
    return UsageError(
        f"the image {name!r} has no Python that starts ({said}): the ranks need CPython {oldest} or newer, as python3 "
        "on its PATH"
    )


def facts_of(image: str, name: str, said: dict[str, Any]) -> ImageFacts:
    """The facts of an image with this id and name, from its answer. Raises UsageError, with the remedy, for one in
    which no job can run under test."""
    version, where = tuple(said["version"]), f"the image {name!r}"
    if said["kind"] != "cpython" or version < OLDEST:
        shown = ".".join(map(str, version))
        raise UsageError(
            f"{where} has {said['kind']} {shown}, and chaoskit's probe needs CPython {OLDEST[0]}.{OLDEST[1]} or newer: "
            "build the image with a newer Python"
        )
    if not said["torch"]:
        raise UsageError(
            f"{where} has no torch for {said['python']}: install torch there, or name the Python that has it in the "
            "command"
        )
    return ImageFacts(image, name, said["python"], version, said["uid"], said["cwd"])
