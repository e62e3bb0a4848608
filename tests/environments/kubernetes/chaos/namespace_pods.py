"""Two pods whose networks are namespaces of this machine, as an environment has them. Root only."""

from __future__ import annotations

from typing import Any

from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.environments.machine.helper_process import HelperProcess
from tests.environments.kubernetes.chaos import pod_agent
from tests.kubernetes_server.chaos_in_namespaces import inside

PORT = 29400
ADDRESSES = {"node0": "10.9.0.1", "node1": "10.9.0.2"}


class NamespacePods:
    """Fulfils `ChaosPods`; the nodes are node0 and node1, and a connection of the job leads from the first to the
    other."""

    def __init__(self, objects: RunObjects, connection: ClusterConnection) -> None:
        from pathlib import Path

        self.objects, self.connection = objects, connection
        script = Path(pod_agent.__file__)
        self.agents = {node: HelperProcess(script, called=f"the agent of {node}") for node in ADDRESSES}
        try:
            for node in ADDRESSES:
                self.ask(node, "network_felt")  # it has left our namespace by now
            first, second = (self.agents[node].process.pid for node in ADDRESSES)
            words = f"ip link add eth0 netns {first} type veth peer name eth0 netns {second}".split()
            inside(first, words)
            for node, address in ADDRESSES.items():
                pid = self.agents[node].process.pid
                inside(pid, f"ip addr add {address}/24 dev eth0".split())
                inside(pid, ["ip", "link", "set", "lo", "up"])
                inside(pid, ["ip", "link", "set", "eth0", "up"])
            self.ask("node1", "job_listens", port=PORT)
            self.ask("node0", "job_connects", address=ADDRESSES["node1"], port=PORT)
        except BaseException:
            self.close()
            raise

    def pid_of(self, pod: dict[str, Any]) -> int:
        """For the back-end."""
        node = f"node{pod['metadata']['labels']['chaoskit.dev/node']}"
        return self.agents[node].process.pid

    def nodes(self) -> tuple[str, ...]:
        return tuple(ADDRESSES)

    def selector(self, node: str) -> RunSelector:
        return RunSelector(self.objects.identity, "trainer", int(node.removeprefix("node")))

    def address(self, node: str) -> str:
        return ADDRESSES[node]

    def names(self, node: str) -> tuple[str, ...]:
        return (node,)

    def ask(self, node: str, request: str, **given: Any) -> Any:
        return self.agents[node].ask(request, **given)

    def job_talks(self, size: int = 1000) -> None:
        """The job on node0 sends something to that on node1."""
        self.ask("node0", "job_sends", size=size)

    def close(self) -> None:
        for agent in self.agents.values():
            agent.close()
