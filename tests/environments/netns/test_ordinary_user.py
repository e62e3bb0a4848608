"""Nothing of a partition needs root: the experiment itself, for real, as an ordinary user."""

from __future__ import annotations

import os
import sys

import pytest

from tests.users import IS_ROOT, NOBODY, REPOSITORY, home, must_have, refused, run_as_ordinary

pytestmark = pytest.mark.slow


def test_an_ordinary_user_rehearses_a_partition(request):
    must_have(request, refused())
    with home() as place:
        told = [
            sys.executable, "-m", "pytest", str(REPOSITORY / "experiments" / "test_network_partition.py"),
            "-k", "shorter or longer", "--chaos-env", "netns", "--chaos-nodes", "2", "--chaos-dir", str(place / "runs"),
            "--chaos-require", "-p", "no:cacheprovider",
        ]  # fmt: skip
        done = run_as_ordinary(told, place, timeout=300)
        assert done.returncode == 0, done.stdout
        assert "launched warm: 2 passed" in done.stdout, done.stdout
        owners = {path.lstat().st_uid for path in place.rglob("*")}
        assert len(list(place.glob("runs/runs/*/run.json"))) == 2
    assert owners == {NOBODY if IS_ROOT else os.getuid()}
