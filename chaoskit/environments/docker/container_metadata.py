"""`ContainerMetadata`: each container has the metadata service of its cloud at the address of clouds, for itself."""

from __future__ import annotations

import os
import socket

from chaoskit.environments.agents.agent_line import AgentDoor, AgentRefused
from chaoskit.environments.docker.container_nodes import ContainerNode
from chaoskit.environments.docker.network_helpers import NodeHelpers
from chaoskit.environments.machine.helper_process import HelperRefused
from chaoskit.environments.metadata.metadata_server import ADDRESS, PORT
from chaoskit.environments.metadata.run_metadata import RunMetadata
from chaoskit.errors import ChaoskitError

#: Seconds for a socket that was handed over to arrive.
_HANDING_OVER = 10.0
_USE = "metadata"


class ContainerMetadata:
    """The services of one run. One of `helpers` opens the socket in the network of a container and hands it over at
    `door`; the harness answers. Address and socket end with the container."""

    def __init__(self, metadata: RunMetadata, helpers: NodeHelpers, door: AgentDoor) -> None:
        self._metadata = metadata
        self._helpers = helpers
        self._door = door

    def serve(self, node: ContainerNode) -> None:
        """Answer on a node that has come up. Raises ChaoskitError where it cannot have the address."""
        if node.network == os.stat("/proc/self/ns/net").st_ino:
            raise ChaoskitError(f"{node.name} is on the network of this machine, whose {ADDRESS} must stay as it is")
        helper = self._helpers.take(node.name, _USE)
        try:
            helper.ask("listen", node=node.name, address=ADDRESS, port=PORT, door=self._door.address)
            with self._door.take({"listener": node.name}, limit=_HANDING_OVER, alive=lambda: None) as line:
                _, (fd,), *_ = socket.recv_fds(line, 1, 1)
        except (HelperRefused, AgentRefused) as error:
            raise ChaoskitError(f"{node.name} cannot have {ADDRESS}:{PORT} for itself: {error}") from error
        finally:
            self._helpers.leave(node.name, _USE)
        self._metadata.serve(node.name, socket.socket(fileno=fd))
