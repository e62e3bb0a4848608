"""`ContainerRuns`: how containers of a pod start, and start again by its policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes_server.container_wishes import wish_of
from tests.kubernetes_server.containers import CannotStart, Containers, Ended, Sandbox, Wish
from tests.kubernetes_server.control_plane import ControlPlane
from tests.kubernetes_server.pod_status import ContainerRecord
from tests.kubernetes_server.pod_values import Missing, PodValues

Json = dict[str, Any]
#: Seconds between two looks at what a pod lacks: a volume, or an image that somebody may build.
LOOKS = 1.0
LONGEST_BACK_OFF = 300.0


@dataclass(frozen=True)
class Runtime:
    """What runs containers, and whom to tell of it. `back_off` gives the seconds before a container restarts for the
    second time; the first time is at once, and each later one takes twice as long."""

    plane: ControlPlane
    containers: Containers
    back_off: Callable[[], float]


class ContainerRuns:
    """The containers of a pod that run side by side. `due` has the time of each that is to start again, by name."""

    def __init__(
        self, runtime: Runtime, sandbox: Sandbox, values: PodValues, *, policy: str,
        mounts: Callable[[Json, Mapping[str, str]], list[Json]], news: Callable[[Ended], None],
        log: Callable[[str], Path],
    ) -> None:  # fmt: skip
        self._runtime, self._sandbox, self._values, self._policy = runtime, sandbox, values, policy
        self._mounts, self._news, self._log = mounts, news, log
        self._pod = values.pod
        self.due: dict[str, float] = {}

    def next_due(self) -> float | None:
        """Seconds until a container is to start again; None where none is."""
        return min(self.due.values()) - time.monotonic() if self.due else None

    def is_due(self, record: ContainerRecord) -> bool:
        return self.due.get(record.name, float("inf")) <= time.monotonic()

    def start(self, record: ContainerRecord) -> None:
        """Start a container, or note why it does not."""
        self.due.pop(record.name, None)
        record.image_id = self._runtime.containers.image_id(record.spec["image"]) or ""
        if not record.image_id:
            self._lacks_image(record)
            return
        try:
            wish = self._wish(record)
        except (Missing, CannotStart) as error:
            if record.waits_for.get("message") != str(error):
                self._event("Failed", f"Error: {error}", warning=True)
            record.wait("CreateContainerConfigError", str(error))
            self.due[record.name] = time.monotonic() + LOOKS
            return
        record.attempt += record.restarts
        record.restarts = False
        self._log(record.name).touch()
        if record.id:
            self._runtime.containers.remove(record.id)
        try:
            record.id = self._runtime.containers.create(self._pod["metadata"]["uid"], self._sandbox, wish)
            self._event("Created", f"Created container: {record.name}")
            started = self._runtime.containers.start(record.id, self._log(record.name), self._news)
        except CannotStart as error:
            self._event("Failed", f"Error: {error}", warning=True)
            record.never_start(error.reason, str(error))
            self._restart(record, failed=True)
            return
        record.state = {"running": {"startedAt": started}}
        self._event("Started", f"Started container {record.name}")

    def ended(self, record: ContainerRecord, ended: Ended) -> None:
        """Note that a container ended, and whether it starts again."""
        record.end(ended)
        self._restart(record, failed=ended.code != 0)

    def _wish(self, record: ContainerRecord) -> Wish:
        env = self._values.env(record.spec)
        name = name_of(self._pod, record.name, record.attempt + record.restarts)
        return wish_of(self._pod, record.spec, env=env, mounts=self._mounts(record.spec, env), name=name)

    def _lacks_image(self, record: ContainerRecord) -> None:
        """An image is never pulled; it is looked for again and again, since somebody may build it."""
        image, reason = record.spec["image"], record.waits_for.get("reason")
        if record.spec.get("imagePullPolicy") == "Never":
            said = f'Container image "{image}" is not present with pull policy of Never'
            if reason != "ErrImageNeverPull":
                self._event("ErrImageNeverPull", said, warning=True)
            record.wait("ErrImageNeverPull", said)
        elif reason == "ErrImagePull":
            record.wait("ImagePullBackOff", f'Back-off pulling image "{image}"')
            self._event("BackOff", f'Back-off pulling image "{image}"')
        elif reason != "ImagePullBackOff":
            said = f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": not found'
            record.wait("ErrImagePull", said)
            self._event("Failed", f'Failed to pull image "{image}": {said}', warning=True)
            self._event("Failed", "Error: ErrImagePull", warning=True)
        self.due[record.name] = time.monotonic() + 2 * LOOKS

    def _restart(self, record: ContainerRecord, *, failed: bool) -> None:
        """Decide whether a container that ended starts again, and when."""
        if self._policy == "Never" or (self._policy == "OnFailure" and not failed):
            return
        record.last, record.restarts = dict(record.state), True
        if record.attempt == 0:
            self.due[record.name] = time.monotonic()
            return
        wait = min(self._runtime.back_off() * 2 ** (record.attempt - 1), LONGEST_BACK_OFF)
        said = f"back-off {wait:g}s restarting failed container={record.name} pod={self._pod['metadata']['name']}"
        record.wait("CrashLoopBackOff", said)
        self._event("BackOff", f"Back-off restarting failed container {record.name}", warning=True)
        self.due[record.name] = time.monotonic() + wait

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self._runtime.plane.event(self._pod, reason, message, warning=warning)


def name_of(pod: Json, container: str, attempt: int) -> str:
    """The name of a container in the daemon."""
    metadata = pod["metadata"]
    # Docker's DNS says it for an address, and sends no answer at all where it is longer than a label may be.
    return f"k8s_{container[:12]}_{metadata['name'][-24:]}_{metadata['uid'][:8]}_{attempt}"
