"""`RemoteHarness`: chaoskit in a pod of the cluster, for somebody whose machine does not have the volume."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from chaoskit.environments.kubernetes import objects, permissions, pod_trouble
from chaoskit.environments.kubernetes.api_kinds import CONFIG_MAPS, PODS
from chaoskit.environments.kubernetes.cluster import connection_to
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.harness_inside import PACKED
from chaoskit.environments.kubernetes.harness_pod import GRACE, HARNESS, harness_pod
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.pod_exec import execute
from chaoskit.environments.kubernetes.pod_manifest import LONGEST_POD
from chaoskit.environments.kubernetes.pods import UP_LIMIT
from chaoskit.environments.kubernetes.returned_files import MOST
from chaoskit.environments.machine import scratch
from chaoskit.errors import ChaoskitError, ExitCode, UsageError
from chaoskit.nodes import ClusterPlace

ROLE, SETTINGS_ROLE = "harness", "settings"
_LOOK = 1.0
#: What the cluster calls a container whose command is not in the image.
_NO_START = ("StartError", "ContainerCannotRun")
#: Seconds for fetching the files, and the room that an archive needs beyond them.
_FETCH, _SPARE = 300.0, 64 * 2**20


class RemoteHarness:
    """One pod in which chaoskit runs. `image` has chaoskit, `account` is the service account that may make the run's
    objects, and `settings` are the files in the directory where it starts, by name: such as chaoskit.toml."""

    def __init__(self, place: ClusterPlace, *, image: str, account: str, settings: Mapping[str, str]) -> None:
        self._place, self._image, self._account, self._settings = place, image, account, settings
        self._connection: ClusterConnection = connection_to(place)
        self._id = f"harness-{os.getpid()}-{uuid4().hex[:8]}"
        self.pod = f"chaoskit-{self._id}"
        self._mark = f"chaoskit-has-ended-{uuid4().hex}"

    def run(
        self,
        words: Sequence[str],
        *,
        show: Callable[[bytes], None],
        fetch: Callable[[bytes], None],
        limit: float = UP_LIMIT,
    ) -> int:
        """Run chaoskit with these words; returns its exit code. `show` gets its output as it comes, and `fetch` the
        archive of its files. The pod is removed whatever happens.

        If this is interrupted, chaoskit is told to end, and has the pod's grace to clean up. Raises UsageError if the
        pod cannot run, ClusterError if the API server fails.
        """
        permissions.must_have(self._connection, self._place.namespace)
        objects.sweep(self._connection, self._place.namespace)
        directory = scratch.make(self._id)
        try:
            made = RunObjects(
                self._connection, namespace=self._place.namespace, run_id=self._id, run_dir=directory, harness=self.pod
            )
            try:
                return self._run(made, words, show, fetch, limit)
            finally:
                report = made.close()
                if report.sentences:
                    raise ChaoskitError("; ".join(report.sentences))
        finally:
            scratch.remove(self._id)

    def _run(
        self,
        made: RunObjects,
        words: Sequence[str],
        show: Callable[[bytes], None],
        fetch: Callable[[bytes], None],
        limit: float,
    ) -> int:
        settings = f"{self.pod}-settings"
        made.create(CONFIG_MAPS, _config_map(settings, self._settings), role=SETTINGS_ROLE)
        spec = harness_pod(
            self._place, image=self._image, arguments=["kubernetes", "inside", "--mark", self._mark, "--", *words],
            service_account=self._account, settings=settings, deadline=LONGEST_POD,
        )  # fmt: skip
        body = {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": {"name": self.pod}, "spec": spec}
        uid = str(made.create(PODS, body, role=ROLE, node=0)["metadata"]["uid"])
        output = _Output(self._mark, show)
        try:
            self._wait_for_start(limit)
            code = self._follow(output)
        except KeyboardInterrupt:
            made.remove(PODS, role=ROLE, uid=uid, grace=GRACE)
            with suppress(ChaoskitError):  # the pod ends meanwhile
                self._follow(output)
            return ExitCode.INTERRUPTED
        if output.code is not None:
            target = ApiTarget(PODS, self._place.namespace, self.pod)
            fetch(execute(self._connection, target, HARNESS, ["cat", PACKED], most=MOST + _SPARE, limit=_FETCH))
        return code

    def _wait_for_start(self, limit: float) -> None:
        """Raises UsageError for a pod that cannot run, or does not within `limit` seconds."""
        deadline = time.monotonic() + limit
        while True:
            pod = self._pod()
            status = pod.get("status") or {}
            states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
            failed = [one["terminated"] for one in states if (one.get("terminated") or {}).get("reason") in _NO_START]
            if failed:
                said = " ".join(str(failed[0].get("message") or failed[0]["reason"]).split())
                raise UsageError(
                    f"the pod of chaoskit cannot run in namespace {self._place.namespace}: {said}: --harness-image "
                    "must name an image that has chaoskit[kubernetes]"
                )
            if any("running" in one or "terminated" in one for one in states):
                return
            why = pod_trouble.hopeless(pod) or pod_trouble.ended(pod)
            if why or time.monotonic() > deadline:
                why = why or pod_trouble.waits_for(pod) or f"it does not start within {limit:g} s"
                raise UsageError(f"the pod of chaoskit cannot run in namespace {self._place.namespace}: {why}")
            time.sleep(_LOOK)

    def _follow(self, output: _Output) -> int:
        """Show the output until chaoskit has ended; returns its exit code. A log that breaks off is read again."""
        deadline = None
        while True:
            try:
                with self._connection.follow(ApiTarget(PODS, self._place.namespace, self.pod)) as pieces:
                    output.take_again(pieces)
            except ClusterError as error:
                if not error.passing:
                    raise
                deadline = deadline or time.monotonic() + self._connection.patience
                if time.monotonic() > deadline:
                    raise
            else:
                deadline = None
            if output.code is not None:
                return output.code
            how = pod_trouble.ended(pod := self._pod())
            if how is not None:
                return _code_of(pod, how)
            time.sleep(_LOOK)

    def _pod(self) -> dict[str, Any]:
        """Raises ChaoskitError if the pod is gone."""
        try:
            return self._connection.get(ApiTarget(PODS, self._place.namespace, self.pod))
        except ClusterError as error:
            if error.status != 404:
                raise
            said = f"the pod {self.pod} of chaoskit was removed by somebody else: run this again"
            raise ChaoskitError(said) from error


class _Output:
    """The output of the pod from its beginning, of which each byte is shown once. `code` is what its last line says."""

    def __init__(self, mark: str, show: Callable[[bytes], None]) -> None:
        self._mark, self._show = f"\n{mark} ".encode(), show
        self._shown = 0
        self._held = b""
        self.code: int | None = None

    def take_again(self, pieces: Any) -> None:
        """Take the output from its beginning; what has been shown is skipped. Returns when it ends, or at the mark."""
        to_skip, self._held = self._shown, b""
        for piece in pieces:
            self._held += piece[to_skip:]
            to_skip = max(0, to_skip - len(piece))
            before, found, after = self._held.partition(self._mark)
            if found and b"\n" in after:
                self._give(before)
                self.code = int(after.split(b"\n")[0])
                return
            if not found:
                # The beginning of the mark may be at the end.
                keep = next((n for n in range(len(self._mark), 0, -1) if self._held.endswith(self._mark[:n])), 0)
                self._give(self._held[: len(self._held) - keep])
                self._held = self._held[len(self._held) - keep :]

    def _give(self, text: bytes) -> None:
        self._shown += len(text)
        if text:
            self._show(text)


def _config_map(name: str, files: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name}
    kind = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind}
    return {**kind, "metadata": metadata, "data": dict(files)}


def _code_of(pod: dict[str, Any], how: str) -> int:
    """The exit code of the container. Raises ChaoskitError if it did not end by itself."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if 0 <= int(ended.get("exitCode", -1)) <= 128 or ended.get("exitCode") == ExitCode.INTERRUPTED:
            return int(ended["exitCode"])
    raise ChaoskitError(f"the pod of chaoskit was ended from outside ({how}): see its events, and run this again")
