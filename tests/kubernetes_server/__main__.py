"""Serve until interrupted, to look around with the official client: `python -m tests.kubernetes_server DIRECTORY`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.kubernetes_server.fixtures import definitions
from tests.kubernetes_server.server import KubernetesServer


def main(directory: Path) -> None:
    """Serve, and print the path of a kubeconfig in the directory."""
    server = KubernetesServer(definitions=definitions())
    server.start()
    print(server.kubeconfig(directory), flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    server.stop()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main(Path(sys.argv[1]))
