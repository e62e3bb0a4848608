"""What warm launches leave behind: nothing, however many there are and whoever is killed in the middle of them.

Two parts: many launches of a tiny job of two ranks in a row from one harness, in which the parents must not grow; and
launches each of which loses one of the processes around it, chosen and timed by the seed, to SIGKILL. The parents are
those of the soak alone: their jobs have a variable of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path

from kept_counts import MURDERED, Count, add_keep, kept, totals
from table import Figure, parser, show

from chaoskit.environments.environment import Ended, RunSpec
from chaoskit.environments.launch import warm
from chaoskit.environments.launch.warm import WarmLauncher
from chaoskit.environments.local.environment import LocalEnvironment
from chaoskit.environments.machine import processes, scratch
from chaoskit.errors import ChaoskitError

JOB = """
import sys, time
from torch import distributed as dist, ones
dist.init_process_group("gloo")
for _ in range(int(sys.argv[1])):
    dist.all_reduce(ones(1))
    time.sleep(0.1)
dist.destroy_process_group()
"""
SETTLED = 20  # launches after which the parents have touched what they ever will
LIMIT = 15.0  # seconds within which everything must be gone
TARGETS = ("harness", "parent", "keeper", "agent", "forker", "rank")


def command(place: Path, rounds: int) -> list[str]:
    """The job, of two ranks."""
    (place / "job.py").write_text(JOB)
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "job.py", str(rounds)]


def launch(place: Path, run_id: str, words: list[str], index: int) -> tuple[str, Ended]:
    """One launch from its start to its end, and how it was launched."""
    told = RunSpec(place / run_id, place, place, run_id, env={"OMP_NUM_THREADS": "1"})
    with LocalEnvironment(told, WarmLauncher(threads="1")) as environment:
        how = environment.launch(index, words)
        while not (ended := [happening for happening in environment.wait(60.0) if isinstance(happening, Ended)]):
            pass
        return how, ended[0]


def read(pid: int, name: str) -> str:
    """A file of /proc; nothing once the process is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """Those of all its threads."""
    threads = [path.name for path in Path(f"/proc/{pid}/task").glob("*")]
    return [int(child) for thread in threads for child in read(pid, f"task/{thread}/children").split()]


def family(pid: int) -> list[int]:
    """All that descends from it."""
    return [each for child in children(pid) for each in (child, *family(child))]


def cast(top: int) -> dict[str, list[int]]:
    """Who plays which part in the launch of a harness, as far as they are there."""
    parts = {"harness": [top], "parent": [pid for pid in children(top) if "forkserver" in read(pid, "cmdline")]}
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
    files = [name for pid in pids for name in os.listdir(f"/proc/{pid}/fd")]
    places, alive = list(Path("/tmp").glob("chaoskit-*-soak-*")), family(os.getpid())
    found = {"shared memory": shared, "directories": places, "open files": files, "processes": alive}
    return {name: len(each) for name, each in found.items()}


def addresses(pids: list[int]) -> set[str]:
    """The addresses at which these processes listen."""
    lines = [line.split() for line in read(os.getpid(), "net/unix").splitlines() if "@chaoskit" in line]
    links = [os.readlink(link) for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir()]
    return {line[7] for line in lines if f"socket:[{line[6]}]" in links}


def many(place: Path, count: int) -> list[Figure]:
    """Launches in a row."""
    job, left, cold, begun = command(place, 1), 0, 0, time.perf_counter()
    for index in range(count):
        how, end = launch(place, f"soak-{index}", job, index)
        assert end.code == 0 and not end.survivors, f"launch {index} ended with {end}"
        left += len(processes.marked(f"soak-{index}"))
        cold += how != "warm"
        if index + 1 == min(SETTLED, count - 1):
            parents = cast(os.getpid())["parent"]
            assert parents, "nothing is measured without the parents"
            settled, before = {pid: memory(pid) for pid in parents}, traces([os.getpid(), *parents])
    figures = [Figure("a launch, from its start to its end", (time.perf_counter() - begun) / count, "s")]
    for pid in parents:
        for name, last in memory(pid).items():
            words, target = f"{name} of parent {pid} ({last // 1024} MiB) to launch {SETTLED}'s", "<= 1.05"
            figures.append(Figure(words, last / settled[pid][name], "", target * (name != "Pss")))
    after, listening = traces([os.getpid(), *parents]), addresses(parents)
    figures += [Figure(f"{name} more than then", after[name] - before[name], "", "<= 0") for name in after]
    ours = [each for pid in family(os.getpid()) if (each := processes.identify(pid)) is not None]
    warm.let_go()
    processes.wait_gone(ours, timeout=LIMIT)
    left += len(family(os.getpid()))
    sockets = listening.intersection(read(os.getpid(), "net/unix").split())
    counts = {"cold launches": cold, "processes left": left, f"addresses left of {len(listening)}": len(sockets)}
    return figures + [Figure(name, value, "", "<= 0") for name, value in counts.items()]


def trial(place: Path, run_id: str, draw: random.Random) -> tuple[str, str]:
    """One launch, one kill: who was killed, and what is wrong with what came of it."""
    target, delay = draw.choice(TARGETS), draw.uniform(0.0, 5.0)
    words = [sys.executable, __file__, "--one", str(place), run_id]
    harness = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen, struck, kept, since, begun = set(), 0, False, 0.0, time.monotonic()
    while harness.poll() is None and time.monotonic() < begun + 180:
        parts = cast(harness.pid)
        seen |= {processes.identify(pid) for pid in family(harness.pid)}
        since = since or (time.monotonic() if parts["parent"] else 0.0)
        if not struck and since and time.monotonic() > since + delay and parts[target]:
            struck, kept = draw.choice(parts[target]), bool(parts["agent"])
            os.kill(struck, signal.SIGKILL)
        time.sleep(0.01)
    harness.kill()  # one that hangs
    output, errors = harness.communicate()
    deadline, place = time.monotonic() + LIMIT, scratch.path(run_id)
    if not kept and scratch.is_abandoned(place):  # who dies before there is a keeper leaves it to the next start
        scratch.remove(run_id)
    left: list[str] = ["unknown"]
    while left and time.monotonic() < deadline:
        alive = [each for each in seen - {None} if processes.state(each) != "gone"] + processes.marked(run_id)
        left = [read(each.pid, "cmdline") for each in alive] + [str(place)] * place.exists()
        time.sleep(0.05)
    if left:
        return target, f"left: {left}"
    spoke = not harness.returncode and not errors and set(json.loads(output)) in ({"ended"}, {"error"})
    if target != "harness" and not spoke:
        return target, f"the harness said {output!r} {errors!r} ({harness.returncode})"
    return target if struck else "nobody", ""


def main() -> None:
    made = parser(__doc__ or "")
    add_keep(made)
    made.add_argument("--launches", type=int, default=200)
    made.add_argument("--kills", type=int, default=50)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--one", nargs=2, metavar=("DIR", "ID"), help=argparse.SUPPRESS)
    args = made.parse_args()
    # Others launch warm meanwhile: parents are shared by those whose variables are alike.
    os.environ.setdefault("SOAK", uuid.uuid4().hex)
    if args.one:
        place, run_id = Path(args.one[0]), args.one[1]
        try:
            print(json.dumps({"ended": launch(place, run_id, command(place, 20), 0)[1].code}))
        except ChaoskitError as error:
            print(json.dumps({"error": str(error)}))
        return
    launches, kills = Count("things that launches in a row left", "local"), Count(MURDERED, "local")
    with tempfile.TemporaryDirectory(prefix="soak-") as root, kept(args.keep, launches, kills):
        figures = many(Path(root), args.launches) if args.launches else []
        launches.times = args.launches
        launches.wrong = sum(int(figure.value) for figure in figures if figure.target == "<= 0")
        draw, struck = random.Random(args.seed), Counter[str]()
        for number in range(args.kills):
            who, what = trial(Path(root), f"soak-{uuid.uuid4().hex[:8]}", draw)
            struck[who] += 1
            kills.times += who != "nobody"
            kills.wrong += bool(what)
            print(f"kill {number + 1} of {args.kills}: {who} {what}", file=sys.stderr)
    figures += [Figure(f"killed: {who}", count, "") for who, count in sorted(struck.items())]
    figures += [Figure("kills that left something behind, or a harness without a word", kills.wrong, "", "<= 0")]
    show("Warm launches, again and again", figures + totals(args.keep), json_file=args.json)
    sys.exit(any(figure.met is False for figure in figures))


if __name__ == "__main__":
    main()
