"""What the tests of every kind of job do with its pods, each of which runs a stub of a rank."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from chaoskit.environments.environment import Ended, ExtraEvent, RunSpec
from chaoskit.environments.kubernetes.api_kinds import PODS
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment
from chaoskit.environments.kubernetes.listing import listed
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.environments.machine.sweep import sweep as sweep_machine
from tests.environments.events import arrivals, news
from tests.environments.kubernetes.test_environment import killed_harness


def starts(env: KubernetesEnvironment, node: str, *, timeout: float = 60.0) -> None:
    """Wait until the command starts on that node; no launch may end meanwhile."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        for event in env.wait(1):
            assert not isinstance(event, Ended), event
            if isinstance(event, ExtraEvent) and event.kind == "node.start" and event.data["node"] == node:
                return
    raise AssertionError(f"nothing has started on {node}")


def ends_with(env: KubernetesEnvironment, rank: int, code: int) -> Ended:
    """Have the command of a rank end with this code, and wait for the end of the launch."""
    env.order(rank, {"do": "exit", "code": code})
    env.release(rank, keep_gating=True)
    return news(env, Ended)


def suspended_and_back(env: KubernetesEnvironment, connection: Any) -> Mapping[str, Any]:
    """Suspend the job, whose two ranks are at their gates, and let it have other pods; the evidence."""
    before = {node.uid for node in env.pods.now.values()}
    evidence = env.suspend()
    assert not env.is_suspended()
    assert news(env, Ended) == Ended(0, -15), "the command got the signal, and no process had to be killed"
    assert env.is_suspended(), "it waits for pods whose containers have ended"
    assert listed(connection, PODS, RunSelector(env.pods.objects.identity, "node")).manifests == ()
    env.resume()
    env.launch(1, [])
    assert arrivals(env, 2) == {0, 1} and env.is_suspended()
    assert before.isdisjoint(node.uid for node in env.pods.now.values())
    return evidence


def sweep_after_a_kill(spec: RunSpec, kind: str) -> None:
    """Kill a harness whose job is up, and sweep: the job of that kind is among what goes."""
    killed_harness(spec)
    sweep_machine(spec.store)
    removed = KubernetesEnvironment.sweep(spec.store)
    assert any(f"{kind} chaoskit" in one for one in removed), removed
