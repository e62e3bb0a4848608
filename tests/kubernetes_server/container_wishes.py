"""From the specification of a container in a pod to what the container runtime is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.kubernetes_server.admission import quantity
from tests.kubernetes_server.containers import CannotStart, Wish
from tests.kubernetes_server.pod_values import expand

Json = dict[str, Any]
#: Docker takes no smaller limit of the memory.
LEAST_MEMORY = 6 * 2**20


def wish_of(pod: Json, container: Json, *, env: Mapping[str, str], mounts: Sequence[Json], name: str) -> Wish:
    """Raises CannotStart for what this kubelet gives to nobody: privileges, and capabilities beyond the usual ones."""
    own = (pod["spec"].get("securityContext") or {}) | (container.get("securityContext") or {})
    capabilities = own.get("capabilities") or {}
    if own.get("privileged") or capabilities.get("add") or pod["spec"].get("hostNetwork"):
        raise CannotStart("CreateContainerConfigError", "no pod has privileges on this node")
    host: Json = {"cap_drop": list(capabilities.get("drop") or ())}
    if own.get("readOnlyRootFilesystem"):
        host["read_only"] = True
    if own.get("allowPrivilegeEscalation") is False:
        host["security_opt"] = ["no-new-privileges"]
    if groups := own.get("supplementalGroups"):
        host["group_add"] = [str(group) for group in groups]
    limits = (container.get("resources") or {}).get("limits") or {}
    if "memory" in limits:
        host["mem_limit"] = host["memswap_limit"] = max(LEAST_MEMORY, int(quantity(limits["memory"])))
    if "cpu" in limits:
        host["nano_cpus"] = int(quantity(limits["cpu"]) * 10**9)
    user = str(own.get("runAsUser", ""))
    return Wish(
        name, container["image"],
        entrypoint=[expand(word, env) for word in container.get("command") or ()],
        command=[expand(word, env) for word in container.get("args") or ()],
        env=env, working_dir=container.get("workingDir", ""),
        user=f"{user or 0}:{own['runAsGroup']}" if "runAsGroup" in own else user,
        mounts=mounts, host=host,
    )  # fmt: skip
