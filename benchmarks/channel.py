"""What a stop at the gate costs: the round trip of a rank that reports and is let go, by TCP and by files on a volume,
in turns; one stop right after the other, and with the time of a step in between, after which the looks at the files
have become rare.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from table import Figure, parser, show

from chaoskit.capabilities import ProcessRef
from chaoskit.environments.gate.doors import ADDRESS, TOKEN, TcpDoor
from chaoskit.environments.gate.server import GateServer, Identity
from chaoskit.environments.volume_channel import node_end
from chaoskit.environments.volume_channel.carrier import GATE
from chaoskit.environments.volume_channel.harness_end import HarnessEnd
from chaoskit.probe.gate import GateClient

#: Seconds of a step, and how many stops are measured at a time.
STEPS = {"one after the other": (0.0, 200), "with steps of 0.2 s": (0.2, 10)}


def rank(address: str, token: str) -> None:
    """A rank, at the end of a node where that is a directory: prints the seconds of each stop."""
    if address.startswith(node_end.VOLUME):
        address = node_end.start(Path(address.removeprefix(node_end.VOLUME)), "node0")[GATE]
    client = GateClient(address, rank=0, launch=0, restart=0, token=token)
    took = {}
    for name, (step, count) in STEPS.items():
        took[name] = []
        for n in range(count):
            time.sleep(step)
            begun = time.perf_counter()
            client.arrive("step", n, record={"n": n})
            took[name].append(time.perf_counter() - begun)
    print(json.dumps(took))


def measured(address: str, gate: GateServer) -> dict[str, list[float]]:
    """The seconds of each stop of one rank."""
    words, env = [sys.executable, __file__, "--rank", address], {**os.environ, **gate.door.environment}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while select.select([gate, process.stdout], [], [])[0] != [process.stdout]:
            for _ in gate.arrivals():
                gate.release(0, keep_gating=True)
        return dict(json.loads(process.stdout.readline()))


def main() -> None:
    """See the module."""
    arguments = parser(str(__doc__))
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--volume", type=Path, default=Path(tempfile.gettempdir()), help="where the files are")
    arguments.add_argument("--rank", help=argparse.SUPPRESS)
    args = arguments.parse_args()
    if args.rank:
        rank(args.rank, os.environ[TOKEN])
        return
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(args.rounds):
        gate = GateServer(TcpDoor(), identify=lambda hello: Identity(ProcessRef(hello["pid"], ""), began=0.0))
        address = gate.door.environment[ADDRESS]
        directory = Path(tempfile.mkdtemp(dir=args.volume)) / "channel"
        files = HarnessEnd(directory, doors={GATE: address}, is_over=lambda name: False)
        for way, at in (("TCP", address), ("files", f"{node_end.VOLUME}{directory}")):
            for name, took in measured(at, gate).items():
                found.setdefault((way, name), []).extend(took)
        files.close()
        directory.parent.rmdir()
        gate.close()
    figures = [
        Figure(f"{name}, by {way}", statistics.median(each) * 1e3, "ms") for (way, name), each in found.items()
    ]
    figures += [
        Figure(f"{name}, by {way}, 95th of 100", statistics.quantiles(each, n=20)[-1] * 1e3, "ms")
        for (way, name), each in found.items()
    ]
    show("a stop at the gate", figures, json_file=args.json)


if __name__ == "__main__":
    main()
