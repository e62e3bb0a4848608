"""How the pods of a run reach chaoskit: by TCP, or by files on the volume where no pod may connect to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaoskit.environments.agents.agent_line import AgentDoor
from chaoskit.environments.gate.doors import ADDRESS
from chaoskit.environments.kubernetes.cluster import own_address
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.volume_channel.carrier import AGENTS, GATE
from chaoskit.environments.volume_channel.harness_end import HarnessEnd
from chaoskit.environments.volume_channel.node_end import VOLUME
from chaoskit.nodes import ClusterPlace

#: In the directory of a run, the files that carry its connections.
NAME = "channel"


def host_of_doors(place: ClusterPlace, connection: ClusterConnection) -> tuple[str, str]:
    """Where chaoskit listens, and by which other name pods know that. Raises UsageError if pods cannot reach it."""
    return ("127.0.0.1", "") if place.channel == "volume" else ("0.0.0.0", own_address(place, connection))


def address_of(place: ClusterPlace, run_dir: Path, *, tcp: str) -> str:
    """The address of chaoskit for the agents of a run, whose door has the address `tcp`."""
    return f"{VOLUME}{run_dir / NAME}" if place.channel == "volume" else tcp


def address_for_pods(
    place: ClusterPlace, run: MachineRun, door: AgentDoor, *, is_over: Callable[[str], bool], for_all: bool
) -> str:
    """The same for a run that has begun, whose connections are carried until its end. See `HarnessEnd`."""
    if place.channel == "volume":
        gate = {GATE: run.gate.door.environment[ADDRESS]} if run.gate is not None else {}
        end = HarnessEnd(
            run.run_dir / NAME, doors={AGENTS: door.address, **gate}, is_over=is_over, for_all=for_all
        )
        run.keep(end.close)
    return address_of(place, run.run_dir, tcp=door.address)
