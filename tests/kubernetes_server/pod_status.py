"""The status of a pod from what its kubelet knows of its containers. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes_server.containers import Ended

Json = dict[str, Any]
CREATING: Json = {"waiting": {"reason": "ContainerCreating"}}
INITIALIZING: Json = {"waiting": {"reason": "PodInitializing"}}
ENDED = ("Succeeded", "Failed")


@dataclass
class ContainerRecord:
    """What became of one container of a pod. `id` is that of the daemon; `attempt` counts its restarts, and `restarts`
    says that another one is due."""

    spec: Json
    state: Json = field(default_factory=lambda: dict(CREATING))
    last: Json = field(default_factory=dict)
    id: str = ""
    image_id: str = ""
    attempt: int = 0
    restarts: bool = False

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def runs(self) -> bool:
        return "running" in self.state

    @property
    def code(self) -> int | None:
        """How it ended; None where it has not."""
        return self.state["terminated"]["exitCode"] if "terminated" in self.state else None

    def end(self, ended: Ended) -> None:
        """Note that it ended."""
        reason = "OOMKilled" if ended.out_of_memory else "Error" if ended.code else "Completed"
        about = {"exitCode": ended.code, "reason": reason, "startedAt": ended.started, "finishedAt": ended.finished}
        self.state = {"terminated": about | {"containerID": f"docker://{ended.container}"}}

    def never_start(self, reason: str, message: str) -> None:
        """Note that its command could not be started."""
        epoch = "1970-01-01T00:00:00Z"
        about = {"exitCode": 128, "reason": reason, "message": message, "startedAt": epoch, "finishedAt": epoch}
        self.state = {"terminated": about}

    def wait(self, reason: str, message: str) -> None:
        """Note what it waits for."""
        self.state = {"waiting": {"reason": reason, "message": message}}

    @property
    def waits_for(self) -> Json:
        """The reason and the message; {} where it does not wait."""
        return self.state.get("waiting") or {}

    def status(self, *, initial: bool = False) -> Json:
        """As the API has it."""
        about: Json = {
            "name": self.name, "image": self.spec["image"], "imageID": self.image_id, "restartCount": self.attempt,
            "ready": self.code == 0 if initial else self.runs, "started": self.runs, "state": self.state,
            "lastState": self.last,
        }  # fmt: skip
        return about | ({"containerID": f"docker://{self.id}"} if self.id else {})


def phase_of(main: Sequence[ContainerRecord], initial: Sequence[ContainerRecord], *, over: bool) -> str:
    """The phase of a pod; `over` says that nothing of it starts again."""
    if over:
        return "Succeeded" if all(one.code == 0 for one in main) else "Failed"
    begun = any(one.runs or "terminated" in one.state or one.attempt for one in main)
    return "Running" if begun and all(one.code == 0 for one in initial) else "Pending"


def conditions(
    before: Sequence[Json], main: Sequence[ContainerRecord], initial: Sequence[ContainerRecord], *, phase: str,
    sandbox: bool, time: str,
) -> list[Json]:  # fmt: skip
    """The conditions of a pod on a node; a time changes with its status alone."""
    initialized = all(one.code == 0 for one in initial) or phase == "Succeeded"
    waiting = " ".join(one.name for one in initial if one.code != 0)
    unready = " ".join(one.name for one in main if not one.runs)
    ready: Json = {"status": "True"}
    if phase in ENDED:
        ready = {"status": "False", "reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
    elif unready:
        said = f"containers with unready status: [{unready}]"
        ready = {"status": "False", "reason": "ContainersNotReady", "message": said}
    said = f"containers with incomplete status: [{waiting}]"
    not_yet = {"status": "False", "reason": "ContainersNotInitialized", "message": said}
    wanted: dict[str, Json] = {
        "PodReadyToStartContainers": {"status": str(sandbox)},
        "Initialized": {"status": "True"} if initialized else not_yet,
        "Ready": ready, "ContainersReady": ready, "PodScheduled": {"status": "True"},
    }  # fmt: skip
    return with_conditions(before, wanted, time=time)


def with_conditions(before: Sequence[Json], wanted: dict[str, Json], *, time: str) -> list[Json]:
    """Conditions by their type in place of those of these types."""
    had = {one["type"]: one for one in before}
    for kind, about in wanted.items():
        same = had.get(kind, {}).get("status") == about["status"]
        since = had[kind].get("lastTransitionTime", time) if same else time
        had[kind] = {"type": kind, **about, "lastTransitionTime": since}
    return list(had.values())
