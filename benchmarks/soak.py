"""What warm launches leave behind: nothing, however many there are and whoever is killed in the middle of them.

Two parts: many launches of a tiny job of two ranks in a row from one harness, in which the parents must not grow; and
launches each of which loses one of the processes around it, chosen and timed by the seed, to SIGKILL.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path

from table import Figure, parser, show

from chaoskit.capabilities import Process
from chaoskit.environments import processes, scratch
from chaoskit.environments.environment import Ended, Place
from chaoskit.environments.local import LocalEnvironment
from chaoskit.errors import ChaoskitError
from chaoskit.launch import warm
from chaoskit.launch.warm import WarmLauncher

JOB = """
import sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(int(sys.argv[1])):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.1)
dist.destroy_process_group()
"""
#: Launches after which the parents have touched what they ever will.
SETTLED = 20
#: Seconds within which everything must be gone.
LIMIT = 15.0
TARGETS = ("harness", "parent", "keeper", "agent", "forker", "rank")


def command(place: Path, rounds: int) -> list[str]:
    """The job, of two ranks."""
    (place / "job.py").write_text(JOB)
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "job.py", str(rounds)]


def launch(place: Path, run_id: str, words: list[str], index: int) -> tuple[str, Ended]:
    """One launch from its start to its end, and how it was launched."""
    told = Place(place / run_id, place, place, run_id, env={"OMP_NUM_THREADS": "1"})
    with LocalEnvironment(told, WarmLauncher(threads="1")) as environment:
        how = environment.launch(index, words)
        while True:
            for happening in environment.wait(60.0):
                if isinstance(happening, Ended):
                    return how, happening


def read(pid: int, name: str) -> str:
    """A file of /proc; nothing once the process is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """Those of all its threads."""
    threads = Path(f"/proc/{pid}/task").glob("[0-9]*")
    return [int(child) for thread in threads for child in read(pid, f"task/{thread.name}/children").split()]


def family(pid: int) -> list[int]:
    """All that descends from it."""
    return [each for child in children(pid) for each in (child, *family(child))]


def cast(harness: int) -> dict[str, list[int]]:
    """Who plays which part in the launch of a harness, as far as they are there."""
    parts = {
        "harness": [harness],
        "parent": [pid for pid in children(harness) if "forkserver" in read(pid, "cmdline")],
    }
    for part, above in (("keeper", "parent"), ("agent", "keeper"), ("forker", "agent")):
        parts[part] = [child for pid in parts[above] for child in children(pid)]
    parts["rank"] = [pid for pid in parts["forker"] if "\0RANK=" in read(pid, "environ")]
    parts["forker"] = [pid for pid in parts["forker"] if "CHAOSKIT_FORKER" in read(pid, "environ")]
    return parts


def memory(pid: int) -> dict[str, int]:
    """KiB of a process: all of it, its share, and what is its alone."""
    kib = {line.split()[0]: int(line.split()[1]) for line in read(pid, "smaps_rollup").splitlines()[1:]}
    return {"Rss": kib["Rss:"], "Pss": kib["Pss:"], "private": kib["Private_Clean:"] + kib["Private_Dirty:"]}


def traces(pids: list[int]) -> dict[str, int]:
    """What these processes, and the launches before, have left behind by now."""
    shared = [path for path in Path("/dev/shm").glob("*torch_*") if not read(int(path.name.split("_")[1]), "stat")]
    files = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
    places, alive = list(Path("/tmp").glob("chaoskit-*-soak-*")), len(family(os.getpid()))
    return {"shared memory": len(shared), "directories": len(places), "open files": files, "processes": alive}


def addresses(pids: list[int]) -> set[str]:
    """The addresses at which these processes listen."""
    lines = [line.split() for line in read(os.getpid(), "net/unix").splitlines() if "@chaoskit" in line]
    links = [os.readlink(link) for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir()]
    return {line[7] for line in lines if f"socket:[{line[6]}]" in links}


def many(place: Path, count: int) -> list[Figure]:
    """Launches in a row."""
    job, parents, left, cold, begun = command(place, 1), [], 0, 0, time.perf_counter()
    for index in range(count):
        how, end = launch(place, f"soak-{index}", job, index)
        assert end.code == 0 and not end.survivors, f"launch {index} ended with {end}"
        left += len(processes.marked(f"soak-{index}"))
        cold += how != "warm"
        if index + 1 == min(SETTLED, count - 1):
            parents = cast(os.getpid())["parent"]
            settled, before = {pid: memory(pid) for pid in parents}, traces([os.getpid(), *parents])
        print(f"\r{index + 1} of {count}", end="\n" * (index + 1 == count), file=sys.stderr)
    seconds = (time.perf_counter() - begun) / count
    figures = [
        Figure("a launch, from its start to its end", seconds, "s"),
        Figure("cold launches", cold, "", "<= 0"),
    ]
    for pid in parents:
        for name, last in memory(pid).items():
            words, target = f"parent {pid}: {name} to launch {SETTLED}'s, now {last // 1024} MiB", "<= 1.05"
            figures.append(Figure(words, last / settled[pid][name], "", target if name != "Pss" else ""))
    after, listening = traces([os.getpid(), *parents]), addresses(parents)
    figures += [Figure(f"{name} more than then", after[name] - before[name], "", "<= 0") for name in after]
    warm.let_go()
    deadline = time.monotonic() + LIMIT
    while family(os.getpid()) and time.monotonic() < deadline:
        time.sleep(0.05)
    sockets = listening.intersection(read(os.getpid(), "net/unix").split())
    figures += [Figure("addresses while they lived", len(listening), "", ">= 1")]
    figures += [Figure("addresses left", len(sockets), "", "<= 0")]
    return [*figures, Figure("processes left", left + len(family(os.getpid())), "", "<= 0")]


def trial(place: Path, run_id: str, draw: random.Random) -> tuple[str, str]:
    """One launch, one kill: who was killed, and what is wrong with what came of it."""
    target, delay = draw.choice(TARGETS), draw.uniform(0.0, 5.0)
    words = [sys.executable, __file__, "--one", str(place), run_id]
    harness = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen: set[Process | None] = set()
    struck, since, begun = 0, 0.0, time.monotonic()
    while harness.poll() is None:
        parts = cast(harness.pid)
        seen |= {processes.identify(pid) for pid in family(harness.pid)}
        since = since or (time.monotonic() if parts["parent"] else 0.0)
        if not struck and since and time.monotonic() > since + delay and parts[target]:
            struck = draw.choice(parts[target])
            os.kill(struck, signal.SIGKILL)
        if time.monotonic() > begun + 180:
            harness.kill()
            return target, "the harness hangs"
        time.sleep(0.01)
    output, errors = harness.communicate()
    deadline, ours = time.monotonic() + LIMIT, [each for each in seen if each is not None]
    while left := [each for each in ours if processes.state(each) != "gone"] + processes.marked(run_id):
        if time.monotonic() > deadline:
            return target, f"left: {[read(each.pid, 'cmdline') for each in left]}"
        time.sleep(0.05)
    if scratch.path(run_id).exists():
        return target, f"{scratch.path(run_id)} is left"
    spoke = not harness.returncode and not errors and set(json.loads(output)) in ({"ended"}, {"error"})
    if target != "harness" and not spoke:
        return target, f"the harness said {output!r} {errors!r} ({harness.returncode})"
    return target if struck else "nobody", ""


def main() -> None:
    """Both parts, and the table."""
    made = parser(__doc__ or "")
    made.add_argument("--launches", type=int, default=200)
    made.add_argument("--kills", type=int, default=50)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--one", nargs=2, metavar=("DIR", "ID"), help=argparse.SUPPRESS)
    args = made.parse_args()
    if args.one:
        try:
            _, end = launch(Path(args.one[0]), args.one[1], command(Path(args.one[0]), 20), 0)
            print(json.dumps({"ended": end.code}))
        except ChaoskitError as error:
            print(json.dumps({"error": str(error)}))
        return
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch_place:
        figures = many(Path(scratch_place), args.launches) if args.launches else []
        draw, wrong, struck = random.Random(args.seed), 0, Counter[str]()
        for number in range(args.kills):
            place = Path(scratch_place) / f"kill-{number}"
            place.mkdir()
            who, what = trial(place, f"soak-{uuid.uuid4().hex[:8]}", draw)
            struck[who] += 1
            wrong += bool(what)
            print(f"kill {number + 1} of {args.kills}: {who} {what}", file=sys.stderr)
            shutil.rmtree(place)
    figures += [Figure(f"killed: {who}", count, "") for who, count in sorted(struck.items())]
    figures += [Figure("kills that left something behind, or a harness without a word", wrong, "", "<= 0")]
    show("Warm launches, again and again", figures, json_file=args.json)
    sys.exit(any(figure.met is False for figure in figures))


if __name__ == "__main__":
    main()
