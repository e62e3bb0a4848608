"""`ClusterAddress`: which cluster is meant, and the client for it: a context that is named, or the pod's own cluster.

The current context of a kubeconfig is never used by itself: it changes behind the user's back.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from chaoskit.errors import UsageError
from chaoskit.validation import near_miss

_DEFAULT = "~/.kube/config"


@dataclass(frozen=True)
class ClusterAddress:
    """`context` and `cluster` are names in the kubeconfig, "" inside a cluster; `server` is a URL."""

    context: str
    cluster: str
    server: str
    client: Any  # an ApiClient of the official client

    @property
    def is_own(self) -> bool:
        """Whether this process runs in a pod of it."""
        return not self.context

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which people may know the cluster."""
        return tuple(name for name in (self.context, self.cluster, urlsplit(self.server).hostname) if name)


def of_context(context: str, *, file: str | None = None) -> ClusterAddress:
    """The cluster of a context in a kubeconfig: `file`, else those of KUBECONFIG, else ~/.kube/config.

    Raises UsageError if there is no such file or context, or if the entry cannot be used.
    """
    path = kubeconfig_path(file)
    found = contexts(file)
    if not context:
        raise UsageError(f"no context is named, and chaoskit never takes the current one{near_miss('', found)}")
    if context not in found:
        raise UsageError(f"there is no context {context!r} in {path}{near_miss(context, found)}")
    config = _official("kubernetes.config")
    settings = _settings()
    try:
        # Nothing is written to the user's file, not even a token that was renewed.
        config.load_kube_config(path, context=context, client_configuration=settings, persist_config=False)
    except Exception as error:  # the client passes on whatever its parser and its plugins raise
        said = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"context {context!r} in {path} cannot be used: {said}; repair that entry") from error
    return _address(context, str(found[context].get("cluster") or ""), settings)


def in_cluster() -> ClusterAddress:
    """The cluster whose pod this process runs in. Raises UsageError elsewhere."""
    config, settings = _official("kubernetes.config"), _settings()
    try:
        config.load_incluster_config(client_configuration=settings)
    except config.ConfigException as error:
        said = str(error).rstrip(".")
        raise UsageError(f"--in-cluster: this is not a pod with a service account ({said}): use --context") from error
    return _address("", "", settings)


def contexts(file: str | None = None) -> dict[str, Mapping[str, Any]]:
    """The contexts of a kubeconfig by name. Raises UsageError if there is none that can be read."""
    path, files = kubeconfig_path(file), _official("kubernetes.config.kube_config")
    try:
        merged = files.KubeConfigMerger(path).config
        found = {node["name"]: node.value.get("context") or {} for node in merged["contexts"]} if merged else None
    except Exception as error:  # OSError, errors of the YAML parser, and whatever a file of another shape leads to
        said = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"the kubeconfig {path} cannot be read ({said}): repair it, or name another one") from error
    if found is None:
        raise UsageError(f"there is no kubeconfig at {path}: set KUBECONFIG, or give --kubeconfig FILE")
    if not found:
        raise UsageError(f"the kubeconfig {path} has no context: add one, or name another file with --kubeconfig")
    return found


def kubeconfig_path(file: str | None = None) -> str:
    """Where a kubeconfig is looked for; several files are separated as in PATH."""
    return file or os.environ.get("KUBECONFIG") or _DEFAULT


def _address(context: str, cluster: str, settings: Any) -> ClusterAddress:
    client = _official("kubernetes.client").ApiClient(configuration=settings)
    return ClusterAddress(context, cluster, str(settings.host), client)


def _settings() -> Any:
    settings = _official("kubernetes.client").Configuration()
    settings.retries = False  # its HTTP library would repeat requests by itself, without a limit of time
    return settings


def _official(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError("the Kubernetes client is not installed: pip install 'chaoskit[kubernetes]'") from error
