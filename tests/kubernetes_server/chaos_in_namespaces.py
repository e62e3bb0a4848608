"""A back-end of Chaos Mesh that really disturbs the networks of pods whose first process is one of this machine.

It needs root. A partition drops packets where Chaos Mesh drops them: at the sender, before they leave it, and at the
receiver. A loss drops a share at the receiver, and everything else is done by the wire of virtual hosts, in both
directions: a kernel may have no netem.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chaoskit.environments.docker import network_helper
from chaoskit.environments.machine.helper_process import HelperProcess
from chaoskit.errors import ChaoskitError
from tests.kubernetes_server.chaos_in_clocks import set_clocks
from tests.kubernetes_server.chaos_in_groups import stress
from tests.kubernetes_server.chaos_in_volumes import fail_requests
from tests.kubernetes_server.chaos_rules import go_seconds

Json = dict[str, Any]
_HOOKS = {"output": "daddr", "input": "saddr"}


class NamespaceBackend:
    """`pid_of` gives the pid of a process in a pod, or in one of its containers. If `stressors_die`, the kernel kills
    them before the job."""

    def __init__(self, pid_of: Callable[..., int]) -> None:
        self._pid_of = pid_of
        self.stressors_die = False
        self._numbers = itertools.count(1)

    def apply(self, kind: str, spec: Json, pods: Mapping[str, list[Json]]) -> Callable[[], None]:
        if kind == "DNSChaos":
            return self._no_names(self._in_containers(spec, pods["."]))
        if kind == "IOChaos":
            return fail_requests(spec, self._in_containers(spec, pods["."]))
        if kind == "StressChaos":
            return stress(spec, self._in_containers(spec, pods["."]), dies=self.stressors_die)
        if kind == "TimeChaos":
            return set_clocks(spec, self._in_containers(spec, pods["."]))
        if kind != "NetworkChaos":
            raise OSError(f"{kind} is not possible here")
        if spec["action"] == "partition":
            return self._drop(self._ends(spec, pods, at_sender=True), "")
        if spec["action"] == "loss":
            share = f"numgen random mod 100000 < {round(float(spec['loss']['loss']) * 1000)} "
            return self._drop(self._ends(spec, pods, at_sender=False), share)
        return self._carry(spec, pods)

    def _in_containers(self, spec: Json, pods: list[Json]) -> list[int]:
        """A process in each container that is meant: without names, in the first one of each pod."""
        return [
            self._pid_of(pod, name)
            for pod in pods
            for name in spec.get("containerNames") or [pod["spec"]["containers"][0]["name"]]
        ]

    def _ends(
        self, spec: Json, pods: Mapping[str, list[Json]], *, at_sender: bool
    ) -> list[tuple[int, str, str]]:
        """Where packets are dropped: pid, hook and the address at the other end."""
        direction = spec.get("direction", "to")
        sides = [(pods["."], pods[".Target"])] if direction != "from" else []
        sides += [(pods[".Target"], pods["."])] if direction != "to" else []
        pairs = [(a, b) for sources, targets in sides for a in sources for b in targets]
        found = [(self._pid_of(b), "input", a["status"]["podIP"]) for a, b in pairs]
        return found + [(self._pid_of(a), "output", b["status"]["podIP"]) for a, b in pairs if at_sender]

    def _drop(self, ends: list[tuple[int, str, str]], share: str) -> Callable[[], None]:
        stop = [(pid, f"{hook} priority 0", f"ip {_HOOKS[hook]} {at} {share}drop") for pid, hook, at in ends]
        return self._rule(stop)

    def _no_names(self, pids: list[int]) -> Callable[[], None]:
        """Chaos Mesh answers that there is no such name; here nobody answers."""
        before = "output priority -300"  # Docker moves what goes to this port to another one
        return self._rule([(pid, before, f"{way} dport 53 drop") for pid in pids for way in ("udp", "tcp")])

    def _rule(self, rules: list[tuple[int, str, str]]) -> Callable[[], None]:
        made: list[tuple[int, str]] = []

        def undo() -> None:
            while made:
                pid, table = made.pop()
                try:
                    nft(pid, f"delete table {table}")
                except OSError:
                    if is_there(pid):  # what is done to a network ends with it
                        raise

        try:
            for pid, hook, rule in rules:
                table = f"inet mesh_{next(self._numbers)}"
                nft(
                    pid,
                    f"add table {table}",
                    f"add chain {table} stop {{ type filter hook {hook}; }}",
                    f"add rule {table} stop {rule}",
                )
                made.append((pid, table))
        except OSError:
            undo()
            raise
        return undo

    def _carry(self, spec: Json, pods: Mapping[str, list[Json]]) -> Callable[[], None]:
        delay = spec.get("delay") or {}
        times = {"delay": "latency", "jitter": "jitter"}
        quality: Json = {name: go_seconds(delay.get(field, "0s")) for name, field in times.items()}
        quality["corrupt"] = float((spec.get("corrupt") or {}).get("corrupt", "0"))
        rate = (spec.get("rate") or spec.get("bandwidth") or {}).get("rate")
        quality["rate"] = None if rate is None else float(rate.removesuffix("bps"))
        helpers = []
        try:
            for pod in pods["."]:
                space = f"/proc/{self._pid_of(pod)}/ns/net"
                helper = HelperProcess(Path(network_helper.__file__), "mesh", space, called="the back-end")
                helpers.append(helper)
                helper.ask("degrade", number=1, address=pod["status"]["podIP"], seed=1, **quality)
        except ChaoskitError as error:
            for helper in helpers:
                helper.close()
            raise OSError(str(error)) from error

        def undo() -> None:
            for helper in helpers:
                helper.ask("restore", number=1)
                helper.close()

        return undo


def why_not() -> str | None:
    """Why this machine cannot disturb the network of a pod; None if it can."""
    if os.geteuid():
        return "only root disturbs the networks of pods"
    lacking = [tool for tool in ("nft", "ip", "nsenter") if not shutil.which(tool)]
    return f"there is no {', '.join(lacking)}" if lacking else None


def nft(pid: int, *lines: str) -> None:
    """Run lines of nftables in the network namespace of a process; raises OSError."""
    inside(pid, ["nft", "-f", "-"], "\n".join(lines) + "\n")


def is_there(pid: int) -> bool:
    """Whether a process is in a network namespace; one that is being ended is in none."""
    try:
        return bool(os.readlink(f"/proc/{pid}/ns/net"))
    except OSError:
        return False


def inside(pid: int, command: list[str], text: str = "") -> None:
    """Run a command in the network namespace of a process; raises OSError."""
    entered = ["nsenter", f"--net=/proc/{pid}/ns/net", *command]
    done = subprocess.run(entered, input=text, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise OSError(" ".join(done.stderr.split()))
