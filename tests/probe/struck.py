"""Programs whose ranks are ordered, at their gates, to make numbers of theirs wrong; and what came of it.

A program prints a line of JSON per step, by which a test sees what the numbers became of.
"""

import json
import os
import sys
import textwrap
import time

from chaoskit.environments.gate.doors import UnixDoor
from chaoskit.environments.gate.server import GateServer
from chaoskit.protocol.events import Event, read_events
from tests.probe.started import WITH_PROBE, Started


def order(into, how, *, elements=1, steps=1, seed=3):
    """As a fault gives it; `into` as text."""
    from chaoskit.protocol.targets import as_target

    how = {"kind": how} if isinstance(how, str) else how
    return {
        "do": "corrupt", "into": as_target(into).to_json(), "how": how,
        "elements": elements, "steps": steps, "seed": seed,
    }  # fmt: skip


class Struck:
    """`said[n]`: what the rank told the harness of the order that it was given for step `n`; `printed[rank]`: what it
    printed; `events(kind)`: its record."""

    def __init__(self, tmp_path, text, orders, *, rank=0, world=1):
        """`orders`: by the number of the step after which one is handed over, 0 for the start."""
        for name in ("events", "logs", "out"):
            (tmp_path / name).mkdir()
        self.run_dir, self.rank = tmp_path, rank
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(text))
        self.gate = GateServer(UnixDoor(tmp_path))
        self.programs = []
        try:
            for each in range(world):
                env = {
                    **os.environ,
                    "PYTHONPATH": WITH_PROBE, "CHAOSKIT_RUN": str(tmp_path), "CHAOSKIT_OUT": str(tmp_path / "out"),
                    **self.gate.door.environment, "RANK": str(each), "WORLD_SIZE": str(world),
                }  # fmt: skip
                log = tmp_path / f"output-{each}.txt"
                command = [sys.executable, str(program)]
                self.programs.append(Started(command, env=env, cwd=tmp_path, log=log))
            numbers = self._follow(dict(orders))
            self.said = {n: self.gate.corrupted(rank, number) for n, number in numbers.items()}
        finally:
            for started in self.programs:
                started.close()
            self.gate.close()
        self.codes = [started.poll() for started in self.programs]
        self.output = "\n".join(started.output for started in self.programs)
        self.printed = [
            [json.loads(line) for line in started.output.splitlines() if line.startswith("{")]
            for started in self.programs
        ]

    def _follow(self, orders):
        """Let the ranks go on, and hand over what is ordered."""
        numbers, deadline = {}, time.monotonic() + 100
        while any(started.poll() is None for started in self.programs):
            assert time.monotonic() < deadline, [started.output for started in self.programs]
            for arrived in self.gate.arrivals():
                n = {"start": 0, "step": arrived.n + 1}.get(arrived.at)
                if arrived.rank == self.rank and n in orders:
                    numbers[n] = self.gate.corrupt(self.rank, orders.pop(n))
                self.gate.release(arrived.rank, keep_gating=bool(orders))
            time.sleep(0.001)
        assert not orders, f"no such steps: {list(orders)}; it said:\n{self.programs[self.rank].output}"
        self.gate.arrivals()
        return numbers

    def events(self, kind):
        (path,) = (self.run_dir / "events").glob(f"rank-*-{self.rank}-*.jsonl")
        return [event for event in read_events(path) if isinstance(event, Event) and event.kind == kind]
