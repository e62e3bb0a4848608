"""Which cluster is meant: always a context that is named, and never more than the kubeconfig says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml

from chaoskit.environments.kubernetes import kubeconfig
from chaoskit.errors import ExitCode, UsageError


def config(*names, current="", **cluster):
    """The content of a kubeconfig with contexts of these names."""
    server = {"server": "http://127.0.0.1:1", **cluster}
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": current,
        "clusters": [{"name": "ours", "cluster": server}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
        "contexts": [{"name": name, "context": {"cluster": "ours", "user": "me"}} for name in names],
    }  # fmt: skip


@pytest.fixture
def written(tmp_path):
    def write(content, name="config"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return write


def refused(call, said):
    with pytest.raises(UsageError, match=said) as raised:
        call()
    assert raised.value.exit_code == ExitCode.USAGE and "\n" not in str(raised.value)


def test_a_context_that_is_named(written):
    path = written(config("staging", "other", current="other"))
    before = Path(path).read_text()
    found = kubeconfig.of_context("staging", file=path)
    assert (found.context, found.cluster, found.server) == ("staging", "ours", "http://127.0.0.1:1")
    assert found.names == ("staging", "ours", "127.0.0.1")
    assert found.client.configuration.retries is False
    assert Path(path).read_text() == before


def test_the_current_context_is_never_taken(written):
    path = written(config("staging", current="staging"))
    refused(lambda: kubeconfig.of_context("", file=path), "no context is named.*there are staging")


def test_a_near_miss(written):
    path = written(config("staging", "dev"))
    said = f"no context 'stagign' in {path}; did you mean 'staging'"
    refused(lambda: kubeconfig.of_context("stagign", file=path), said)


def test_files_of_the_variable_are_merged(written, monkeypatch):
    files = [written(config("one"), "a"), written(config("two"), "b")]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(files))
    assert set(kubeconfig.contexts()) == {"one", "two"}
    assert kubeconfig.of_context("two").context == "two"


@pytest.mark.parametrize("current", [{"current-context": "gone"}, {}])
def test_a_broken_current_context_does_not_matter(written, current):
    content = {**config("staging"), **current}
    if not current:
        del content["current-context"]
    assert kubeconfig.of_context("staging", file=written(content)).context == "staging"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "cannot be read"),
        ("a: [", "cannot be read"),
        ("just words", "cannot be read"),
        ("[1, 2]", "cannot be read"),
        ({**config("staging"), "contexts": [{"context": {}}]}, "cannot be read"),
        (config(), "has no context"),
        ({**config("staging"), "clusters": []}, "context 'staging' in .* cannot be used: .*clusters"),
        (config("staging", server="https://x", **{"certificate-authority": "/gone"}), "cannot be used: .*/gone"),
        ({**config("staging"), "users": [{"name": "me", "user": {"tokenFile": "/gone"}}]}, "cannot be used: .*/gone"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(written, content, said):
    path = written(content)
    refused(lambda: kubeconfig.of_context("staging", file=path), said)


def test_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    refused(lambda: kubeconfig.of_context("staging"), "no kubeconfig at .*none: set KUBECONFIG")
    refused(lambda: kubeconfig.of_context("staging", file=str(tmp_path)), "cannot be read.*directory")


def test_outside_of_a_pod(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    refused(kubeconfig.in_cluster, "not a pod with a service account.*use --context")


def test_inside_of_a_pod(tmp_path, monkeypatch):
    from kubernetes.config import incluster_config

    for name, content in (("TOKEN", "t0ken"), ("CERT", "cert")):
        (tmp_path / name).write_text(content)
        monkeypatch.setattr(incluster_config, f"SERVICE_{name}_FILENAME", str(tmp_path / name))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.1.2.3")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("kubernetes.client.ApiClient", lambda configuration: configuration)
    found = kubeconfig.in_cluster()
    assert (found.context, found.cluster, found.server) == ("", "", "https://10.1.2.3:443")
    assert "bearer t0ken" in found.client.api_key.values()


def test_without_the_client_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "kubernetes"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    refused(lambda: kubeconfig.contexts(), r"pip install 'chaoskit\[kubernetes\]'")
