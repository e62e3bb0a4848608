"""The same tests on a cluster that is not ours to look into, and without what lies beside the repository."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.kubernetes_server import fixtures
from tests.users import REPOSITORY


@pytest.fixture
def another_cluster(tmp_path):
    """A server of another process; gives its kubeconfig."""
    command = [sys.executable, "-m", "tests.kubernetes_server", str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as serving:
        try:
            yield serving.stdout.readline().strip()
        finally:
            serving.terminate()
            assert serving.wait(timeout=60) == 0


def run_tests(kubeconfig, *words):
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *words]
    env |= {fixtures.REAL: kubeconfig}
    return subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_tests_know_nothing_of_the_server_but_by_its_fixture(another_cluster):
    names = ("discovery", "garbage", "lifecycle", "lists", "patches", "validation", "watches")
    files = [f"tests/kubernetes_server/test_{name}.py" for name in names]
    done = run_tests(another_cluster, *files)
    assert done.returncode == 0, done.stdout
    assert f"{fixtures.REAL} is set, and this test needs the hooks of our own server" in done.stdout


def test_without_definitions_only_what_needs_them_is_skipped(pytester, monkeypatch, tmp_path):
    monkeypatch.setattr(fixtures, "DEFINITIONS", tmp_path / "not-there")
    fixtures.definitions.cache_clear()
    pytester.makeconftest("from tests.kubernetes_server.fixtures import api_server, cluster, crds")
    pytester.makepyfile(
        """
        def test_ours(api_server):
            assert api_server.store.version > 1

        def test_theirs(crds):
            assert crds
        """
    )
    try:
        pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=1, skipped=1)
        pytester.runpytest("-p", "no:cacheprovider", "--chaos-require").assert_outcomes(passed=1, errors=1)
    finally:
        fixtures.definitions.cache_clear()
