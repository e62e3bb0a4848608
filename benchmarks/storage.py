"""What the file system over a job's `{out}` costs: writes, small ones, and names, beside the directory beneath it.

    python benchmarks/storage.py
    python benchmarks/storage.py --rounds 9 --size 512

Plain, watched and recorded take turns, each with fresh files, so that all see the same machine; the ratios are those of
the medians. On a machine that others use too, look at `--rounds 15` or more.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from table import Figure, parser, show

from chaoskit.environments.fusefs.storage import Storage
from chaoskit.environments.launch.host import enter

KINDS = ("plain", "watched", "recorded")
TARGET = ">= 0.6"

#: What one process does, and how many it does a second of what the figure counts.
WORKS = {
    "writes of 1 MiB": """
file = os.open("f", os.O_WRONLY | os.O_CREAT)
begun = time.perf_counter()
for _ in range(size):
    os.write(file, block)
told(size)
os.close(file)
""",
    "writes of 1 MiB, then an fsync": """
file = os.open("f", os.O_WRONLY | os.O_CREAT)
begun = time.perf_counter()
for _ in range(size):
    os.write(file, block)
os.fsync(file)
told(size)
os.close(file)
""",
    "writes of 1 MiB by two processes": """
begun = time.perf_counter()
others = []
for number in range(2):
    others.append(os.fork())
    if others[-1] == 0:
        file = os.open(f"f{number}", os.O_WRONLY | os.O_CREAT)
        for _ in range(size // 2):
            os.write(file, block)
        os._exit(0)
for other in others:
    os.waitpid(other, 0)
told(size)
""",
    "writes of 8 KiB": """
file = os.open("f", os.O_WRONLY | os.O_CREAT)
part = block[:8192]
begun = time.perf_counter()
for _ in range(5000):
    os.write(file, part)
told(5000)
os.close(file)
""",
    "files made, written, renamed and removed": """
begun = time.perf_counter()
for number in range(300):
    with open("f.tmp", "wb") as file:
        file.write(b"some text")
    os.rename("f.tmp", "f")
    os.unlink("f")
told(300)
""",
    "reads of 1 MiB": """
with open("f", "wb") as file:
    for _ in range(size):
        file.write(block)
file = os.open("f", os.O_RDONLY)
begun = time.perf_counter()
while os.read(file, 1 << 20):
    pass
told(size)
os.close(file)
""",
}
#: A job makes its first save long after it has begun.
PROGRAM = """
import json, os, sys, time
time.sleep(0.3)
size, block = int(sys.argv[1]), bytes(range(256)) * 4096
def told(count):
    print(json.dumps(count / (time.perf_counter() - begun)))
"""


def measured(work: str, kind: str, size: int, place: Path) -> float:
    """How many a second, in a directory of that kind."""
    out = place / "out"
    out.mkdir(parents=True)
    storage = None
    if kind != "plain":
        storage = Storage("benchmark", out=out, run_dir=place, recorded=kind == "recorded")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", PROGRAM + WORKS[work], str(size)],
            cwd=out if storage is None else "/",
            preexec_fn=None if storage is None else lambda: enter(storage.host, str(out)),
            stdout=subprocess.PIPE,
            check=True,
        )
    finally:
        if storage is not None:
            storage.close()
        shutil.rmtree(place)
    return float(json.loads(done.stdout))


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--size", type=int, default=256, help="MiB that are written (default: 256)")
    arguments.add_argument("-k", metavar="SUBSTRING", default="", help="only what is called so")
    arguments.add_argument("--dir", type=Path, help="where to write; the file system matters")
    told = arguments.parse_args()
    figures = []
    for work in (name for name in WORKS if told.k in name):
        found: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for number in range(told.rounds + 1):
            print(f"{work}: round {number} of {told.rounds}", file=sys.stderr)
            for kind in KINDS:
                with tempfile.TemporaryDirectory(dir=told.dir) as place:
                    rate = measured(work, kind, told.size, Path(place, "run"))
                if number:  # the first gets the memory of the machine going
                    found[kind].append(rate)
        medians = {kind: median(rates) for kind, rates in found.items()}
        figures.append(Figure(f"{work}: plain", medians["plain"], "/s"))
        for kind in KINDS[1:]:
            target = TARGET if work.startswith("writes of 1 MiB") and "two" not in work else ""
            figures.append(Figure(f"{work}: {kind} / plain", medians[kind] / medians["plain"], "x", target))
    show(f"A file system of ours ({told.size} MiB, medians of {told.rounds})", figures, json_file=told.json)


if __name__ == "__main__":
    main()
