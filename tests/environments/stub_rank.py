"""Stands in for a rank: greets, takes as many steps as it is told to, stopping at the gate before each.

`python -I -S stub_rank.py RANK STEPS`; -I and -S keep the real probe out of it.
"""

import json
import os
import socket
import sys
import time


def main(rank: int, steps: int) -> None:
    run = os.environ["CHAOSKIT_RUN"]
    restart = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    launch = int(os.environ["CHAOSKIT_LAUNCH"])
    with open("/proc/self/stat") as file:
        stat = file.read().rpartition(")")[2].split()
    start = {"role": "rank", "rank": rank, "pid": os.getpid(), "start": int(stat[19])}
    node = os.environ.get("CHAOSKIT_NODE", "")
    start |= {"launch": launch, "restart": restart, "world": 1, "node": node}
    with open(f"{run}/events/rank-{rank}-{launch}-{node}-{os.getpid()}.jsonl", "w") as events:
        events.write(json.dumps({"i": 0, "t": time.monotonic(), "e": "process.start", **start}) + "\n")
    if not os.environ.get("CHAOSKIT_GATE"):
        time.sleep(1000)
    door = os.environ["CHAOSKIT_GATE"]
    token = {}
    if door.startswith("tcp://"):
        host, _, port = door.removeprefix("tcp://").rpartition(":")
        gate = socket.create_connection((host, int(port)))
        token = {"token": os.environ["CHAOSKIT_GATE_TOKEN"]}
    else:
        gate = socket.socket(socket.AF_UNIX)
        path = door.removeprefix("unix:")
        directory = os.open(os.path.dirname(path), os.O_PATH)
        gate.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    lines = gate.makefile("rb")

    def say(**words: object) -> None:
        gate.sendall(json.dumps(words).encode() + b"\n")

    say(hello=1, pid=os.getpid(), start=start["start"], node=node, rank=rank, launch=launch, restart=restart, **token)
    if token:
        assert "welcome" in json.loads(lines.readline())
    for n in range(steps):
        say(at="step", n=n, call=1, record={"n": n + 1})
        answer = json.loads(lines.readline() or '{"do": "go"}')
        if answer["do"] == "exit":
            os._exit(answer["code"])
        if answer["do"] == "raise":
            say(raised=answer["type"])
            raise RuntimeError(answer["message"])
    print("done", flush=True)


main(int(sys.argv[1]), int(sys.argv[2]))
